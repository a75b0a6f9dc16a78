"""Bundles between stores, and points for other programs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.sharing.carrying import export_bundle, import_bundle, publish
    from sweepdb.sharing.exported_points import POINT_FORMATS, pieces_of_points, points_to_export, write_exported

__getattr__, __dir__ = lazy_face(__name__)
