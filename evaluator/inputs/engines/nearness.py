"""Corrections of an engine by points measured near."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evaluator.arithmetic import FloatArray, dot, exp, log
from evaluator.inputs.engines.engine_profiles import Nearby

DOUBLINGS = 2.0  # so many doublings away, of users, a length or devices, a point counts 0.61 times as much
PLACE = ("users", "input_length", "output_length", "devices")


def alike(points: Sequence[Nearby], place: Nearby) -> FloatArray:
    # 8 users to 32 are 2 doublings: exp(-1/2) = 0.61; another 2 from 1,024 tokens to 4,096: exp(-1) = 0.37.
    there = log(np.asarray([[getattr(one, name) for name in PLACE] for one in points], dtype=np.float64))
    here = log(np.asarray([getattr(place, name) for name in PLACE], dtype=np.float64))
    away = (there - here) / (DOUBLINGS * math.log(2.0))
    return exp(-0.5 * np.sum(away * away, axis=1))


def factors_near(points: Sequence[Nearby], place: Nearby) -> tuple[float, float]:
    if not points:
        return 1.0, 1.0
    near = alike(points, place)
    sums = [dot(near, np.asarray([getattr(one, name) for one in points])) for name in ("ttft", "tpot")]
    ttft, tpot = exp(np.asarray([float(one) for one in sums])).tolist()
    return ttft, tpot
