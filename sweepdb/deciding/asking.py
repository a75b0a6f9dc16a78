"""`decide` as a function: stored rows and measured points in, a Decision out. Starts nothing.

Not here: which start is worth most (sweepdb.deciding.choosing)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Unpack

if TYPE_CHECKING:
    import os

    from sweepdb.deciding.decision import Decision
    from sweepdb.planning.plan_keywords import PlanKeywords  # a stub: types alone

GAIN, BUDGET = 0.02, 1


def decide(
    model: str | os.PathLike[str],
    *,
    store: str | None = None,
    budget: int = BUDGET,
    gain: float = GAIN,
    ruled_out: Mapping[str, str] | None = None,
    **options: Unpack[PlanKeywords],
) -> Decision:
    """The deployment to take now and the starts worth most for deciding it, by the options of `plan`."""
    raise NotImplementedError
