"""Measured points: kept, compared, fitted to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from evaluator.ledger import Change, Choices, Comparison, Figures, Knowledge, parse_stated
    from sweepdb.measuring.comparing_files import Side, compare_files
    from sweepdb.measuring.engine_fitting import ENGINE_COLUMNS, fit_serving
    from sweepdb.measuring.functions import validated
    from sweepdb.measuring.kernel_fitting import KERNEL_COLUMNS
    from sweepdb.measuring.log_scoring import CONFORMING_COLUMNS, Replay, conforming
    from sweepdb.measuring.measurement_files import (
        MEASUREMENT_COLUMNS,
        SETTING_COLUMNS,
        Imported,
        ReadFiles,
        import_measurements,
        listed_measurements,
        measured_settings,
    )
    from sweepdb.measuring.open_loops import AtRate
    from sweepdb.measuring.recording import Kept, compare_and_keep
    from sweepdb.measuring.regressing import Regression, regressions
    from sweepdb.measuring.stored_points import (
        PointSelection,
        ShownPoint,
        correct_measurements,
        delete_measurements,
        let_measurements_teach,
        selected_points,
        shown_measurement,
    )
    from sweepdb.measuring.suggesting import USUAL_COUNT, Suggested, suggested_points
    from sweepdb.measuring.trending import Series, Trend, Trends, trends
    from sweepdb.measuring.validating import PEER_FIELDS, Group, Validation

__getattr__, __dir__ = lazy_face(__name__)
