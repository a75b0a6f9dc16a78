"""Bundles between stores, points for other programs, and whether what came with them is what an evaluation stores."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.publishing import Publication
    from sweepdb.sharing.carrying import export_bundle, import_bundle, publish
    from sweepdb.sharing.exporting import (
        POINT_FORMATS,
        REPORT,
        ToExport,
        pieces_of_points,
        points_to_export,
        write_exported,
    )

__getattr__, __dir__ = lazy_face(__name__)
