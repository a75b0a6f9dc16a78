"""Sweeps, scenarios and blocks, acknowledged once committed; and what stands beside them.

Some modules also read back what they write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from store.writing.beside import (
        get_operators,
        get_prices,
        list_calibrations,
        put_calibration,
        put_operators,
        put_prices,
    )
    from store.writing.blocks import begin_sweep, finish_sweep, put_block, put_blocks, record_interval, require_same
    from store.writing.loads import known_loads, loads_of_scenarios, put_loads, require_same_loads
    from store.writing.measurements import (
        CORRECTED,
        corrected_of,
        delete_measurements,
        forget_validations,
        get_measurements,
        get_requests,
        numbered_measurements,
        put_files,
        put_measurements,
        put_validations,
        replace_measurement,
    )
    from store.writing.point_table import Point, PointTable, told_apart
    from store.writing.scenarios import missing_intervals, put_names, put_scenarios
    from store.writing.voiding import unvoid, void
    from store.writing.workloads import get_workload, list_workloads, put_workload

__getattr__, __dir__ = lazy_face(__name__)
