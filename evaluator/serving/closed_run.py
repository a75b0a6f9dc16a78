"""The closed loop as a serving model of a scenario: times of every batch size, under an engine's profile.

Batch sizes between those that are played are interpolated in their logarithm. Not here: the scheduler itself
(evaluator.serving.closed_loop)."""

from __future__ import annotations

import numpy as np

from evaluator.serving.batches import FixedLengths
from evaluator.serving.closed_loop import ClosedLoop, simulate
from evaluator.serving.engines import EngineProfile, list_engines
from evaluator.serving.formulas import RequestTimes, request_times
from evaluator.serving.phases import Run
from evaluator.serving.step_tables import TableExtents, step_table
from evaluator.sums import FloatArray
from store.errors import InputError

EVERY_UP_TO = 16
GROWTH = 1.15


def is_engine(serving_model: str) -> bool:
    """Whether a serving model is an engine's closed loop."""
    return serving_model in list_engines()


def closed_loop_times(run: Run, engine: EngineProfile) -> tuple[FloatArray, RequestTimes]:
    """TTFT in seconds, and the times of a request, by batch size: users of one replica, each asking again."""
    scenario, source = run.scenario, _checked(run)
    largest = int(run.batch_sizes.max())
    output = scenario.workload.output_length
    extents = TableExtents(
        input_length=source.new_tokens,
        decode_keys=source.input_length + output / 2,
        sequences=largest,
        tokens=max(source.token_budget, engine.token_budget) + largest,
    )
    table = step_table(run.operators, run.cost, extents, windows=source.windows, replicas=scenario.plan.dp)
    played = played_sizes(run.batch_sizes)
    loops = [
        simulate(table, engine, ClosedLoop(users=int(size), output_length=round(output), replicas=scenario.plan.dp))
        for size in played
    ]
    ttft, tpot = (
        _between(run.batch_sizes, played, np.asarray([getattr(one, name) for one in loops]))
        for name in ("ttft_s", "tpot_exclusive_s")
    )
    return ttft, request_times(ttft, ttft + max(output - 1.0, 0.0) * tpot, output)


def played_sizes(batch_sizes: FloatArray | np.ndarray) -> np.ndarray:
    """Every small size, then about seven for each doubling; the smallest and largest always."""
    sizes = [int(batch_sizes.min())]
    while sizes[-1] < int(batch_sizes.max()):
        step = sizes[-1] + 1 if sizes[-1] < EVERY_UP_TO else round(sizes[-1] * GROWTH)
        sizes.append(min(step, int(batch_sizes.max())))
    return np.asarray(sizes)


def _between(wanted: np.ndarray, played: np.ndarray, values: FloatArray) -> FloatArray:
    return np.asarray(np.exp(np.interp(np.log(wanted), np.log(played), np.log(values))))


def _checked(run: Run) -> FixedLengths:
    scenario = run.scenario
    if not isinstance(run.source, FixedLengths):
        raise InputError("an engine's closed loop needs one prompt length", hint="--serving-model waves has bins")
    if scenario.plan.pp > 1:
        raise InputError("an engine's closed loop has no pipeline stages", hint="--serving-model waves has them")
    if scenario.workload.mtp_tokens:
        raise InputError("an engine's closed loop has no drafts", hint="--serving-model waves has them")
    if scenario.convention == "upstream":
        raise InputError("the upstream convention has waves only", hint="leave --serving-model away")
    return run.source
