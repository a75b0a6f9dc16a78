"""Replicas by hour, found by simulating: more where limits are missed, fewer where kept.

Pure: the simulation is passed in."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import Integers

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
