"""Thinned files: beside each part one with the rows alone that can win, for questions about many scenarios."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.thinning.thin_checking import winner_faults
    from sweepdb.thinning.thin_writing import ThinReport, thin_parts

__all__ = ["ThinReport", "thin_parts", "winner_faults"]

__getattr__, __dir__ = lazy_face(__name__)
