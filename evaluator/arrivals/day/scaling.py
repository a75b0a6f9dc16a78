"""Replicas through a day: constant, by schedule, following the rate, or found by simulating.

Pure: rates in, replicas out; the simulation is passed in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import FloatArray, Integers

Hours = NDArray[np.bool_]
_RAISES = 12  # doubling: 2^12 replicas more at the end
_LOWERS = 40


class LimitsUnmetError(Exception):
    def __init__(self, hour: int) -> None:
        super().__init__(f"hour {hour}")
        self.hour = hour


def fewest_by_hour(missed: Callable[[Integers], Hours], first: Integers, least: int) -> Integers:
    """From `first` on, never below `least`.

    At most 64 simulations; LimitsUnmetError where more replicas do not help."""
    kept = _raised(missed, first)
    lowered = _Lowering(kept, least).ended(missed)
    return kept if np.array_equal(lowered, kept) else _raised(missed, lowered)


def _raised(missed: Callable[[Integers], Hours], needed: Integers) -> Integers:
    step = np.ones_like(needed)
    for _ in range(_RAISES):
        late = missed(needed)
        if not late.any():
            return needed
        needed = needed + np.where(late, step, 0)
        step = np.where(late, 2 * step, step)
    raise LimitsUnmetError(int(np.flatnonzero(late)[0]))


class _Lowering:
    """Every second hour gets fewer: 1, 4, 16 ... while all is kept, then half as many.

    Neighbours do not change together, since a queue is missed in the next hour."""

    def __init__(self, kept: Integers, least: int) -> None:
        self.needed, self.least = kept, least
        self.step = np.ones_like(kept)
        self.grows = np.ones(kept.size, dtype=np.bool_)
        self.open = kept > least

    def ended(self, missed: Callable[[Integers], Hours]) -> Integers:
        parity, turn = np.arange(self.needed.size) % 2, 0
        for _ in range(_LOWERS):
            if not self.open.any():
                break
            turn = turn if (self.open & (parity == turn)).any() else 1 - turn
            mine = self.open & (parity == turn)
            tried = np.where(mine, np.maximum(self.least, self.needed - self.step), self.needed)
            self._judge(mine, tried, missed(tried))
            turn = 1 - turn
        return self.needed

    def _judge(self, mine: Hours, tried: Integers, late: Hours) -> None:
        blamed, unknown = _blamed(late, mine)
        self.grows &= ~blamed
        self.needed = np.where(blamed | unknown, self.needed, tried)
        judged = mine & ~unknown
        self.open &= ~(judged & ~self.grows & (self.step == 1)) & (self.needed > self.least)
        self.step = np.where(judged, np.where(self.grows, 4 * self.step, np.maximum(1, self.step // 2)), self.step)


def _blamed(late: Hours, lower: Hours) -> tuple[Hours, Hours]:
    """Lowered hours to blame, and those not yet judged.

    To blame: the last before each run of missed hours, or its first."""
    blamed = np.zeros_like(lower)
    for hour in np.flatnonzero(late & ~np.concatenate(([False], late[:-1]))):
        before = np.flatnonzero(lower[: hour + 1])
        if before.size == 0:
            return lower, np.zeros_like(lower)
        blamed[before[-1]] = True
    return blamed, late & lower & ~blamed


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
