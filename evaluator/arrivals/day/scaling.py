"""Replicas through a day: constant, by schedule, or following the rate.

Pure: rates in, replicas out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import FloatArray, Integers

HOUR = 60  # minutes
MOST_FOLLOWING = 256  # replicas that follow a queue, where no maximum is given
_ROUNDED = 1e-9  # of a replica


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """Costs of starting and stopping, and bounds; `spare` replicas stand in for lost ones."""

    start_up: int  # minutes that a replica is paid for before it serves
    cool_down: int  # minutes that it serves on after it was last needed
    minimum: int = 1
    maximum: int | None = None
    spare: int = 0

    def needed(self, rates_per_s: FloatArray, goodput: float) -> Integers:
        """With spares, whatever the maximum is."""
        serving = np.maximum(1, np.ceil(rates_per_s / goodput - _ROUNDED)).astype(np.int64)
        return np.maximum(self.minimum, serving + self.spare)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Scaled:
    """Serving replicas by minute, and paid minutes."""

    ready: Integers
    paid_minutes: int

    def of_hours(self) -> Integers:
        return peaks(self.ready)


def peaks(values: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = np.maximum.reduceat(values, np.arange(0, values.size, HOUR))
    return found


def static(needed: Integers, scaling: Scaling, minutes: int) -> Scaled:
    """The busiest hour's need all day."""
    most = int(needed.max())
    return Scaled(ready=np.full(minutes, most), paid_minutes=most * (minutes + scaling.start_up))


def scheduled(needed: Integers, scaling: Scaling, minutes: int) -> Scaled:
    """Fewest paid minutes.

    The n-th replica runs where n are needed, and through gaps where stopping costs as much: its cool-down and another
    start."""
    wanted = np.repeat(needed, HOUR)[:minutes]
    ready, starts = np.zeros(minutes, dtype=np.int64), 0
    for level in range(1, int(needed.max()) + 1):
        ends, begins = _edges(wanted >= level)
        starts += 1
        ready[begins[0] : ends[-1] + scaling.cool_down] += 1
        for end, begin in zip(ends[:-1], begins[1:], strict=True):
            if begin - end > scaling.cool_down + scaling.start_up:
                ready[end + scaling.cool_down : begin] -= 1
                starts += 1
    return Scaled(ready=ready, paid_minutes=int(ready.sum()) + starts * scaling.start_up)


def reactive(rates_per_s: FloatArray, goodput: float, scaling: Scaling) -> Scaled:
    """A planner that knows goodput a replica and follows the rate a minute late."""
    seen = np.concatenate((rates_per_s[:1], rates_per_s[:-1]))
    wanted = np.minimum(scaling.needed(seen, goodput), scaling.maximum or np.iinfo(np.int64).max)
    paid = _over(wanted, scaling.cool_down, np.maximum)
    return Scaled(
        ready=_over(paid, scaling.start_up, np.minimum),
        paid_minutes=int(paid.sum()) + int(paid[0]) * scaling.start_up,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTarget:
    """Requests a replica to aim at: waiting, or waiting and running."""

    counted: Literal["queue", "ongoing"]
    per_replica: float


class Follower:
    """Replicas are the count over its target, a minute late as in `reactive`."""

    def __init__(self, target: QueueTarget, scaling: Scaling, first: int) -> None:
        self._target, self._scaling = target.per_replica, scaling
        self._wanted, self._paid, self._ready = [first], [first], list[int]()

    def ready(self, minute: int, counted: int) -> int:
        if minute > 0:
            needed = int(self._scaling.needed(np.asarray([float(counted)]), self._target)[0])
            self._wanted.append(min(needed, self._scaling.maximum or MOST_FOLLOWING))
            self._paid.append(max(self._wanted[-1 - self._scaling.cool_down :]))
        self._ready.append(min(self._paid[max(0, minute - self._scaling.start_up) :]))
        return self._ready[-1]

    @property
    def scaled(self) -> Scaled:
        paid = sum(self._paid) + self._paid[0] * self._scaling.start_up
        return Scaled(ready=np.asarray(self._ready, dtype=np.int64), paid_minutes=paid)


def _edges(on: NDArray[np.bool_]) -> tuple[Integers, Integers]:
    turns = np.diff(np.concatenate(([0], on.astype(np.int64), [0])))
    return np.flatnonzero(turns < 0), np.flatnonzero(turns > 0)


def _over(values: Integers, before: int, of: np.ufunc) -> Integers:
    """Extreme over each minute and those before; the first minute extends back."""
    held = np.concatenate((np.full(before, values[0]), values))
    found: Integers = of.reduce(np.lib.stride_tricks.sliding_window_view(held, before + 1), axis=1)
    return found
