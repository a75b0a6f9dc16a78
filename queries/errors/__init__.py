"""Expected errors of answers: figures of measured points, regions, and limits that are read with a confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.errors.expected import (
        ANY,
        ASKED,
        BASED,
        BASIS,
        DATA_SHEET,
        DEVICES,
        ENGINE,
        FOLDER,
        KNOWN,
        LEAST_POINTS,
        METRICS,
        NONE,
        PAIRED,
        POINTS,
        SUMMARY,
        ExpectedError,
        Region,
        ShippedDevice,
        shipped_regions,
    )
    from queries.errors.figures import LEVELS, QUANTILE_DIGITS, figures_of

__getattr__, __dir__ = lazy_face(__name__)
