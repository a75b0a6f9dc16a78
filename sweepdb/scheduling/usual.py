"""Defaults of a schedule."""

from __future__ import annotations

from typing import NamedTuple


class Usual(NamedTuple):
    """Minutes, replicas, and attainment."""

    attainment: float = 0.95
    start_up: int = 5
    cool_down: int = 10
    minimum: int = 1
    spare: int = 0
    trace_unit: str = "s"
    seed: int = 1


USUAL = Usual()
