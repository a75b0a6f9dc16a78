"""Expected errors of answers, by region, and limits read with a confidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.errors.expected import LEAST_POINTS, METRICS, PAIRED, ExpectedError
    from queries.errors.spreads import (
        ANY,
        ASKED,
        BASIS,
        CARRIED_STEPS,
        DEVICES,
        ENGINE,
        FOLDER,
        KNOWN,
        KNOWN_NAMES,
        LEVELS,
        METRIC_NAMES,
        OTHERS,
        OWN,
        POINTS,
        QUANTILE_DIGITS,
        SEEN_PAIRS,
        SERVER_POINTS,
        SPREADS,
        SUMMARY,
        TUNED,
        UNKNOWN_STEPS,
        WHOSE,
        WIDER,
        Region,
        ShippedDevice,
        Spread,
        Stated,
        family_of,
        figures_of,
        kernels_lack,
        student,
    )

__getattr__, __dir__ = lazy_face(__name__)
