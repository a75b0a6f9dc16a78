"""Factors near measured points: a Gaussian process through the errors that an engine leaves.

Also chooses settings to measure: those that leave the least unknown. Sources: C. Rasmussen and C. Williams, Gaussian
Processes for Machine Learning, section 2.2, with Huber's weights; D. Cohn, Neural network exploration using optimal
experiment design, Neural Networks 9 (1996)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evaluator.arithmetic import FloatArray, dot, solve
from evaluator.inputs.engines.engine_numbers import MOST_NEAR
from evaluator.inputs.engines.engine_profiles import Nearby
from evaluator.serving.engine.closed_run import alike

SPREAD = 0.15  # of what is left, as a logarithm, before any point is seen
NOISE = 0.1  # of one measured point
STILL, MOST_ROUNDS = 1e-6, 500  # until no point's trust moves by more of itself; usual: 1 to 50


def near_fit(places: Sequence[Nearby], log_errors: FloatArray) -> tuple[tuple[Nearby, ...], bool]:
    """Weights that take log errors [point, (TTFT, TPOT)] out nearby, and whether they converged.

    A single point takes out 0.69 of its error, since some may be chance; many that agree take all."""
    kept = _spread_out(len(places))
    chosen, errors = [places[index] for index in kept], log_errors[kept]
    if not chosen:
        return (), True
    covariance = SPREAD**2 * np.stack([alike(chosen, one) for one in chosen])
    (ttft, first_still), (tpot, later_still) = (_weights(covariance, errors[:, column]) for column in (0, 1))
    weighed = tuple(
        replace(one, ttft=round(float(first), 6), tpot=round(float(later), 6))
        for one, first, later in zip(chosen, -(SPREAD**2) * ttft, -(SPREAD**2) * tpot, strict=True)
    )
    return weighed, first_still and later_still


def _weights(covariance: FloatArray, errors: FloatArray) -> tuple[FloatArray, bool]:
    trust = np.ones(errors.size)
    for _ in range(MOST_ROUNDS):
        weights = solve(covariance + np.diag(NOISE**2 / trust), errors)
        left = errors - np.asarray([float(dot(row, weights)) for row in covariance])
        before, trust = trust, np.minimum(1.0, 2.0 * NOISE / np.maximum(np.abs(left), 1e-9))
        if np.max(np.abs(trust - before) / trust) < STILL:
            return weights, True
    return weights, False


def _spread_out(count: int) -> list[int]:
    return [index * count // MOST_NEAR for index in range(MOST_NEAR)] if count > MOST_NEAR else list(range(count))


MOST_PLACES = 2000  # that are weighed against each other


def worth_measuring(places: Sequence[Nearby], count: int) -> list[int]:
    if len(places) > MOST_PLACES:
        raise ValueError(f"{len(places)} places, of {MOST_PLACES} at most")
    unknown: FloatArray = np.stack([alike(places, one) for one in places]) if places else np.zeros((0, 0))
    noise = (NOISE / SPREAD) ** 2
    chosen: list[int] = []
    for _ in range(min(count, len(places))):
        # A measured place takes out of every other what both have in common: the sum of squares over its own spread.
        gain = np.sum(unknown * unknown, axis=0) / (np.diag(unknown) + noise)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        known = unknown[:, best].copy()
        unknown = unknown - np.outer(known, known) / (known[best] + noise)
    return chosen
