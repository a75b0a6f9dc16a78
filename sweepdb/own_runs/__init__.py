"""Measured points as answers read them, kept between questions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.own_runs.of_a_row import OwnRunsOfARow, own_runs_of_a_row, taught_of
    from sweepdb.own_runs.points import OF_BURSTS, group_of, plan_name, point_or_reason, server_of
    from sweepdb.own_runs.reading import own_points, program_files, read_own_points

__getattr__, __dir__ = lazy_face(__name__)
