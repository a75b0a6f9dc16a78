"""Shards in processes of this machine, or in this one.

Workers end silently at ^C, as the coordinator speaks. Dask also imports this and calls `dask_setup`."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.context import BaseContext

from store.errors import StoreError
from sweepdb.working.tasks import Result, ShardOutcome, ShardTask, Work, run_shard

PRELOADED = __name__
_INTERRUPTED = 130


def end_quietly() -> None:
    """At ^C, undoing what it began."""
    with suppress(ValueError):  # not in the main thread: whoever has that hears ^C
        signal.signal(signal.SIGINT, lambda *_: sys.exit(_INTERRUPTED))


def dask_setup(_worker: object) -> None:
    """Dask's name for a worker's first call."""
    end_quietly()


# What a shard imports, by the process that workers are forked from: they find it imported.
IMPORTED_ONCE = (
    "sweepdb.working.tasks",
    "store.reading.silent_duckdb",
    "numpy.ma",
    "evaluator.inputs.devices.shipped_calibrations",
    "evaluator.serving.columns",
    "evaluator.serving.models.engine",
    "evaluator.serving.models.waves",
    "evaluator.serving.sources",
    "evaluator.serving.models.waves",
)


class InlineEngine:
    """For a share of an array: the cluster schedules."""

    def __init__(self, work: Work = run_shard) -> None:
        self._work = work
        self._waiting: list[ShardTask] = []

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    def submit(self, task: ShardTask) -> None:
        self._waiting.append(task)

    def results(self) -> Iterator[Result]:
        while self._waiting:
            task = self._waiting.pop(0)
            try:
                yield task, self._work(task)
            except Exception as error:  # noqa: BLE001  the coordinator decides whether it is tried again
                yield task, error

    def cancel(self) -> None:
        self._waiting.clear()


class ProcessEngine:
    """One kill ends all shards of the pool.

    Each then runs alone, and only one that kills its own process has failed."""

    def __init__(self, count: int, work: Work = run_shard) -> None:
        self._work = work
        self._count = count
        self._pool = _started(count)
        self._futures: dict[Future[ShardOutcome], ShardTask] = {}
        self._suspects: list[ShardTask] = []
        self._alone: ProcessPoolExecutor | None = None
        self._tried: Future[ShardOutcome] | None = None  # of a suspect, alone in its process

    @property
    def busy(self) -> bool:
        return len(self._futures) + len(self._suspects) >= 2 * self._count

    def submit(self, task: ShardTask) -> None:
        self._pool, _ = self._handed(self._pool, self._count, task)

    def results(self) -> Iterator[Result]:
        while self._futures or self._suspects:
            if self._suspects and self._tried is None:
                self._alone, self._tried = self._handed(self._alone or _started(1), 1, self._suspects.pop(0))
            done, _ = wait(self._futures, return_when=FIRST_COMPLETED)
            for future in done:
                task, was_alone = self._futures.pop(future), future is self._tried
                if was_alone:
                    self._tried = None
                error = future.exception()
                if error is None:
                    yield task, future.result()
                elif not isinstance(error, BrokenProcessPool):
                    yield task, error if isinstance(error, Exception) else StoreError(str(error))
                elif was_alone:
                    yield task, StoreError("A worker was killed.")
                else:
                    self._suspects.append(task)

    def cancel(self) -> None:
        """Only shards that have not begun; idle processes end first."""
        idle = not self._futures
        self._futures.clear()
        self._suspects.clear()
        for pool in (self._pool, self._alone):
            if pool is not None:
                pool.shutdown(wait=idle, cancel_futures=True)

    def _handed(
        self, pool: ProcessPoolExecutor, count: int, task: ShardTask
    ) -> tuple[ProcessPoolExecutor, Future[ShardOutcome]]:
        try:
            future = pool.submit(self._work, task)
        except BrokenProcessPool:
            pool = _started(count)
            future = pool.submit(self._work, task)
        self._futures[future] = task
        return pool, future


def _started(count: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(
        max_workers=count, mp_context=_starting(), initializer=_settle, initargs=(dict(os.environ),)
    )


def _starting() -> BaseContext:
    """Copies of a process with imports done, where safe; else a new Python.

    Never of this one, whose threads would be missing."""
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED_ONCE))
    return context


def _settle(environment: Mapping[str, str]) -> None:
    """The coordinator's variables, and a silent ^C.

    A copied process has old variables; a terminal's ^C reaches all."""
    os.environ.clear()
    os.environ.update(environment)
    end_quietly()
