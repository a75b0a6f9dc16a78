"""TTFT of requests in step, beside those that drift as their engine's do.

Equal requests end and come together; whether they stay so is a fact of the server. Simulated sizes depend on the
scenario, never on the range asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, exp, log

EVERY_UP_TO = 16
GROWTH = 1.15


def ladder_of(wanted: Integers, seats: int | None) -> list[int]:
    """Small sizes, then five a doubling, around the wanted ones; and max-num-seqs, above which requests wait."""
    sizes = _steps_up_to(int(wanted.max()), seats)
    first = max(0, int(np.searchsorted(sizes, int(wanted.min()), side="right")) - 2)
    return sizes[first:]


def coarser(wanted: Integers, seats: int | None) -> list[int]:
    """For smooth numbers: 1, 2, 4, 8, 16, then every second one."""
    sizes = [
        size
        for place, size in enumerate(_steps_up_to(max(int(wanted.max()), EVERY_UP_TO), seats))
        if (size & (size - 1) == 0 if size <= EVERY_UP_TO else (place - EVERY_UP_TO) % 2)
    ]
    first = max(0, int(np.searchsorted(sizes, int(wanted.min()), side="right")) - 1)
    return sizes[first : int(np.searchsorted(sizes, int(wanted.max()))) + 1]


def most_played(wanted: Integers, seats: int | None) -> int:
    return max(ladder_of(wanted, seats)[-1], coarser(wanted, seats)[-1])


def _steps_up_to(largest: int, seats: int | None) -> list[int]:
    sizes = list(range(1, EVERY_UP_TO + 1))
    while sizes[-2] < largest:
        sizes.append(round(sizes[-1] * GROWTH))
    if seats is not None and seats < sizes[-1]:
        sizes = sorted({*sizes, seats})
    return sizes[: int(np.searchsorted(sizes, largest)) + 2]


def between(wanted: Integers, played: Iterable[int], values: Sequence[float]) -> FloatArray:
    return exp(np.interp(log(wanted), log(list(played)), log(values)))


if TYPE_CHECKING:
    from evaluator.serving.engine.closed_run import ServedTimes

DRIFTING = 0.9  # of a length: a client that draws shorter ones has different lengths, and no users in step
MANY = 64  # users, from which on playing every round takes long
APART = 1.5  # times between first tokens of users in step and apart, from which one number says too much


def in_step_ttft(
    replica: ServedTimes, batch_sizes: Integers, drifting: FloatArray, played: Callable[[int], float]
) -> FloatArray:
    """NaN within APART of `drifting`.

    `played` gives drifting seconds at simulated sizes; the ratio is interpolated. NaN, too, where the engine keeps
    requests in step anyway, or they differ."""
    engine = replica.engine
    if not DRIFTING <= engine.client.shortest < 1.0 or len(replica.kernels.kinds) > 1:
        return np.full(batch_sizes.shape, np.nan)
    locked = replace(
        replica,
        engine=replace(engine, client=replace(engine.client, shortest=1.0)),
        loop=replace(replica.loop, shortest=1.0),
    )
    sizes = coarser(batch_sizes, replica.loop.seats)
    ratio = between(batch_sizes, sizes, [_ttft_s(locked, size) / played(size) for size in sizes])
    # 400 ms drifting and 700 in step: 1.75 times. 400 and 250: 1.6 times. Both are apart.
    return np.where(np.maximum(ratio, 1.0 / ratio) > APART, ratio * drifting, np.nan)


def _ttft_s(locked: ServedTimes, users: int) -> float:
    rounds = locked.engine.client.prompts_per_user
    if users <= MANY or rounds <= 3:
        return locked.closed(users).ttft_s
    two, three = (_of_rounds(locked, count).closed(users).ttft_s for count in (2, 3))
    # Means of 6 s over two rounds and 5 s over three: the third took 15 - 12 = 3 s, and ten take (12 + 8 x 3) / 10.
    return (2.0 * two + (rounds - 2.0) * (3.0 * three - 2.0 * two)) / rounds


def _of_rounds(locked: ServedTimes, count: int) -> ServedTimes:
    client = replace(locked.engine.client, prompts_per_user=count)
    return replace(locked, engine=replace(locked.engine, client=client))
