"""Models, devices, plans and workloads in; step times, latencies and memory out; every result a row of the store.

A scenario is evaluated by `evaluate_scenario` (pure: operators in, a block of probes out) and explained by
`explain_step`; a request for many is evaluated and stored by `run_sweep`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.evaluate import capture_requests as capture_requests
    from evaluator.evaluate import evaluate_scenario as evaluate_scenario
    from evaluator.explain import explain_step as explain_step
    from evaluator.graph import capture_operators as capture_operators
    from evaluator.inputs import DeviceProfile as DeviceProfile
    from evaluator.inputs import Plan as Plan
    from evaluator.inputs import Precision as Precision
    from evaluator.inputs import Workload as Workload
    from evaluator.inputs import list_devices as list_devices
    from evaluator.inputs import list_models as list_models
    from evaluator.inputs import load_device as load_device
    from evaluator.inputs import load_model as load_model
    from evaluator.probe_block import ProbeBlock as ProbeBlock
    from evaluator.request import NamedModel as NamedModel
    from evaluator.request import SweepRequest as SweepRequest
    from evaluator.request import planned_scenarios as planned_scenarios
    from evaluator.scenario import Scenario as Scenario
    from evaluator.sweep import Progress as Progress
    from evaluator.sweep import SweepReport as SweepReport
    from evaluator.sweep import run_sweep as run_sweep

__getattr__, __dir__ = lazy_face(__name__)
