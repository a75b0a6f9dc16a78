"""`decide --run`: starts, measures, imports, and stops all that it started. Linux alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.running.how import READY_S, HowToRun
    from sweepdb.running.starts import run_starts

__getattr__, __dir__ = lazy_face(__name__)
