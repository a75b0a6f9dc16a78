"""Levenberg-Marquardt on log parameters and log errors, with the same bits everywhere: no BLAS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluator.arithmetic import dot, solve
from evaluator.calibration.forms.base import Array

SOFT_ERROR = 0.1  # log error beyond which a point pulls like |error| instead of error squared
LARGEST_STEP = 0.7  # of a log parameter in one iteration
DIFFERENCE = 1e-5  # of a log parameter, for the slopes
# Of a log parameter: where one may stand. Last digits, which differ by the processor, vanish before they add up.
GRID_DIGITS = 8
# Cost of a log parameter one away from its standard value, times the square: a kernel fitted to 10 % costs about 0.3.
# Fewer rows than FEW are believed less, by the square of their number: nine parameters fit 35 rows too well.
PULL, FEW = 1e-5, 350

Residuals = Callable[[Array], Array]


@dataclass(frozen=True, slots=True, kw_only=True)
class Box:
    """Bounds of log parameters, and values that unidentified ones are drawn to."""

    low: Array
    high: Array
    standard: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """Until a step gains less than `tolerance`, or `iterations`."""

    tolerance: float
    iterations: int


ROUGH = Effort(tolerance=1e-6, iterations=60)  # tells the better of two starts
TIGHT = Effort(tolerance=1e-11, iterations=300)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """The cost is the mean soft-L1 of rows, and the pull."""

    point: Array
    cost: float
    converged: bool = True


def fit_log(residuals: Residuals, start: Array, box: Box, effort: Effort = TIGHT) -> Solution:
    """Minimises soft-L1 of `residuals` (log predicted - log measured) within a box.

    Deterministic. Damping is Marquardt's, scaled by the normal matrix's diagonal; parameters that would leave the box
    are held."""
    point = _on_grid(start, box)
    errors = residuals(point)
    cost, damping = _cost(errors, point, box), 1e-2
    for _ in range(effort.iterations):
        before = cost
        normal, gradient = _model(residuals, point, errors, box)
        free = ~(((point <= box.low) & (gradient > 0)) | ((point >= box.high) & (gradient < 0)))
        for _ in range(10):
            candidate = _on_grid(point + _step(normal, gradient, free, damping), box)
            candidate_errors = residuals(candidate)
            candidate_cost = _cost(candidate_errors, candidate, box)
            if candidate_cost < cost:
                point, errors, cost = candidate, candidate_errors, candidate_cost
                damping = max(damping / 4, 1e-6)
                break
            damping *= 4
        if before - cost < effort.tolerance * before:
            return Solution(point=point, cost=cost)
    return Solution(point=point, cost=cost, converged=False)


def _on_grid(point: Array, box: Box) -> Array:
    return np.clip(np.round(point, GRID_DIGITS), box.low, box.high)


def _cost(errors: Array, point: Array, box: Box) -> float:
    soft = np.sqrt(1 + (errors / SOFT_ERROR) ** 2) - 1
    return float(np.mean(soft) + _pull(errors.size) * np.sum((point - box.standard) ** 2))


def _pull(rows: int) -> float:
    return PULL * max(1.0, FEW / rows) ** 2


def _model(residuals: Residuals, point: Array, errors: Array, box: Box) -> tuple[Array, Array]:
    slopes = _slopes(residuals, point, errors, box.high)
    weights = 1 / (np.sqrt(1 + (errors / SOFT_ERROR) ** 2) * (SOFT_ERROR**2 * errors.size))
    weighted = slopes * weights
    normal = np.stack([dot(slopes, row) for row in weighted])
    pull = 2 * _pull(errors.size)
    return normal + pull * np.eye(point.size), dot(weighted, errors) + pull * (point - box.standard)


def _slopes(residuals: Residuals, point: Array, errors: Array, high: Array) -> Array:
    """d error / d log parameter, [parameter, row]."""
    slopes = np.empty((point.size, errors.size))
    for index in range(point.size):
        moved = point.copy()
        moved[index] += DIFFERENCE if point[index] + DIFFERENCE <= high[index] else -DIFFERENCE
        slopes[index] = (residuals(moved) - errors) / (moved[index] - point[index])
    return slopes


def _step(normal: Array, gradient: Array, free: np.typing.NDArray[np.bool_], damping: float) -> Array:
    step = np.zeros(gradient.size)
    if free.any():
        chosen = normal[np.ix_(free, free)]
        diagonal = np.diag(chosen)
        step[free] = solve(chosen + damping * np.diag(diagonal), -gradient[free])
    return np.clip(step, -LARGEST_STEP, LARGEST_STEP)
