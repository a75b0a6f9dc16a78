"""Fits an engine's few numbers to measured points.

Not here: what a point is (evaluator.ledger.fitting.fit_points) and figures of errors (evaluator.ledger.scoring)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
ROUNDS = 6
CORNER = 0.15  # log error from which a point pulls with constant force: outliers do not decide
PRIOR_POINTS = 4.0  # how many points at the corner the starting values weigh


class MeasuredPoint(Protocol):
    """A measured point. `weight` lets a large group count less a point."""

    @property
    def weight(self) -> float:
        """How much the point counts."""
        ...

    def log_errors(self, engine: EngineProfile) -> tuple[float, ...]:
        """log(predicted / measured) of what was measured; as many for every point of a fit."""
        ...


def fit_engine(
    points: Sequence[MeasuredPoint],
    start: EngineProfile,
    *,
    names: Sequence[str] = (),
    begin: EngineProfile | None = None,
) -> EngineProfile:
    """The profile whose log errors have the least Huber loss, near `start` where points say little.

    Gauss-Newton with numerical derivatives, from `begin` (by default `start`); deterministic. A step that does not
    lower the loss is shortened."""
    chosen = tuple(names) or tuple(FITTED)
    profile = begin or start
    errors = log_errors(points, profile)
    for _ in range(ROUNDS):
        step = _newton_step(points, profile, start, errors, chosen)
        for share in (1.0, 0.4, 0.15, 0.05):
            candidate = _moved(profile, chosen, share * step)
            found = log_errors(points, candidate)
            if _loss(points, found, candidate, start, chosen) < _loss(points, errors, profile, start, chosen):
                profile, errors = candidate, found
                break
        else:
            break
    return profile


def loss_of(points: Sequence[MeasuredPoint], profile: EngineProfile) -> float:
    """The Huber loss of the log errors, which a fit brings down."""
    return _loss(points, log_errors(points, profile), profile, profile, ())


def log_errors(points: Sequence[MeasuredPoint], engine: EngineProfile) -> FloatArray:
    """log(predicted / measured), [point, what was measured of it]."""
    return np.asarray([point.log_errors(engine) for point in points], dtype=np.float64)


def _newton_step(
    points: Sequence[MeasuredPoint],
    profile: EngineProfile,
    start: EngineProfile,
    errors: FloatArray,
    names: Sequence[str],
) -> FloatArray:
    columns = []
    for name in names:
        moved = with_numbers(profile, {name: getattr(profile, name) + FITTED[name][2]})
        columns.append(((log_errors(points, moved) - errors) / FITTED[name][2]).ravel())
    slopes = np.stack(columns)
    weights = np.repeat([point.weight for point in points], errors.shape[1]) * _huber_weight(errors.ravel())
    spread = np.asarray([FITTED[name][3] for name in names])
    prior = PRIOR_POINTS * CORNER**2 / spread**2
    away = np.asarray([getattr(profile, name) - getattr(start, name) for name in names])
    weighted = slopes * weights
    normal = np.stack([dot(slopes, row) for row in weighted]) + np.diag(prior)
    downhill = -(dot(weighted, errors.ravel()) + prior * away)
    return _bounded_step(normal, downhill, _room(profile, names))


def _room(profile: EngineProfile, names: Sequence[str]) -> FloatArray:
    """How far each number may move down and up, [number, 2]."""
    return np.asarray(
        [(FITTED[name][0] - getattr(profile, name), FITTED[name][1] - getattr(profile, name)) for name in names]
    )


def _bounded_step(normal: FloatArray, downhill: FloatArray, room: FloatArray) -> FloatArray:
    """The minimum of the quadratic model inside the bounds: numbers that hit one are held there, the rest solved
    again."""
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


def _loss(
    points: Sequence[MeasuredPoint],
    errors: FloatArray,
    profile: EngineProfile,
    start: EngineProfile,
    names: Sequence[str],
) -> float:
    size = np.abs(errors)
    huber = np.where(size <= CORNER, 0.5 * size**2, CORNER * (size - 0.5 * CORNER)).sum(axis=1)
    data = float(dot(huber, [point.weight for point in points]))
    away = [(getattr(profile, name) - getattr(start, name)) / FITTED[name][3] for name in names]
    return data + 0.5 * PRIOR_POINTS * CORNER**2 * float(np.sum(np.square(away)))


def _moved(profile: EngineProfile, names: Sequence[str], step: FloatArray) -> EngineProfile:
    values = {
        name: float(np.clip(getattr(profile, name) + change, FITTED[name][0], FITTED[name][1]))
        for name, change in zip(names, step, strict=True)
    }
    return with_numbers(profile, values)
