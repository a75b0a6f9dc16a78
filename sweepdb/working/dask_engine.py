"""Shards on Dask.distributed, on this machine or a scheduler."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from store.errors import StoreError
from sweepdb.working.process_engine import IMPORTED_ONCE, PRELOADED
from sweepdb.working.tasks import EngineLostError, Result, ShardTask, Work, Workers, run_shard

_LOOKED_AGAIN_S = 2.0
_LOST_AFTER_S = 15.0
_CONNECT_S = 30.0


def _distributed() -> Any:  # noqa: ANN401  a module without types
    try:
        import distributed
    except ImportError as error:
        raise StoreError("Workers of Dask need its package.", hint="Run: pip install 'sweepdb[dask]'") from error
    return distributed


class DaskEngine:
    """Dask moves a dead worker's shard, and gives up after three."""

    def __init__(self, workers: Workers, work: Work = run_shard) -> None:
        self._work = work
        dask = _distributed()
        self._cluster = None
        self._copied: Any = None
        if workers.kind == "dask":
            self._copied = _copied_workers()
            self._cluster = dask.LocalCluster(
                n_workers=workers.count, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50,
                env=dict(os.environ), preload=[PRELOADED],
            )  # fmt: skip
        address = workers.address if self._cluster is None else self._cluster
        try:
            self._client = dask.Client(address, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError) as error:
            raise StoreError(
                f"No Dask scheduler answers at {workers.address.removeprefix('tcp://')}.",
                hint="Start one with `dask scheduler`, and workers with `sweepdb worker HOST:PORT`.",
            ) from error
        self._ended = threading.Event()
        self._futures: dict[Any, ShardTask] = {}

    @property
    def busy(self) -> bool:
        return len(self._futures) >= 2 * max(1, len(self._client.nthreads() or ()))

    def submit(self, task: ShardTask) -> None:
        future = self._client.submit(self._work, task, key=f"{task.key}-{task.sweep_id}-{task.attempt}", pure=False)
        self._futures[future] = task
        future.add_done_callback(lambda _: self._ended.set())

    def results(self) -> Iterator[Result]:
        while self._futures:
            self._wait()
            for future in [future for future in self._futures if future.status != "pending"]:
                task = self._futures.pop(future)
                if future.status == "finished":
                    yield task, future.result()
                elif future.status in {"cancelled", "lost"}:
                    raise EngineLostError("the Dask scheduler is gone")
                else:
                    yield task, _plain(future.exception())

    def _wait(self) -> None:
        silent_since = time.monotonic()
        while all(future.status == "pending" for future in self._futures):
            self._ended.wait(_LOOKED_AGAIN_S)
            self._ended.clear()
            if self._client.status == "running":
                silent_since = time.monotonic()
            elif time.monotonic() - silent_since > _LOST_AFTER_S or self._client.status == "closed":
                raise EngineLostError("the Dask scheduler is gone")

    def cancel(self) -> None:
        with suppress(Exception):
            self._client.cancel(list(self._futures))
        self._futures.clear()
        with suppress(Exception):
            self._client.close(timeout=5)
        if self._cluster is not None:
            self._cluster.close()
        if self._copied is not None:
            self._copied.__exit__(None, None, None)
            self._copied = None


def _copied_workers() -> Any:  # noqa: ANN401  a setting of Dask's, until it is left
    """Copies of a process that has imported what shards need."""
    if sys.platform != "linux":
        return None
    import dask
    from distributed import utils

    setting = dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"})
    context: Any = utils.get_mp_context()  # type: ignore[no-untyped-call]
    context.set_forkserver_preload(["distributed", "distributed.nanny", "distributed.worker", *IMPORTED_ONCE])
    return setting


def _plain(error: BaseException) -> Exception:
    if type(error).__name__ == "KilledWorker":
        return StoreError("Several workers were killed while they had it.")
    return error if isinstance(error, Exception) else StoreError(str(error))


def serve_worker(address: str, *, count: int = 1) -> None:
    """Until the scheduler or this process ends."""
    dask = _distributed()

    async def serve() -> None:
        nannies = [await dask.Nanny(f"tcp://{address}", nthreads=1, preload=[PRELOADED]) for _ in range(count)]
        await asyncio.gather(*(nanny.finished() for nanny in nannies))

    asyncio.run(serve())
