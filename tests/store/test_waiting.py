"""Writers wait for each other: as long as the user allows, told so, and all of them come to their turn."""

import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from conftest_cli import sweepdb
from generator import fill, sweep_record

from store.errors import InputError, StoreBusyError
from store.opening import open_store
from store.waiting import USUAL_LIMIT_S, limit_s, wait_at_most
from store.writing import begin_sweep


@pytest.fixture(autouse=True)
def usual_again():
    yield
    wait_at_most(None)


@pytest.fixture
def locked(sqlite_url):
    """A store whose write lock somebody holds until the test lets go."""
    fill(sqlite_url, probes=100)
    with closing(
        sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None, check_same_thread=False)
    ) as other:
        other.execute("BEGIN IMMEDIATE")
        yield sqlite_url, other


def test_a_writer_gives_up_at_its_limit_and_not_before(locked):
    url, _ = locked
    wait_at_most(1.2)
    started = time.monotonic()
    with pytest.raises(StoreBusyError, match="wait=SECONDS"), open_store(url) as store:
        begin_sweep(store, sweep_record(key="a" * 32))
    assert 1.0 < time.monotonic() - started < 10


def test_who_waits_is_told_and_goes_on_once_the_lock_is_free(locked):
    url, other = locked
    told = []

    def tell(waited, limit):
        told.append((waited, limit))
        if other.in_transaction:
            other.execute("ROLLBACK")

    wait_at_most(100, tell)
    with open_store(url) as store:
        assert begin_sweep(store, sweep_record(key="a" * 32))
    assert told[0][0] >= 2
    assert {limit for _, limit in told} == {100}


def test_the_limit_is_the_options_then_the_environments(monkeypatch):
    assert limit_s() == USUAL_LIMIT_S
    monkeypatch.setenv("SWEEPDB_WAIT", "12.5")
    assert limit_s() == 12.5
    wait_at_most(3)
    assert limit_s() == 3
    for wrong in (-1.0, float("nan"), float("inf")):
        with pytest.raises(InputError, match="seconds"):
            wait_at_most(wrong)
    wait_at_most(None)
    monkeypatch.setenv("SWEEPDB_WAIT", "long")
    with pytest.raises(InputError, match="SWEEPDB_WAIT"):
        limit_s()


@pytest.mark.parametrize(
    "command", ["--wait 1 void {} --reason x", "void {} --wait=1 --reason x", "void {} --reason x --wait 1"]
)
def test_the_option_stands_anywhere(locked, command):
    url, _ = locked
    with open_store(url, read_only=True) as store, store.reading() as connection:
        key = connection.exec_driver_sql("SELECT key FROM sweep").scalars().first()
    outcome = sweepdb(command.format(key), url)
    assert outcome.code == 3
    assert "--wait SECONDS" in outcome.err


@pytest.mark.survival
@pytest.mark.parametrize("number_of_writers", [8, pytest.param(32, marks=pytest.mark.long)])
def test_many_writers_beside_a_vacuum_loop_all_come_to_their_turn(sqlite_url, number_of_writers):
    fill(sqlite_url, probes=20_000)
    program = Path(__file__).parents[1] / "survival_programs.py"
    stop = threading.Event()
    vacuums = []

    def vacuum():
        while not stop.is_set():
            vacuums.append(sweepdb("db vacuum", sqlite_url).code)

    cleaner = threading.Thread(target=vacuum)
    cleaner.start()
    writers = [
        subprocess.Popen([sys.executable, program, "write", sqlite_url, str(number), "5"], stdout=subprocess.DEVNULL)
        for number in range(number_of_writers)
    ]
    codes = [writer.wait(timeout=600) for writer in writers]
    stop.set()
    cleaner.join()
    assert codes == [0] * len(writers)
    assert vacuums
    assert set(vacuums) == {0}
