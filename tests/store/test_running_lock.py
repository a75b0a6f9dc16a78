"""A sweep whose writer was killed says that it was interrupted, and running it again finishes it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest_cli import sweepdb
from generator import sweep_record

from queries.connect import connect
from store.opening import open_store
from store.sweep_list import list_sweeps, show_sweep
from store.writing import begin_sweep, finish_sweep

ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}


def waited_for(condition):
    deadline = time.monotonic() + 60
    while not (value := condition()):
        assert time.monotonic() < deadline, "waited a minute"
        time.sleep(0.02)
    return value


def statuses(location):
    """Status by label, as the list of sweeps and as SQL say; both must agree."""
    listed = {sweep.label: sweep.status for sweep in list_sweeps(location)}
    with connect(location) as connection:
        assert dict(connection.execute("SELECT label, status FROM sweep").fetchall()) == listed
    return listed


@pytest.fixture
def writer(store):
    """A process that writes a sweep into the store, and has had a block acknowledged."""
    program = [sys.executable, str(ROOT / "tests" / "survival_programs.py"), "write", store.url, "7", "60"]
    with subprocess.Popen(program, env=ENVIRONMENT, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline()
        yield process
        process.kill()


def test_a_sweep_is_running_until_its_writer_is_killed_and_interrupted_from_then_on(store, writer):
    assert statuses(store.location) == {"writer 7": "running"}
    writer.kill()
    writer.wait()
    waited_for(lambda: list_sweeps(store.location)[0].status == "interrupted")
    assert statuses(store.location) == {"writer 7": "interrupted"}
    (sweep,) = list_sweeps(store.location)
    assert show_sweep(store.location, sweep.key).summary.status == "interrupted"
    assert sweep.probes_stored > 0
    assert sweep.finished_at is None


def test_the_next_writer_records_what_a_killed_one_had_stored_and_leaves_the_living_alone(store, writer):
    with open_store(store.url) as living:
        other = begin_sweep(living, sweep_record(key="a" * 32, label="living"))
        writer.kill()
        writer.wait()
        waited_for(lambda: statuses(store.location)["writer 7"] == "interrupted")
        mine = begin_sweep(store, sweep_record(key="b" * 32, label="mine"))
        assert statuses(store.location) == {"writer 7": "interrupted", "living": "running", "mine": "running"}
        killed = next(sweep for sweep in list_sweeps(store.location) if sweep.label == "writer 7")
        assert killed.finished_at is not None
        assert killed.finished_at >= killed.started_at
        finish_sweep(living, other, "finished")
        finish_sweep(store, mine, "failed")
    assert statuses(store.location) == {"writer 7": "interrupted", "living": "finished", "mine": "failed"}
    if store.kind == "sqlite":
        assert not list(store.location.path.parent.glob("*.running-*"))


def test_a_sweep_whose_store_was_closed_is_interrupted_and_one_in_this_process_is_running(store):
    with open_store(store.url) as other:
        begin_sweep(other, sweep_record(key="c" * 32, label="left"))
        assert statuses(store.location) == {"left": "running"}
    waited_for(lambda: list_sweeps(store.location)[0].status == "interrupted")


KILLED_AFTER_TWO_TRANSACTIONS = """
import os, signal, sys
import evaluator.sweep
from cli.main import run
from store import writing
put_blocks = writing.put_blocks
acknowledged = 0
def put_and_die(*arguments, **more):
    global acknowledged
    added = put_blocks(*arguments, **more)
    acknowledged += 1
    if acknowledged == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return added
writing.put_blocks = put_and_die
evaluator.sweep._BLOCKS_A_TRANSACTION = 2
run(sys.argv[1:])
"""


def test_a_killed_evaluate_shows_as_interrupted_and_running_it_again_finishes(tmp_path):
    url = f"sqlite:///{tmp_path}/killed.sqlite"
    command = ["evaluate", "Qwen/Qwen3-0.6B", "--device", "TEST_DEVICE", "--num-devices", "4"]
    command += ["--input-length", "2000", "--output-length", "500", "--batch-range", "50"]
    program = [sys.executable, "-c", KILLED_AFTER_TWO_TRANSACTIONS, *command, "--store", url]
    assert subprocess.run(program, env=ENVIRONMENT, cwd=ROOT, check=False).returncode == -signal.SIGKILL
    (killed,) = json.loads(sweepdb("sweeps --format json", url).out)
    assert killed["status"] == "interrupted"
    again = sweepdb(command, url)
    assert again.code == 0
    whole = f"sqlite:///{tmp_path}/whole.sqlite"
    sweepdb(command, whole)
    newest, oldest = json.loads(sweepdb("sweeps --format json", url).out)
    (reference,) = json.loads(sweepdb("sweeps --format json", whole).out)
    assert (newest["status"], oldest["status"]) == ("finished", "interrupted")
    assert oldest["probes_stored"] == newest["probes_known"] == 200  # twice two blocks of batch sizes 1 to 50
    assert newest["probes_stored"] + newest["probes_known"] == reference["probes_stored"]
