"""`schedule`: replicas by hour, and models on a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.scheduling.day_schedule import USUAL, DaySchedule
    from sweepdb.scheduling.pools import PoolSchedule, schedule_pool
    from sweepdb.scheduling.scheduled import schedule

__getattr__, __dir__ = lazy_face(__name__)
