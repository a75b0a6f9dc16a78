"""The probability that settings keep all their limits together, by what own runs say of both times."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from store.light_dataclass import dataclass

if TYPE_CHECKING:
    from queries.learning.process import FloatArray, Posterior

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_FAR = 6.0  # standard deviations beyond which nothing lies


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    output_length: float | FloatArray = 1.0  # of all settings, or of each


def probability_of(found: Posterior, predicted: FloatArray, kept: Kept) -> FloatArray:
    """The probability that each setting keeps all limits together. `predicted` is [setting, (TTFT, TPOT)] in ms.

    TPOT is integrated over, and at each of its values TTFT is normal and must stay below the smaller of its own limit
    and what the end-to-end limit leaves it: a request takes TTFT + (output - 1) x TPOT."""
    sd = np.maximum(found.sd, 1e-9)
    slope = found.covariance[:, 0, 1] / sd[:, 1] ** 2
    rest = np.sqrt(np.maximum(found.covariance[:, 0, 0] - slope**2 * sd[:, 1] ** 2, 1e-18))
    highest = np.full(len(predicted), _FAR)
    with np.errstate(divide="ignore"):
        if kept.tpot_ms is not None:
            limit = np.log(kept.tpot_ms / predicted[:, 1])
            highest = np.clip((limit - found.mean[:, 1]) / sd[:, 1], -_FAR, _FAR)
        half = (highest + _FAR) / 2.0
        places = half[:, None] * (_NODES + 1.0) - _FAR  # in standard deviations of TPOT
        density = np.exp(-(places**2) / 2.0) / math.sqrt(2.0 * math.pi) * half[:, None] * _WEIGHTS
        room = np.full(places.shape, np.inf if kept.ttft_ms is None else kept.ttft_ms)
        if kept.e2e_ms is not None:
            tpot = predicted[:, 1:] * np.exp(found.mean[:, 1:] + sd[:, 1:] * places)
            room = np.minimum(room, kept.e2e_ms - (np.reshape(kept.output_length, (-1, 1)) - 1.0) * tpot)
        below = np.log(np.maximum(room, 1e-300) / predicted[:, :1])
    mean = found.mean[:, :1] + slope[:, None] * sd[:, 1:] * places
    return np.asarray(np.clip((density * normal_below((below - mean) / rest[:, None])).sum(axis=1), 0.0, 1.0))


def normal_below(values: npt.ArrayLike) -> FloatArray:
    """The standard normal distribution function. W. Cody's and others' erfc by the machine's library, one by one."""
    flat = np.asarray(values, dtype=np.float64)
    found = [0.5 * math.erfc(-one / math.sqrt(2.0)) for one in flat.ravel().tolist()]
    return np.array(found).reshape(flat.shape)
