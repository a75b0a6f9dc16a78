"""Factors of TTFT and TPOT near points that were measured at one's own server, in a closed loop.

Not here: how the weights come about (evaluator.ledger.fitting.near_fit), and the loop (evaluator.serving.engine)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.arithmetic import FloatArray, dot, exp, log

DOUBLINGS = 2.0  # so many doublings away, of users, a length or devices, a point counts 0.61 times as much
PLACE = ("users", "input_length", "output_length", "devices")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearby:
    """A measured point of a replica, and how it weighs in the logarithms of both factors around it."""

    users: float
    input_length: float  # tokens to prefill
    output_length: float
    devices: float
    ttft: float = 0.0
    tpot: float = 0.0


def alike(points: Sequence[Nearby], place: Nearby) -> FloatArray:
    """How near each point is: 1 at the place itself, falling with the square of the doublings between them."""
    # 8 users to 32 are 2 doublings: exp(-1/2) = 0.61; another 2 from 1,024 tokens to 4,096: exp(-1) = 0.37.
    there = log(np.asarray([[getattr(one, name) for name in PLACE] for one in points], dtype=np.float64))
    here = log(np.asarray([getattr(place, name) for name in PLACE], dtype=np.float64))
    away = (there - here) / (DOUBLINGS * math.log(2.0))
    return exp(-0.5 * np.sum(away * away, axis=1))


def factors_near(points: Sequence[Nearby], place: Nearby) -> tuple[float, float]:
    """Factors of TTFT and TPOT at a place: 1 where no point is near."""
    if not points:
        return 1.0, 1.0
    near = alike(points, place)
    sums = [dot(near, np.asarray([getattr(one, name) for one in points])) for name in ("ttft", "tpot")]
    ttft, tpot = exp(np.asarray([float(one) for one in sums])).tolist()
    return ttft, tpot
