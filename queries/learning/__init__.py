"""A few measured settings of a server correct all its others.

`Process(runs, prior).at(settings)` is the entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from queries.learning.conditioning import Known, Learned, Lessons, Predicted, lessons_of, run_of
    from queries.learning.failed_starts import failed_pairs, failed_scenarios
    from queries.learning.learned_rows import taught_by
    from queries.learning.own_points import (
        NOT_STARTED,
        Apart,
        FailedStart,
        OwnPoint,
        OwnPoints,
        PointReader,
        Server,
        no_points,
    )
    from queries.learning.priors import REGIONS, Prior, Region, prior_of
    from queries.learning.process import (
        Disagreement,
        Kept,
        Posterior,
        Process,
        Run,
        Setting,
        deviation_of_median,
        log_factor,
        median_percent,
        probability_of,
        without_strange_versions,
    )

__getattr__, __dir__ = lazy_face(__name__)
