"""Measured points: kept, compared with predictions, fitted to, summed up as errors by region."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.measuring.engine_fitting import COLUMNS, fit_serving
    from sweepdb.measuring.error_regions import Field, PointError, regions_of, write_points
    from sweepdb.measuring.functions import engine_named, new_profile, with_unreadable
    from sweepdb.measuring.measurement_files import ReadFiles, read_files
    from sweepdb.measuring.recording import Kept, compare_and_keep
    from sweepdb.measuring.validating import PEER_FIELDS, Group, Validation

__all__ = [
    "COLUMNS",
    "PEER_FIELDS",
    "Field",
    "Group",
    "Kept",
    "PointError",
    "ReadFiles",
    "Validation",
    "compare_and_keep",
    "engine_named",
    "fit_serving",
    "new_profile",
    "read_files",
    "regions_of",
    "with_unreadable",
    "write_points",
]

__getattr__, __dir__ = lazy_face(__name__)
