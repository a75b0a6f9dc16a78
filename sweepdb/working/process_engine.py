"""Shards in processes of this machine, or in this one: no cluster, nothing to install.

Not here: many machines (sweepdb.working.dask_engine)."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from multiprocessing.context import BaseContext

from store.errors import StoreError
from sweepdb.working.quiet_end import end_quietly
from sweepdb.working.tasks import Result, ShardOutcome, ShardTask, Work, run_shard

# What a shard imports, by the process that workers are forked from: they find it imported.
IMPORTED_ONCE = (
    "sweepdb.working.tasks",
    "duckdb",
    "numpy.ma",
    "evaluator.inputs.devices.shipped_calibrations",
    "evaluator.serving.columns",
    "evaluator.serving.models.engine",
    "evaluator.serving.models.waves",
    "evaluator.serving.sources",
    "evaluator.serving.waves.compared",
)


class InlineEngine:
    """Shards one by one, in this process: a share of an array, whose scheduler is the cluster's."""

    def __init__(self, work: Work = run_shard) -> None:
        self._work = work
        self._waiting: list[ShardTask] = []

    @property
    def busy(self) -> bool:
        """Whether a shard waits."""
        return bool(self._waiting)

    def submit(self, task: ShardTask) -> None:
        """Take a shard."""
        self._waiting.append(task)

    def results(self) -> Iterator[Result]:
        """Run what was submitted."""
        while self._waiting:
            task = self._waiting.pop(0)
            try:
                yield task, self._work(task)
            except Exception as error:  # noqa: BLE001  the coordinator decides whether it is tried again
                yield task, error

    def cancel(self) -> None:
        """Forget what waits."""
        self._waiting.clear()


class ProcessEngine:
    """Shards in a pool of processes; where one is killed, the shards of the pool are submitted to another."""

    def __init__(self, count: int, work: Work = run_shard) -> None:
        self._work = work
        self._count = count
        self._pool = self._started()
        self._futures: dict[Future[ShardOutcome], ShardTask] = {}

    def _started(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            max_workers=self._count,
            mp_context=_starting(),
            initializer=_settle,
            initargs=(dict(os.environ),),
        )

    @property
    def busy(self) -> bool:
        """Whether every process has a shard, and as many wait."""
        return len(self._futures) >= 2 * self._count

    def submit(self, task: ShardTask) -> None:
        """Take a shard."""
        try:
            future = self._pool.submit(self._work, task)
        except BrokenProcessPool:
            self._pool = self._started()
            future = self._pool.submit(self._work, task)
        self._futures[future] = task

    def results(self) -> Iterator[Result]:
        """Yield shards as they end."""
        while self._futures:
            done, _ = wait(self._futures, return_when=FIRST_COMPLETED)
            for future in done:
                task = self._futures.pop(future)
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    yield task, StoreError("A worker was killed.")
                elif error is not None:
                    yield task, error if isinstance(error, Exception) else StoreError(str(error))
                else:
                    yield task, future.result()

    def cancel(self) -> None:
        """Let shards go that have not begun; processes that have nothing to do end first."""
        idle = not self._futures
        self._futures.clear()
        self._pool.shutdown(wait=idle, cancel_futures=True)


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
