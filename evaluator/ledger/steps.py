"""Where a series changed its level: piecewise constant in logs, with as few pieces as pay.

Least squares by dynamic programming (Jackson et al., An algorithm for optimal partitioning of data on an interval,
2005). A step pays beyond the noise's variance times the log of their number (Yao, Estimating the number of
change-points via Schwarz' criterion, 1988)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

_PENALTY = (
    5.0  # variances a step, by log(days): Schwarz' criterion has 2 to 3; noise is not quite normal, nor its size known
)
_LEAST_DAYS = 3  # of a piece: a day or two that are off are days that are off
_WIDEST = 3.0  # deviations at which a day stops pulling
_LEAST_NOISE = 1e-6  # of a series that repeats itself: sums round by less
_NORMAL = 1.4826  # of a median absolute deviation to a standard deviation of normal noise

Floats = npt.NDArray[np.float64]


class LevelStep(NamedTuple):
    at: int
    before: float
    after: float

    @property
    def change_percent(self) -> float:
        return 100 * (self.after / self.before - 1)


def level_steps(values: Sequence[float], weights: Sequence[float] | None = None) -> list[LevelStep]:
    """A positive value a day, weighing as its number of runs."""
    logs = np.log(np.asarray(values, dtype=np.float64))
    weighed = np.ones_like(logs) if weights is None else np.asarray(weights, dtype=np.float64)
    if len(logs) < 2 * _LEAST_DAYS:
        return []
    noise = _noise(logs)
    edges = _edges(_without_spikes(logs - logs.mean(), noise), weighed / weighed.mean(), max(noise, _LEAST_NOISE))
    levels = [math.exp(float(np.median(logs[start:end]))) for start, end in pairwise(edges)]
    return [LevelStep(at, *pair) for at, *pair in zip(edges[1:-1], levels, levels[1:], strict=False)]


def _noise(logs: Floats) -> float:
    """A day's deviation, from neighbours: a step is in one difference alone."""
    return float(_NORMAL * np.median(np.abs(np.diff(logs))) / math.sqrt(2))


def _without_spikes(logs: Floats, noise: float) -> Floats:
    """Days far from the median of five pull no more than usual."""
    padded = np.pad(logs, 2, mode="edge")
    around = np.median(np.lib.stride_tricks.sliding_window_view(padded, 5), axis=1)
    return np.clip(logs, around - _WIDEST * noise, around + _WIDEST * noise)


def _edges(logs: Floats, weights: Floats, noise: float) -> list[int]:
    count = len(logs)
    weight, first, second = (_summed(part) for part in (weights, weights * logs, weights * logs * logs))
    penalty = _PENALTY * noise * noise * math.log(count)
    cost, came = np.full(count + 1, np.inf), np.zeros(count + 1, dtype=np.int64)
    cost[0] = -penalty
    for end in range(_LEAST_DAYS, count + 1):
        start = np.arange(end - _LEAST_DAYS + 1)
        sums = first[end] - first[start]
        found = cost[start] + penalty + second[end] - second[start] - sums * sums / (weight[end] - weight[start])
        came[end] = int(np.argmin(found))
        cost[end] = found[came[end]]
    edges = [count]
    while edges[-1]:
        edges.append(int(came[edges[-1]]))
    return edges[::-1]


def _summed(values: Floats) -> Floats:
    return np.concatenate([[0.0], np.cumsum(values)])
