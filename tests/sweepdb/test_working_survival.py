"""Workers, schedulers and servers that are killed: rows are those of an undisturbed sweep, and the store is whole."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import psycopg
import pytest
import worker_faults
from postgresql_server import running_server, why_not
from working_cases import ALONE, request_of, rows, whole_after

from store.errors import SweepdbError
from store.opening import open_store
from store.upkeep import check_store
from sweepdb.working import run_on_workers
from sweepdb.working.dask_engine import DaskEngine
from sweepdb.working.process_engine import ProcessEngine
from sweepdb.working.tasks import Workers

pytest.importorskip("distributed")
pytestmark = [pytest.mark.survival, pytest.mark.filterwarnings("ignore")]
ACCIDENTS = ("killed_before_the_file", "killed_between_file_and_commit", "killed_after_the_commit")


@pytest.fixture(autouse=True)
def _small_shards(own_folders, monkeypatch):
    monkeypatch.setenv("SWEEPDB_SHARD_PROBES", "50")


def engine_of(kind, work):
    return DaskEngine(Workers(kind="dask", count=2), work) if kind == "dask" else ProcessEngine(1, work)


@pytest.mark.parametrize("kind", ["dask", "processes"])
@pytest.mark.parametrize("accident", ACCIDENTS)
def test_killed_workers_change_nothing(postgresql_store_url, tmp_path, expected, kind, accident):
    with open_store(postgresql_store_url, create=True) as store:
        engine = engine_of(kind, getattr(worker_faults, accident))
        report = run_on_workers(store, request_of(), ALONE, engine=engine)
        assert report.probes_stored + report.probes_known == len(expected)
        accidents = len(list((tmp_path / "accidents").iterdir()))
        assert accidents > 0
        whole_after(store, expected, orphans=accidents if accident == "killed_between_file_and_commit" else 0)


def test_two_coordinators_on_one_request_store_one_set_of_rows(postgresql_store_url, expected):
    with open_store(postgresql_store_url, create=True):
        pass
    reports = []

    def coordinate():
        with open_store(postgresql_store_url) as store:
            engine = ProcessEngine(1, worker_faults.slow)
            reports.append(run_on_workers(store, request_of(), ALONE, engine=engine))

    threads = [threading.Thread(target=coordinate) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(report.probes_stored for report in reports) == len(expected)
    assert all(report.probes_stored + report.probes_known == len(expected) for report in reports)
    with open_store(postgresql_store_url) as store:
        whole_after(store, expected, orphans=0)


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.fixture
def scheduler():
    """A Dask scheduler with a worker of ours, each a process that can be killed."""
    port = free_port()
    address = f"127.0.0.1:{port}"
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port),
             "--no-dashboard"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        ),
        subprocess.Popen(
            [sys.executable, "-m", "cli.main", "worker", address], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        ),
    ]  # fmt: skip
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with socket.socket() as trying:
            if trying.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.2)
    yield Workers(kind="scheduler", address=f"tcp://{address}"), started[0]
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(10)


def test_a_scheduler_that_is_lost_loses_nothing_that_was_committed(postgresql_store_url, expected, scheduler):
    workers, process = scheduler
    with open_store(postgresql_store_url, create=True) as store:
        seen = threading.Event()

        def kill():
            seen.wait(90)
            os.killpg(process.pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        engine = DaskEngine(workers, worker_faults.slow)
        with pytest.raises(SweepdbError, match="interrupted") as caught:
            run_on_workers(store, request_of(), workers, engine=engine, on_progress=lambda _: seen.set())
        killer.join()
        assert "same command again" in caught.value.hint
        assert len(rows(store.url)) < len(expected)
        assert check_store(store.location).faults == ()
        run_on_workers(store, request_of(), Workers(kind="share"))
        whole_after(store, expected)


def test_a_server_that_restarts_in_mid_commit_has_each_shard_or_not(tmp_path, expected):
    if reason := why_not():
        pytest.skip(reason)
    with running_server() as server:
        url = server.new_database()
        with open_store(url, create=True):
            pass
        for _ in range(8):
            try:
                with open_store(url) as store:
                    engine = ProcessEngine(1, worker_faults.server_killed_before_the_commit)
                    run_on_workers(store, request_of(), ALONE, engine=engine)
                break
            except SweepdbError:
                wait_for(url)
        assert len(list((tmp_path / "accidents").iterdir())) > 0
        with open_store(url) as store:
            whole_after(store, expected)


def wait_for(url):
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            time.sleep(0.2)
        else:
            return
