"""Shards in processes of this machine, or in this one: no cluster, nothing to install.

A worker ends at ^C without words: the coordinator, which heard it as well, says what became of the sweep. Dask imports
this module in its workers, too, and calls `dask_setup`."""

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
    """End this process at ^C, with what it has begun undone, and without a traceback."""
    with suppress(ValueError):  # not in the main thread: whoever has that hears ^C
        signal.signal(signal.SIGINT, lambda *_: sys.exit(_INTERRUPTED))


def dask_setup(_worker: object) -> None:
    """Dask's name for what a worker does first."""
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
    """Shards one by one, in this process: a share of an array, whose scheduler is the cluster's."""

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
    """Shards in a pool of processes.

    Where one is killed, so are all shards of the pool. Each is run again in a process of its own, and only who kills
    that one has failed: nobody is blamed for a neighbour."""

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
        """Let shards go that have not begun; processes that have nothing to do end first."""
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
    """How a worker starts: as a copy of a process that has imported what shards need, where the system has such copies
    without surprises; else as a Python of its own. Never as a copy of this one, whose threads it would not have."""
    if sys.platform != "linux":
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED_ONCE))
    return context


def _settle(environment: Mapping[str, str]) -> None:
    """Have the variables of the coordinator, and end at ^C without words.

    Those of the process that was copied are as old as it is; ^C at a terminal reaches every process."""
    os.environ.clear()
    os.environ.update(environment)
    end_quietly()
