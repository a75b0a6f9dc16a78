"""Servers started, measured and stopped: what ends with us, what a journal knows, what a failure says."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from client_files import FAILED

from evaluator.ledger import failure_of, read_measurements
from evaluator.ledger.scoring import usable
from store.errors import InputError, SweepdbError
from sweepdb.running.guarded import end_marked, guarded, marked
from sweepdb.running.journal import JOURNAL, Begun, Load, open_journal
from sweepdb.running.starts import installed_client
from sweepdb.running.watchdog import running

# A worker that leaves its parent, its group and its session, and does not heed SIGTERM: only its ancestors tell it.
HARD = """
import os, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
print("up", flush=True)
signal.pause()
"""
OWNER = """
import sys, time
from pathlib import Path
from sweepdb.running.guarded import guarded
folder = Path(sys.argv[1])
with (folder / "log").open("wb") as log, guarded([sys.executable, "-c", sys.argv[2]], folder=folder, log=log) as one:
    print(one.mark.session, flush=True)
    time.sleep(1000)
"""


def working_in(folder):
    found = set()
    for process in running():
        try:
            if Path(f"/proc/{process}/cwd").readlink() == folder:
                found.add(process)
        except OSError:
            continue
    return found


def until(wanted, seconds=30.0):
    end = time.monotonic() + seconds
    while not wanted() and time.monotonic() < end:
        time.sleep(0.02)
    return wanted()


def up(folder):
    return until(lambda: (folder / "log").exists() and b"up" in (folder / "log").read_bytes())


@pytest.mark.survival  # SIGKILL follows SIGTERM by ten seconds
def test_whatever_a_command_started_ends_with_the_block(tmp_path):
    with (tmp_path / "log").open("wb") as log, guarded([sys.executable, "-c", HARD], folder=tmp_path, log=log) as one:
        assert up(tmp_path)
        assert until(lambda: len(working_in(tmp_path)) == 3)  # the watchdog, the command, and what it left behind
    assert working_in(tmp_path) == set()
    assert one.ended() is not None


@pytest.mark.survival
def test_whatever_a_command_started_ends_when_we_are_killed(tmp_path):
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path), HARD], stdout=subprocess.PIPE, text=True)
    with owner:
        owner.stdout.readline()
        assert up(tmp_path)
        owner.kill()
    assert until(lambda: not working_in(tmp_path))


def test_what_a_killed_watchdog_leaves_is_found_by_its_session_and_its_mark(tmp_path):
    """A worker that keeps the mark and leaves the session, and one that keeps the session and drops the mark."""
    script = "setsid sleep 1000 & env -i sleep 1000 & wait"
    with (
        (tmp_path / "log").open("wb") as log,
        guarded(["bash", "-c", script], folder=tmp_path, log=log) as one,
    ):
        assert until(lambda: len(working_in(tmp_path)) >= 4)
        stranger = subprocess.Popen(["sleep", "1000"], cwd=tmp_path)
        os.kill(one.process.pid, signal.SIGKILL)
        one.process.wait()
        left = marked(one.mark)
        assert len(left) == 3  # bash and both of its own
        assert end_marked(one.mark) == 3
        assert working_in(tmp_path) == {stranger.pid}
        stranger.kill()
        stranger.wait()


def test_a_command_says_how_it_ended(tmp_path):
    with (tmp_path / "log").open("wb") as log:
        for command, status in ((["sh", "-c", "exit 3"], 3), (["sh", "-c", "kill -9 $$"], 137), (["./none"], 127)):
            with guarded(command, folder=tmp_path, log=log) as one:
                assert until(lambda one=one: one.ended() is not None)
                assert one.ended() == status
    assert (tmp_path / "log").read_text() == "./none: No such file or directory\n"


START = Begun(number=1, probe="a1b2c3d4:16", scenario="a1b2c3d4", plan="tp2", device="h100_sxm", folder="001",
              ladder=[Load(concurrency=16), Load(concurrency=8, rate=2.5)])  # fmt: skip


def test_a_journal_knows_what_is_left_after_a_line_was_cut_short(tmp_path):
    with open_journal(tmp_path) as journal:
        journal.write("begin", question={"limit": 3})
        journal.begin(START)
        journal.write("measured", load="16", file="results/vllm-16.json")
    with (tmp_path / JOURNAL).open("a") as file:
        file.write('{"what": "imported", "number": 1, "fi')  # a kill, or a full disk
    with open_journal(tmp_path) as journal:
        assert journal.question == {"limit": 3}
        assert [str(load) for load in journal.under_way.left] == ["2.5 requests/s"]
        assert journal.under_way.to_import == ["results/vllm-16.json"]  # said once more than too little
        journal.write("imported", number=1, file="results/vllm-16.json")
    with open_journal(tmp_path) as journal:
        assert journal.under_way.to_import == []
        journal.write("stopped")
        assert journal.under_way is None
        journal.write("end")
    with open_journal(tmp_path) as journal:
        assert (journal.question, journal.begun) == (None, 1)


def test_one_run_at_a_time_in_a_folder(tmp_path):
    with open_journal(tmp_path), pytest.raises(SweepdbError, match="Another run is under way"), open_journal(tmp_path):
        pass


def test_the_client_is_the_one_that_is_installed(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="no benchmark client is on the PATH: vllm or guidellm or aiperf"):
        installed_client()
    (tmp_path / "aiperf").write_text("#!/bin/sh\n")
    (tmp_path / "aiperf").chmod(0o755)
    assert installed_client() == "aiperf"
    with pytest.raises(InputError, match="no benchmark client is on the PATH: guidellm"):
        installed_client("guidellm")
    with pytest.raises(InputError, match="`client=locust` is not one of vllm, guidellm, aiperf"):
        installed_client("locust")


def test_a_failure_is_a_point_without_numbers_that_no_comparison_takes(tmp_path):
    file = tmp_path / "failed.json"
    file.write_text(json.dumps(FAILED), encoding="utf-8")
    (record,) = read_measurements(file).records
    assert failure_of(record) == "out of memory: did not start (exit status 1)"
    assert (record.concurrency, dict(record.metrics)) == (64, {})
    found = usable([record])
    assert (found.records, [one.rule for one in found.excluded]) == ((), ["a server that failed: nothing was measured"])
