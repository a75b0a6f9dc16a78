"""Models, devices, plans and workloads in; step times, latencies and memory out.

`evaluate_scenario` and `explain_step` are pure; `run_sweep` evaluates and stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.evaluate import capture_requests, evaluate_scenario
    from evaluator.explain import explain_step
    from evaluator.graph import capture_operators
    from evaluator.inputs import (
        DeviceProfile,
        Plan,
        Precision,
        Workload,
        list_devices,
        list_models,
        load_device,
        load_model,
    )
    from evaluator.probe_block import ProbeBlock
    from evaluator.request import NamedModel, SweepRequest, planned_scenarios
    from evaluator.scenario import Scenario
    from evaluator.sweep import Progress, SweepReport, run_sweep

__getattr__, __dir__ = lazy_face(__name__)
