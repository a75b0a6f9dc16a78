"""Rows that can win: what is left of a part where others cannot be an answer's row, whatever limits are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.thinned.binding import ThinnedBlocks, suffices
    from queries.thinned.winners import RULES, create_winners

__all__ = ["RULES", "ThinnedBlocks", "create_winners", "suffices"]

__getattr__, __dir__ = lazy_face(__name__)
