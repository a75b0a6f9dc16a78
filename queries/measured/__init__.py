"""Measured points of a store, as pictures show them beside predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.measured.comparisons import MeasuredPoints, measured_points

__getattr__, __dir__ = lazy_face(__name__)
