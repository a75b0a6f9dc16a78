"""Values of a schedule where nothing else is asked."""

from __future__ import annotations

from typing import NamedTuple


class Usual(NamedTuple):
    """Minutes, replicas, and the share of requests within the limits."""

    attainment: float = 0.95
    start_up: int = 5
    cool_down: int = 10
    minimum: int = 1
    spare: int = 0
    trace_unit: str = "s"
    seed: int = 1


USUAL = Usual()
