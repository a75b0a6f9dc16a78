"""Robust fit of positive parameters to measured times: Levenberg-Marquardt on log parameters and log errors. Numpy
only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evaluator.calibration.forms.base import Array

SOFT_ERROR = 0.1  # log error beyond which a point pulls like |error| instead of error squared
LARGEST_STEP = 0.7  # of a log parameter in one iteration
ITERATIONS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Log parameters and the mean soft-L1 cost they reach."""

    point: Array
    cost: float


def _cost(errors: Array) -> float:
    return float(np.mean(np.sqrt(1 + (errors / SOFT_ERROR) ** 2) - 1))


def _jacobian(residuals: Callable[[Array], Array], point: Array, errors: Array, high: Array) -> Array:
    columns = np.empty((errors.size, point.size))
    for index in range(point.size):
        moved = point.copy()
        moved[index] += 1e-4 if point[index] + 1e-4 <= high[index] else -1e-4
        columns[:, index] = (residuals(moved) - errors) / (moved[index] - point[index])
    return columns


def fit_log(residuals: Callable[[Array], Array], start: Array, low: Array, high: Array) -> Solution:
    """Minimise the soft-L1 cost of `residuals` (log predicted - log measured) over a box of log parameters.

    Deterministic: no random numbers. The damping follows Marquardt (scaled by the diagonal of the normal matrix)."""
    point = np.clip(start, low, high)
    errors = residuals(point)
    cost, damping = _cost(errors), 1e-2
    for _ in range(ITERATIONS):
        columns = _jacobian(residuals, point, errors, high)
        weights = 1 / np.sqrt(1 + (errors / SOFT_ERROR) ** 2)
        weighted = columns * weights[:, None]
        normal, gradient = weighted.T @ columns, weighted.T @ errors
        diagonal = np.diag(normal) + 1e-9 * np.trace(normal) + 1e-12
        before = cost
        for _ in range(8):
            step = -np.linalg.solve(normal + damping * np.diag(diagonal), gradient)
            candidate = np.clip(point + np.clip(step, -LARGEST_STEP, LARGEST_STEP), low, high)
            candidate_errors = residuals(candidate)
            candidate_cost = _cost(candidate_errors)
            if candidate_cost < cost:
                point, errors, cost = candidate, candidate_errors, candidate_cost
                damping = max(damping / 4, 1e-6)
                break
            damping *= 4
        if before - cost < 1e-6 * before:
            break
    return Solution(point=point, cost=cost)
