"""Fits an engine's few numbers to measured points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evaluator.arithmetic import FloatArray, dot, solve
from evaluator.inputs.engines.engine_profiles import EngineProfile, with_numbers

# Fitted number -> (smallest, largest, step of the finite difference, spread of the prior about the start).
FITTED: Mapping[str, tuple[float, float, float, float]] = {
    "prefill_factor": (0.5, 2.5, 0.02, 0.3),
    "decode_factor": (0.5, 2.0, 0.02, 0.2),
    "step_ms": (0.0, 20.0, 0.05, 2.0),
    "step_per_decode_ms": (0.0, 0.2, 0.002, 0.02),
    "step_per_prompt_ms": (0.0, 40.0, 0.2, 5.0),
    "request_ms": (0.0, 300.0, 1.0, 40.0),
    "prompt_step_ms": (0.0, 100.0, 0.5, 10.0),
    "replica_wait_steps": (0.0, 100.0, 1.0, 10.0),
    "layer_ms": (0.0, 5.0, 0.02, 0.2),
    "latent_layer_ms": (0.0, 5.0, 0.02, 0.5),
}
CORNER = 0.15  # log error from which a point pulls with constant force: outliers do not decide
PRIOR_POINTS = 4.0  # how many points at the corner the starting values weigh
# A fit has converged when a round lowers the loss by less than LEAST_GAIN of it and moves every number by less than
# LEAST_MOVE of its prior's spread, or when no step that is longer than STILL lowers the loss at all.
LEAST_GAIN, LEAST_MOVE, STILL = 1e-9, 1e-3, 1e-5
MOST_ROUNDS = 100  # usual: 4 to 12
FIRST_DAMPING, MORE_DAMPING, LESS_DAMPING = 1e-2, 4.0, 8.0  # of the diagonal, where a plain step does not help


class MeasuredPoint(Protocol):
    """`weight` lets a large group count less a point."""

    @property
    def weight(self) -> float: ...

    def log_errors(self, engine: EngineProfile) -> tuple[float, ...]:
        """log(predicted / measured), as many for every point of a fit."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineFit:
    """Not converged: it ran out of rounds, and other numbers may be better."""

    profile: EngineProfile
    loss: float
    rounds: int
    converged: bool


def fit_engine(
    points: Sequence[MeasuredPoint],
    start: EngineProfile,
    *,
    names: Sequence[str] = (),
    begin: EngineProfile | None = None,
    most_rounds: int = MOST_ROUNDS,
) -> EngineFit:
    """Least Huber loss of log errors, near `start` where points say little.

    Levenberg-Marquardt with central differences, from `begin` (default `start`). J. Nocedal and S. Wright, Numerical
    Optimization, 2nd ed., section 10.3; bounds hold what would leave them."""
    search = _Search(points, start, tuple(names) or tuple(FITTED))
    at, damping = search.stand(begin or start), 0.0
    for done in range(most_rounds):
        slope = search.slope(at)
        while True:
            step = search.step(at, slope, damping)
            move = float(np.max(np.abs(step) / search.spread))
            candidate = search.stand(search.moved(at.profile, step))
            if candidate.loss < at.loss:
                break
            if move < STILL:
                return EngineFit(profile=at.profile, loss=at.loss, rounds=done, converged=True)
            damping = max(MORE_DAMPING * damping, FIRST_DAMPING)
        gain, at = (at.loss - candidate.loss) / at.loss, candidate
        damping = damping / LESS_DAMPING if damping > FIRST_DAMPING else 0.0
        if gain < LEAST_GAIN and move < LEAST_MOVE:
            return EngineFit(profile=at.profile, loss=at.loss, rounds=done + 1, converged=True)
    return EngineFit(profile=at.profile, loss=at.loss, rounds=most_rounds, converged=False)


def log_errors(points: Sequence[MeasuredPoint], engine: EngineProfile) -> FloatArray:
    return np.asarray([point.log_errors(engine) for point in points], dtype=np.float64)


