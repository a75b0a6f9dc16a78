"""An engine as the serving model of a scenario: times of every batch size, by its closed loop or of a phase alone.

Batch sizes between those that are played are interpolated. Not here: the scheduler itself
(evaluator.serving.closed_loop)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluator.serving.batches import BatchSource, FixedLengths
from evaluator.serving.closed_loop import ClosedLoop, LoopTimes, decode_steps_s, simulate
from evaluator.serving.engines import EngineProfile, engine_profile, list_engines
from evaluator.serving.formulas import PrefillCompletion, RequestTimes, request_times
from evaluator.serving.phases import Integers, Run, Scenario
from evaluator.serving.step_tables import StepTable, TableExtents, step_table
from evaluator.sums import FloatArray
from store.errors import InputError

EVERY_UP_TO = 16
GROWTH = 1.15
_WAVES = "--serving-model waves"


def engine_of(scenario: Scenario) -> EngineProfile | None:
    """The engine of a scenario, under the token budget of its workload; None where formulas serve."""
    engine = scenario.engine
    if engine is None and scenario.serving_model in list_engines():
        engine = engine_profile(scenario.serving_model)
    return None if engine is None else replace(engine, token_budget=scenario.workload.max_batched_tokens)


def refusal(scenario: Scenario, source: BatchSource) -> InputError | None:
    """Why an engine cannot serve this scenario; None where it can."""
    name = scenario.serving_model
    if scenario.convention == "upstream":
        return InputError(f"{name} has no upstream convention", hint=f"--convention physical, or {_WAVES}")
    if not isinstance(source, FixedLengths):
        return InputError(f"{name} serves one prompt length, not a distribution", hint=_WAVES)
    if scenario.workload.mtp_tokens:
        return InputError(f"{name} drafts no tokens: --num-mtp-tokens must be 0", hint=_WAVES)
    if scenario.plan.pp > 1:
        return InputError(f"{name} has no pipeline stages: pp must be 1, not {scenario.plan.pp}", hint=_WAVES)
    return None


def closed_loop_times(run: Run, engine: EngineProfile) -> tuple[PrefillCompletion, RequestTimes]:
    """TTFT with the time until every prompt of a batch that is all there has a first token, and times of a request;
    by batch size: users of one replica, each asking again."""
    scenario, output = run.scenario, run.scenario.workload.output_length
    table, played = _table(run, engine), played_sizes(run.batch_sizes)
    client, replicas = engine.client, scenario.plan.dp
    loops = [
        simulate(
            table,
            engine,
            ClosedLoop(
                users=int(size),
                output_length=round(output),
                prompts=client.prompts_per_user * int(size),
                shortest=client.shortest,
                poll_steps=client.poll_steps,
                replicas=replicas,
            ),
        )
        for size in played
    ]
    ttft = _between(run.batch_sizes, played, [one.ttft_s for one in loops])
    tpot = _between(run.batch_sizes, played, [one.tpot_exclusive_s for one in loops])
    makespan = _between(
        run.batch_sizes, played, [_prompts_alone(table, engine, int(size)).makespan_s for size in played]
    )
    completion = PrefillCompletion(mean=ttft, makespan=makespan)
    return completion, request_times(ttft, ttft + max(output - 1.0, 0.0) * tpot, output)


def prompts_alone(run: Run, engine: EngineProfile) -> PrefillCompletion:
    """A prefill instance: prompts of each batch that are all there at the start."""
    table, played = _table(run, engine), played_sizes(run.batch_sizes)
    times = [_prompts_alone(table, engine, int(size)) for size in played]
    return PrefillCompletion(
        mean=_between(run.batch_sizes, played, [one.ttft_s for one in times]),
        makespan=_between(run.batch_sizes, played, [one.makespan_s for one in times]),
    )


def decodes_alone(run: Run, engine: EngineProfile) -> FloatArray:
    """A decode instance: seconds of a step of each batch size."""
    steps = np.asarray(decode_steps_s(_table(run, engine), engine))
    return np.asarray(steps[run.batch_sizes])


def _prompts_alone(table: StepTable, engine: EngineProfile, prompts: int) -> LoopTimes:
    return simulate(table, engine, ClosedLoop(users=prompts, output_length=1, prompts=prompts))


def _table(run: Run, engine: EngineProfile) -> StepTable:
    scenario, source, largest = run.scenario, run.source, int(run.batch_sizes.max())
    error = refusal(scenario, source)
    if error is not None or not isinstance(source, FixedLengths):
        raise error or InputError(f"{scenario.serving_model} serves one prompt length")
    mean = (1.0 + engine.client.shortest) / 2
    extents = TableExtents(
        input_length=source.new_tokens,
        decode_keys=mean * (source.input_length + scenario.workload.output_length / 2),
        sequences=largest,
        tokens=min(engine.token_budget, largest * source.new_tokens) + largest,
    )
    # A phase alone has one trace; what the table takes from the other is not asked for.
    traces = {name: run.operators.get(name) or run.operators[scenario.phase] for name in ("prefill", "decode")}
    return step_table(traces, run.cost, extents, windows=source.windows, replicas=scenario.plan.dp)


def played_sizes(batch_sizes: Integers) -> Integers:
    """Every small size, then about five for each doubling; the smallest and largest always."""
    sizes = [int(batch_sizes.min())]
    while sizes[-1] < int(batch_sizes.max()):
        step = sizes[-1] + 1 if sizes[-1] < EVERY_UP_TO else round(sizes[-1] * GROWTH)
        sizes.append(min(step, int(batch_sizes.max())))
    return np.asarray(sizes, dtype=np.int64)


def _between(wanted: Integers, played: Integers, values: list[float]) -> FloatArray:
    """Linear in the logarithms."""
    return np.asarray(np.exp(np.interp(np.log(wanted), np.log(played), np.log(values))))
