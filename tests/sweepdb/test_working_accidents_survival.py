"""Disks that are full, scenarios that fail and ^C, with workers that are processes: what is stored is whole.

Not here: workers and servers that are killed (test_working_survival)."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest
import worker_faults
from working_cases import ALONE, request_of, rows, shard_states, whole_after

from store.errors import EvaluationError
from store.opening import open_store
from store.upkeep import check_store
from sweepdb.working import run_on_workers
from sweepdb.working.process_engine import ProcessEngine

pytestmark = [pytest.mark.survival, pytest.mark.filterwarnings("ignore")]
SWEEP = """
models: [Qwen/Qwen3-8B]
devices: [TEST_DEVICE]
num_devices: 2
batch_range: [1, 60]
workloads:
"""
LENGTHS = range(200, 1400, 200)


@pytest.fixture(autouse=True)
def _small_shards(own_folders, monkeypatch):
    monkeypatch.setenv("SWEEPDB_SHARD_PROBES", "20")


def test_a_disk_that_is_full_twice_costs_two_attempts(store, expected):
    engine = ProcessEngine(1, worker_faults.disk_full_twice)
    assert run_on_workers(store, request_of(), ALONE, engine=engine).probes_stored == len(expected)
    whole_after(store, expected, orphans=0)


def test_a_disk_that_is_full_three_times_is_named_and_the_same_command_adds_what_is_missing(store, expected):
    engine = ProcessEngine(1, worker_faults.disk_full_for_decodes)
    with pytest.raises(EvaluationError, match=r"failed 3 times, .* first: The part .* could not be written to"):
        run_on_workers(store, request_of(), ALONE, engine=engine)
    counts = shard_states(store)
    assert counts["failed"] > 0
    assert counts["stored"] > 0
    assert set(rows(store.url)) < set(expected)
    assert check_store(store.location).faults == ()
    run_on_workers(store, request_of(), ALONE)
    whole_after(store, expected, orphans=0)


def test_poisoned_scenarios_are_rows_with_their_reason_and_evaluated_once_they_can_be(store, expected):
    report = run_on_workers(store, request_of(), ALONE, engine=ProcessEngine(1, worker_faults.poisoned))
    assert [(one.reason, one.scenarios) for one in report.failures] == [("ZeroDivisionError: a figure of zero", 6)]
    assert report.probes_stored == len(expected) * 2 // 3
    assert check_store(store.location).faults == ()
    assert run_on_workers(store, request_of(), ALONE).probes_stored == len(expected) // 3
    whole_after(store, expected, orphans=0)


def interruptible() -> None:
    """Have ^C do what it does in a terminal, whoever started the tests."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def shards_stored(path) -> int:
    try:
        with sqlite3.connect(path, timeout=30) as connection:
            return connection.execute("SELECT count(*) FROM shard WHERE state = 'stored'").fetchone()[0]
    except sqlite3.OperationalError:
        return 0


@pytest.mark.parametrize("workers", ["processes:2", "dask:2"])
def test_interrupted_at_a_terminal_committed_shards_are_kept_and_the_same_command_goes_on(tmp_path, workers):
    if workers.startswith("dask"):
        pytest.importorskip("distributed")
    whole, path = f"sqlite:///{tmp_path}/whole.sqlite", tmp_path / "store.sqlite"
    url = f"sqlite:///{path}"
    sweep = tmp_path / "sweep.yaml"
    lines = [f"  - {{input_length: {length}, output_length: 20}}" for length in range(200, 1400, 20)]  # seconds of work
    sweep.write_text(SWEEP + "\n".join(lines) + "\n")
    command = [sys.executable, "-m", "cli.main", "evaluate", "--sweep", str(sweep)]
    subprocess.run([*command, "--store", whole], check=True, capture_output=True)
    with subprocess.Popen(
        [*command, "--store", url, "--workers", workers], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True, preexec_fn=interruptible,  # noqa: PLW1509  no threads run here
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 120
        while shards_stored(path) < 2 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGINT)  # a terminal tells every process of the command
        _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    expected = rows(whole)
    assert 0 < len(rows(url)) < len(expected)
    assert set(rows(url)) < set(expected)
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT status FROM sweep").fetchall() == [("interrupted",)]
    with open_store(url) as store:
        assert check_store(store.location).faults == ()
    subprocess.run([*command, "--store", url, "--workers", "shard:1/1"], check=True, capture_output=True)
    with open_store(url) as store:
        whole_after(store, expected)
