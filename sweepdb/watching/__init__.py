"""`watch`: a server's metrics beside its stored row, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.watching.engines import METRICS, EngineMetrics, metrics_of
    from sweepdb.watching.watching import Watched, watch

__getattr__, __dir__ = lazy_face(__name__)