def loss_of(points: Sequence[MeasuredPoint], errors: FloatArray) -> float:
    return float(dot(huber(errors).sum(axis=1), [point.weight for point in points]))


def huber(errors: FloatArray) -> FloatArray:
    """Quadratic up to CORNER, linear beyond."""
    size = np.abs(errors)
    return np.where(size <= CORNER, 0.5 * size**2, CORNER * (size - 0.5 * CORNER))


@dataclass(frozen=True, slots=True)
class _Stand:
    profile: EngineProfile
    errors: FloatArray
    loss: float


class _Search:
    """Loss around a profile, and its quadratic model."""

    def __init__(self, points: Sequence[MeasuredPoint], start: EngineProfile, names: tuple[str, ...]) -> None:
        self.points, self.start, self.names = points, start, names
        self.low, self.high, self.difference, self.spread = np.asarray([FITTED[name] for name in names]).T
        self.prior = PRIOR_POINTS * CORNER**2 / self.spread**2

    def stand(self, profile: EngineProfile) -> _Stand:
        errors = log_errors(self.points, profile)
        pull = 0.5 * float(np.sum(self.prior * np.square(self._values(profile) - self._values(self.start))))
        return _Stand(profile, errors, loss_of(self.points, errors) + pull)

    def slope(self, at: _Stand) -> tuple[FloatArray, FloatArray]:
        slopes = np.stack([self._slope_of(at.profile, index) for index in range(len(self.names))])
        weights = np.repeat([point.weight for point in self.points], at.errors.shape[1])
        weighted = slopes * (weights * _huber_weight(at.errors.ravel()))
        normal = np.stack([dot(slopes, row) for row in weighted]) + np.diag(self.prior)
        away = self._values(at.profile) - self._values(self.start)
        return normal, -(dot(weighted, at.errors.ravel()) + self.prior * away)

    def step(self, at: _Stand, slope: tuple[FloatArray, FloatArray], damping: float) -> FloatArray:
        normal, downhill = slope
        values = self._values(at.profile)
        room = np.stack((self.low - values, self.high - values), axis=1)
        return _bounded_step(normal + damping * np.diag(np.diag(normal)), downhill, room)

    def moved(self, profile: EngineProfile, step: FloatArray) -> EngineProfile:
        values = np.clip(self._values(profile) + step, self.low, self.high)
        return with_numbers(profile, dict(zip(self.names, values.tolist(), strict=True)))

    def _values(self, profile: EngineProfile) -> FloatArray:
        return np.asarray([getattr(profile, name) for name in self.names], dtype=np.float64)

    def _slope_of(self, profile: EngineProfile, index: int) -> FloatArray:
        value, distance = float(getattr(profile, self.names[index])), self.difference[index]
        ends = [
            float(np.clip(value + side, self.low[index], self.high[index])) for side in (-float(distance), distance)
        ]
        below, above = (log_errors(self.points, with_numbers(profile, {self.names[index]: end})) for end in ends)
        return np.asarray((above - below).ravel() / (ends[1] - ends[0]))


def _bounded_step(normal: FloatArray, downhill: FloatArray, room: FloatArray) -> FloatArray:
    """Numbers that hit a bound are held there, the rest solved again."""
    step, free = np.zeros(downhill.size), np.ones(downhill.size, dtype=np.bool_)
    for _ in range(downhill.size):
        if not free.any():
            break
        pull = downhill[free] - dot(normal[np.ix_(free, ~free)], step[~free])
        step[free] = solve(normal[np.ix_(free, free)], pull)
        outside = free & ((step < room[:, 0] - 1e-12) | (step > room[:, 1] + 1e-12))
        if not outside.any():
            break
        step[outside] = np.clip(step[outside], room[outside, 0], room[outside, 1])
        free &= ~outside
    return step


def _huber_weight(errors: FloatArray) -> FloatArray:
    return np.asarray(np.minimum(1.0, CORNER / np.maximum(np.abs(errors), 1e-12)))
