"""Arrivals at one a second, and lengths, by seed; the same bits everywhere.

Rates divide the times, so all rates and plans see the same requests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import FloatArray, Integers, exp, log
from evaluator.serving.engine.request_kinds import RequestKind, weights_of
from store.light_dataclass import dataclass

ArrivalKind = Literal["poisson", "constant", "gamma", "trace"]
_LENGTHS, _REPLICAS, _SHORTENED = 1, 2, 3  # streams of random numbers beside that of arrivals


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalProcess:
    kind: ArrivalKind
    requests: int = 20_000
    seed: int = 1
    cv: float = 1.0  # standard deviation of the gaps over their mean, of a gamma process
    trace_sha256: str | None = None


def unit_times(process: ArrivalProcess) -> FloatArray:
    """The first comes after a gap, as all others do."""
    if process.kind == "constant":
        return np.arange(1.0, process.requests + 1.0)
    if process.kind == "poisson":
        return np.cumsum(-log(uniform(process.seed, 0, process.requests)))
    if process.kind == "gamma":
        return np.cumsum(_gamma_gaps(process))
    raise ValueError(f"the times of a {process.kind} come from its file")


def rescaled_times(times_s: FloatArray) -> FloatArray:
    """From the first request on."""
    # 4 requests at 0, 2, 2 and 6 s: 3 gaps in 6 s, so at 0, 1, 1 and 3 s.
    since = times_s - times_s[0]
    return np.asarray(since * ((times_s.size - 1) / since[-1]))


@lru_cache(maxsize=64)
def uniform(seed: int, stream: int, count: int) -> FloatArray:
    """In (0, 1], from PCG64's raw integers; a longer draw begins like a shorter one."""
    raw = np.random.PCG64([seed, stream]).random_raw(count)
    numbers = ((np.asarray(raw, dtype=np.uint64) >> np.uint64(11)) + np.uint64(1)).astype(np.float64) * 2.0**-53
    numbers.setflags(write=False)
    return numbers


def drawn_kinds(kinds: Sequence[RequestKind], seed: int, count: int) -> Integers:
    if len(kinds) == 1:
        return np.zeros(count, dtype=np.int64)
    ends = np.cumsum(weights_of(kinds))
    chosen = np.searchsorted(ends, uniform(seed, _LENGTHS, count) * ends[-1])
    return np.asarray(np.minimum(chosen, len(kinds) - 1), dtype=np.int64)


def dealt_replicas(replicas: int, seed: int, count: int) -> Integers:
    if replicas == 1:
        return np.zeros(count, dtype=np.int64)
    places = np.floor((1.0 - uniform(seed, _REPLICAS, count)) * replicas).astype(np.int64)
    return np.asarray(np.minimum(places, replicas - 1), dtype=np.int64)


def drawn_lengths(lengths: Integers, shortest: float, seed: int, turn: int) -> Integers:
    """From [shortest, 1] of nominal; `turn` separates prompts from answers."""
    if shortest >= 1.0:
        return lengths
    share = shortest + (1.0 - shortest) * uniform(seed, _SHORTENED + turn, lengths.size)
    return np.asarray(np.maximum(np.rint(lengths * share), 1.0), dtype=np.int64)


def _gamma_gaps(process: ArrivalProcess) -> FloatArray:
    """Mean 1, deviation `cv`: gamma of shape 1 / cv^2.

    Source: Marsaglia and Tsang 2000, A simple method for generating gamma variables; shapes below 1 by a power of one
    more uniform number. Normals by Marsaglia's polar method, without a cosine."""
    shape = 1.0 / (process.cv * process.cv)
    raised = shape if shape >= 1.0 else shape + 1.0
    third = raised - 1.0 / 3.0
    slope = 1.0 / np.sqrt(9.0 * third)
    found: list[FloatArray] = []
    have, round_ = 0, 0
    while have < process.requests:
        first, second, third_numbers = (
            uniform(process.seed, 16 + 3 * round_ + stream, process.requests) for stream in range(3)
        )
        normal, fine = _polar_normals(first, second)
        root = np.where(fine, 1.0 + slope * normal, 1.0)
        volume = root * root * root
        positive = fine & (volume > 0.0)
        volume = np.where(positive, volume, 1.0)
        bound = 0.5 * normal * normal + third * (1.0 - volume + log(volume))
        accepted = positive & (log(third_numbers) < bound)
        found.append(third * volume[accepted])
        have += int(accepted.sum())
        round_ += 1
    drawn = np.concatenate(found)[: process.requests]
    if shape < 1.0:
        drawn = drawn * exp(log(uniform(process.seed, 15, process.requests)) / shape)
    return np.asarray(drawn / shape)


def _polar_normals(first: FloatArray, second: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
    across, up = 2.0 * first - 1.0, 2.0 * second - 1.0
    radius = across * across + up * up
    fine = (radius > 0.0) & (radius < 1.0)
    inside = np.where(fine, radius, 0.5)
    return np.asarray(across * np.sqrt(-2.0 * log(inside) / inside)), np.asarray(fine)
