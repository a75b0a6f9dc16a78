"""Batch sizes worth storing: all that fit, and an eighth beyond."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from evaluator.evaluate import batch_source, cost_of
from evaluator.graph.operators import OperatorSet
from evaluator.scenario import Scenario
from evaluator.serving.batches import BatchSource
from evaluator.serving.interface import Run
from evaluator.serving.occupancy import memory_bytes, seats_of
from store.light_dataclass import dataclass

LARGEST_BATCH = 8192  # of a replica
LARGEST_WAVES = 64
USERS_A_SEAT = 4  # more of them wait longer, and change nothing else
FIRST_BLOCK = 512  # batch sizes that are looked at first for one that does not fit


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRange:
    """1 to `last`; `largest_fitting` (0: none) has no reserve, at the mean charge."""

    largest_fitting: int
    last: int


def batch_range(
    scenario: Scenario,
    operators: Mapping[str, OperatorSet],
    *,
    source: BatchSource | None = None,
    ceiling: int | None = None,
    known: int = 0,
) -> BatchRange:
    """Every integer that fits, and an eighth beyond.

    Capped at 8,192 a replica, four times max-num-seqs (or `ceiling`), and 64 waves of prefill. At least one, so
    that a question can say how far off it was. `known` sizes fit."""
    chosen = source or batch_source(scenario)
    most = most_worth(scenario, chosen, ceiling)
    run = Run(
        scenario=scenario,
        operators=operators,
        source=chosen,
        cost=cost_of(scenario),
        batch_sizes=np.arange(1, most + 1, dtype=np.int64),
    )
    return range_up_to(most, _largest_fitting(run, known))


def most_worth(scenario: Scenario, source: BatchSource, ceiling: int | None) -> int:
    if ceiling is None:
        seats = seats_of(scenario)
        ceiling = LARGEST_BATCH if seats is None else USERS_A_SEAT * seats
    if scenario.phase == "prefill":
        all_at_once = np.asarray([LARGEST_BATCH * scenario.plan.pp], dtype=np.int64)
        waves = LARGEST_WAVES * int(source.wave_requests(all_at_once)[0])
        ceiling = min(ceiling, -(-waves // scenario.plan.pp))
    return max(1, min(LARGEST_BATCH, ceiling))


def range_up_to(most: int, fitting: int) -> BatchRange:
    return BatchRange(largest_fitting=fitting, last=min(most, max(1, fitting + -(-fitting // 8))))


def _largest_fitting(run: Run, start: int) -> int:
    """The last before the first that does not fit, in growing blocks.

    The first `start` fit."""
    end = max(4 * start, FIRST_BLOCK)
    while start < run.batch_sizes.size:
        fits = fitting_of(replace(run, batch_sizes=run.batch_sizes[start:end]))
        if not fits.all():
            return start + int(np.argmin(fits))
        start, end = end, end * 4
    return int(run.batch_sizes.size)


def fitting_of(run: Run) -> NDArray[np.bool_]:
    used = memory_bytes(run, mean_only=True).used("mean")
    return np.asarray(used <= run.scenario.device.memory_bytes)
