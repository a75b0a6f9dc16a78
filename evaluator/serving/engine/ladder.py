"""Which numbers of users a closed loop is played for, and what lies between them. They depend on the scenario, never on
the range that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, exp, log

EVERY_UP_TO = 16
GROWTH = 1.15


def ladder_of(wanted: Integers, seats: int | None) -> list[int]:
    """Every small size, then five for each doubling: those around the wanted ones, and one more on each side. The
    number of seats is among them: above it users wait for one."""
    sizes = _steps_up_to(int(wanted.max()), seats)
    first = max(0, int(np.searchsorted(sizes, int(wanted.min()), side="right")) - 2)
    return sizes[first:]


def coarser(wanted: Integers, seats: int | None) -> list[int]:
    """A ladder with fewer sizes, for what is smooth: 1, 2, 4, 8, 16, then every second one."""
    sizes = [
        size
        for place, size in enumerate(_steps_up_to(max(int(wanted.max()), EVERY_UP_TO), seats))
        if (size & (size - 1) == 0 if size <= EVERY_UP_TO else (place - EVERY_UP_TO) % 2)
    ]
    first = max(0, int(np.searchsorted(sizes, int(wanted.min()), side="right")) - 1)
    return sizes[first : int(np.searchsorted(sizes, int(wanted.max()))) + 1]


def most_played(wanted: Integers, seats: int | None) -> int:
    """The largest size of both."""
    return max(ladder_of(wanted, seats)[-1], coarser(wanted, seats)[-1])


def _steps_up_to(largest: int, seats: int | None) -> list[int]:
    sizes = list(range(1, EVERY_UP_TO + 1))
    while sizes[-2] < largest:
        sizes.append(round(sizes[-1] * GROWTH))
    if seats is not None and seats < sizes[-1]:
        sizes = sorted({*sizes, seats})
    return sizes[: int(np.searchsorted(sizes, largest)) + 2]


def between(wanted: Integers, played: Iterable[int], values: Sequence[float]) -> FloatArray:
    """Linear in the logarithms."""
    return exp(np.interp(log(wanted), log(list(played)), log(values)))
