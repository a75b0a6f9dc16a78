"""Sweeps on workers: a coordinator plans and cuts; workers evaluate, write and register parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.faces import lazy_face

if TYPE_CHECKING:
    from sweepdb.working.comparing import comparing_by, replaying_by
    from sweepdb.working.coordinating import run_on_workers
    from sweepdb.working.dask_engine import serve_worker
    from sweepdb.working.tasks import Workers, parse_workers

__getattr__, __dir__ = lazy_face(__name__)
