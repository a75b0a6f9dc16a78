"""Serving by an engine's scheduler: a closed loop of users, or one phase alone, over tables of step times.

Every shipped engine is a serving model of its name; a profile of the user's own is served the same way."""

from __future__ import annotations

import numpy as np

from evaluator.inputs.devices.shipped_calibrations import stands_in
from evaluator.inputs.engines.engine_profiles import (
    described,
    label_of_engine,
    list_engines,
)
from evaluator.scenario import Scenario, required_engine
from evaluator.serving.batches import BatchSource
from evaluator.serving.columns import (
    MS,
    completion_columns,
    decode_columns,
    decode_periods,
    fullest_wave,
    gained_tokens,
    prefill_columns,
)
from evaluator.serving.engine.closed_run import (
    closed_loop_times,
    decodes_alone,
    kinds_of,
    prompt_service_s,
    prompts_alone,
    refusal,
    replica_of,
)
from evaluator.serving.engine.tier_loads import said_of_loads
from evaluator.serving.interface import Columns, Run, ServingModel
from evaluator.serving.models import OWN_ENGINE
from evaluator.serving.occupancy import seated
from evaluator.serving.sources import batches_of
from evaluator.serving.waves.wave_latencies import PrefillCompletion
from store.errors import InputError
from store.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The scheduler of the scenario's engine: its own profile, or the shipped one of the serving model's name."""

    def source(self, scenario: Scenario) -> BatchSource:
        return batches_of(scenario, "even")

    def refusal(self, scenario: Scenario, source: BatchSource) -> InputError | None:  # noqa: ARG002  any lengths
        return refusal(scenario)

    def said(self, scenario: Scenario) -> tuple[str, ...]:
        engine, launch = required_engine(scenario), scenario.launch
        named = scenario.engine or engine
        said = [f"engine {label_of_engine(named)}: {described(engine)}"]
        if (other := stands_in(scenario.device, named.name)) is not None:
            said.append(f"no kernels are fitted to {named.name} on {scenario.device.name}: those of {other} stand in")
        if launch.wait_steps and scenario.phase == "aggregated":
            said.append(f"prompts wait {launch.wait_steps} decode steps for others to join them")
        if launch.seats is not None and scenario.phase == "aggregated":
            said.append(f"at most {launch.seats} requests of a replica are served at once; others wait")
        if scenario.workload.tiers and scenario.phase != "decode":
            said += said_of_loads(scenario, kinds_of(scenario, self.source(scenario)))
        return tuple(said)

    def parts(self, run: Run) -> list[slice]:
        return [slice(0, run.batch_sizes.size)]

    def prefill(self, run: Run) -> Columns:
        cost_s, engine = run.scenario.serving_cost_ms / MS, required_engine(run.scenario)
        replica = replica_of(run, engine)
        alone = prompts_alone(replica, run.requests)
        completion = PrefillCompletion(mean=alone.mean + cost_s, makespan=alone.makespan + cost_s)
        service = np.full(run.batch_sizes.shape, MS * prompt_service_s(replica))
        return {
            **prefill_columns(run, fullest_wave(run)),
            **completion_columns(completion),
            "prompt_service_ms": service,
        }

    def decode(self, run: Run) -> Columns:
        cost_s, engine = run.scenario.serving_cost_ms / MS, required_engine(run.scenario)
        step, quantiles = decode_periods(run, cost_s)
        tpot = MS * (decodes_alone(replica_of(run, engine), run.requests) + cost_s) / gained_tokens(run)
        return {**decode_columns(run, step), **quantiles, "tpot_inclusive_ms": tpot, "tpot_exclusive_ms": tpot}

    def aggregated(self, run: Run) -> Columns:
        """The closed loop of as many users as the batch holds; steps of those that have a seat."""
        step, quantiles = decode_periods(seated(run), 0.0)
        full = fullest_wave(seated(run))
        found = closed_loop_times(run, required_engine(run.scenario))
        return {
            **prefill_columns(run, full),
            **decode_columns(run, step),
            **quantiles,
            **completion_columns(found.completion),
            "ttft_in_step_ms": MS * found.in_step,
            "e2e_ms": MS * found.times.e2e,
            "tpot_inclusive_ms": MS * found.times.tpot_inclusive,
            "tpot_exclusive_ms": MS * found.times.tpot_exclusive,
        }


MODELS: dict[str, ServingModel] = dict.fromkeys((*list_engines(), OWN_ENGINE), Engine())
