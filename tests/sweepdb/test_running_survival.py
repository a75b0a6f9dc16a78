"""`decide --run` against servers as fast as measured ones: real processes, real requests, and everything that goes wrong.

Nothing that was started is left after any end; no point is doubled; what was killed goes on where it stood."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from examples import rounds
from measured_starts import (
    LADDER,
    fill_plans,
    journal_lines,
    left_over,
    measured_rows,
    next_of,
    stored_points,
    surroundings,
)
from page_port import PORT
from shared_data import shared_data

from cli.main import run as run_command
from store.errors import InputError, SweepdbError
from store.location import parse_url
from sweepdb.running import HowToRun, run_starts
from sweepdb.running.guarded import end_marked
from sweepdb.running.journal import open_journal
from sweepdb.running.starts import runs_folder

pytestmark = pytest.mark.survival
TESTS = Path(__file__).parents[1]
ALL = {(size, users) for size in (2, 4, 8) for users in LADDER}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """A folder with a store of three plans."""
    shared_data("e2e", "serving.csv")
    folder = tmp_path_factory.mktemp("plans")
    fill_plans(folder)
    return folder


@pytest.fixture
def place(filled, tmp_path, monkeypatch):
    """A copy of that store, and a function that says what goes wrong."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)

    def say(**about):
        for name, value in surroundings(tmp_path, **about).items():
            monkeypatch.setenv(name, value)

    say()
    say.url = f"sqlite:///{tmp_path}/store.sqlite"
    yield say
    assert left_over(say.url) == {}


def made(url, **how):
    """What a call has done, and what it said."""
    said = []
    found = run_starts(next_of(url), question="tests", store=url, how=HowToRun(**{"budget": 3, **how}), say=said.append)
    return found, said


def measured_loads(url):
    """(devices, users) of measured points, each as often as it is stored."""
    return [(devices, int(users)) for devices, users, *_, failed in stored_points(url) if failed is None]


def test_ladders_are_measured_as_servers_were(place):
    found, _ = made(place.url)
    assert (found.starts, found.points, found.failed) == (3, 9, ())
    assert sorted(measured_loads(place.url)) == sorted(ALL)
    rows = measured_rows()
    for devices, users, _ttft, tpot, _ in stored_points(place.url):
        assert tpot == pytest.approx(rows[str(devices)][str(int(users))][1], rel=0.3)
    starts = [line for line in journal_lines(place.url) if line["what"] == "start"]
    assert len(starts) == 3  # one server a ladder
    assert made(place.url)[0].starts == 0  # nothing is left to start


def test_a_budget_is_of_starts_and_the_same_call_makes_as_many_more(place):
    found, _ = made(place.url, budget=1)
    assert (found.starts, found.used_up, len(measured_loads(place.url))) == (1, True, 3)
    found, _ = made(place.url, budget=1)
    assert (found.starts, found.used_up, len(measured_loads(place.url))) == (1, True, 6)


@pytest.mark.parametrize(
    ("fault", "why", "loads"),
    [
        ("slow start 4", None, LADDER),
        ("crash at start", "did not start (exit status 1)", ()),
        ("out of memory", "out of memory: did not start (exit status 1)", ()),
        # Ladders begin with 16 users; a server that fails at 12 in flight has no measured load.
        ("crash under load 12", "out of memory: crashed at concurrency 16 (exit status 1)", ()),
    ],
)
def test_a_server_that_fails_is_a_fact_and_the_next_plan_is_measured(fault, why, loads, place):
    place(faults={"4": fault})
    found, said = made(place.url)
    assert sorted(measured_loads(place.url)) == sorted(
        [*((size, users) for size in (2, 8) for users in LADDER), *((4, users) for users in loads)]
    )
    facts = [row for row in stored_points(place.url) if row[-1] is not None]
    assert [(row[0], row[-1]) for row in facts] == ([] if why is None else [(4, why)])
    assert len(found.failed) == len(facts)
    if why is not None:
        assert why in found.failed[0]
        last = "NCCL error: unhandled system error" if fault == "crash at start" else "CUDA out of memory"
        assert any(last in line for line in said)
        assert made(place.url)[0].starts == 0  # it is out for good


def test_a_server_that_is_not_ready_in_time_is_out(place):
    place(faults={"2": "slow start 60"})
    found, _ = made(place.url, budget=1, ready_s=2.0)
    assert "was not ready after 2 s" in found.failed[0]
    assert measured_loads(place.url) == []


def test_two_servers_in_a_row_that_do_not_start_may_be_the_machines_fault(place):
    place(faults={"2": "crash at start", "4": "crash at start"})
    with pytest.raises(SweepdbError, match="2 servers in a row did not start") as told:
        made(place.url)
    assert "delete `source=server_failed`" in told.value.hint
    assert run_command(["measurements", "delete", "--source", "server_failed", "--store", place.url]) == 0
    place()
    assert made(place.url)[0].failed == ()
    assert set(measured_loads(place.url)) == {(2, users) for users in LADDER}  # the third start of three


def test_a_client_that_fails_ends_the_run_and_the_same_call_goes_on(place, tmp_path):
    failing = TESTS / "no_such_client.py"
    place(client=failing.name)
    with pytest.raises(SweepdbError, match=r"The client vllm failed \(exit status 2\) at concurrency 16") as told:
        made(place.url)
    assert "no_such_client.py" in told.value.message  # the last lines of its log
    assert left_over(place.url) == {}
    assert stored_points(place.url) == []  # the server is not to blame
    place()
    found, _ = made(place.url)
    assert found.starts == 3
    assert sorted(measured_loads(place.url)) == sorted(ALL)


def test_a_server_without_its_program_is_no_fact(place, monkeypatch, tmp_path):
    (tmp_path / "programs" / "vllm").unlink()
    (tmp_path / "programs" / "aiperf").write_text("#!/bin/sh\n")
    (tmp_path / "programs" / "aiperf").chmod(0o755)
    with pytest.raises(SweepdbError, match=r"server\.sh cannot be started here: .*vllm"):
        made(place.url)
    assert stored_points(place.url) == []


@pytest.mark.usefixtures("page_port")
def test_a_port_in_use_is_left_alone(place):
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("", PORT))
        other.listen()
        found, said = made(place.url, budget=1)
    assert found.points == 3
    assert not any("127.0.0.1:8000" in line for line in said)


def program(url):
    """The starts of a store, made by a process of their own."""
    return subprocess.Popen(
        [sys.executable, str(TESTS / "measured_starts.py"), url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env={**os.environ, "PYTHONPATH": f"{TESTS.parent}:{TESTS}"},
    )  # fmt: skip


def settled(url, seconds=30.0):
    """Whether everything has ended in time."""
    end = time.monotonic() + seconds
    while (left := left_over(url)) and time.monotonic() < end:
        time.sleep(0.05)
    return left


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_what_was_started_first(kind, place):
    with program(place.url) as one:
        while "measured" not in (line := one.stdout.readline()):
            assert line, "it ended by itself"
        one.send_signal(kind)
        assert one.wait(timeout=30) != 0
        assert left_over(place.url) == {}  # at once: it waited for them
    found, _ = made(place.url)
    assert found.starts == 3
    assert sorted(measured_loads(place.url)) == sorted(ALL)


@pytest.mark.parametrize("watchdogs_too", [False, True])
def test_twenty_kills_leave_no_process_and_double_no_point(watchdogs_too, place):
    draw = random.Random(2026)
    killed = 0
    while killed < rounds(10):
        with program(place.url) as one:
            try:
                one.wait(timeout=draw.uniform(0.3, 4.0))
            except subprocess.TimeoutExpired:
                left = left_over(place.url)
                one.kill()
                for process in left if watchdogs_too else ():
                    if "watchdog.py" in left[process]:
                        try:
                            os.kill(process, signal.SIGKILL)
                        except ProcessLookupError:
                            continue
                killed += 1
            else:  # it had done all that there was: begin again with another store's worth of points
                assert sorted(measured_loads(place.url)) == sorted(ALL)
                run_command(["measurements", "delete", "--model", "gpt-oss", "--store", place.url])
        if watchdogs_too:  # the next call ends what is left; so does this, by the journal alone
            with open_journal(runs_folder(parse_url(place.url))) as journal:
                assert sum(end_marked(mark) for mark in journal.marks) >= 0
        assert settled(place.url) == {}
        loads = measured_loads(place.url)
        assert len(loads) == len(set(loads))
    while sorted(measured_loads(place.url)) != sorted(ALL):
        before = len(measured_loads(place.url))
        made(place.url)
        assert len(measured_loads(place.url)) > before
    assert len(stored_points(place.url)) == len(ALL)


def test_decide_makes_its_starts_and_says_what_they_changed(place, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("SPEED", "20")
    url = f"sqlite:///{tmp_path}/decided.sqlite"
    question = ["openai/gpt-oss-120b", "--device", "h100_sxm", "--total-devices", "2", "--input-length", "1024",
                "--output-length", "1024", "--ttft-limit", "300", "--tpot-limit", "9", "--engine", "vllm",
                "--store", url]  # fmt: skip
    assert run_command(["decide", *question, "--run", "--budget", "3"]) == 0
    told = capsys.readouterr()
    # Predicted times of experts by tensor and by expert parallelism are 1 % apart: either is worth the first start.
    assert re.search(r"start 1 of 3: TP2( EP2)? on h100_sxm \(", told.err)
    assert re.search(r"\n[0-9a-f]{8}  h100_sxm  TP2( EP2)? +\d+ ", told.out)  # whole users
    # Of two devices plans of tensor parallel size 2 were measured; any other runs out of memory as it starts.
    assert "ready at http://127.0.0.1:" in told.err
    # The answer reads every point that was measured, and leaves out each plan whose server failed.
    found = json.loads(_document(question, capsys))
    points = [row for row in stored_points(url) if row[-1] is None]
    assert 4 <= len(points) == len(found["runs"])
    assert len(found["ruled_out"]) == sum(row[-1] is not None for row in stored_points(url))
    assert found["answer"]["row" if "row" in found["answer"] else "probe"].partition(":")[0] not in found["ruled_out"]
    assert left_over(url) == {}


def _document(question, capsys):
    assert run_command(["decide", *question, "--format", "json"]) == 0
    return capsys.readouterr().out


ROUTER = """#!/bin/sh
for word in "$@"; do
  case "$word" in http://*) curl -sf "$word/health" || exit 1 ;; esac
done
exec "{python}" "{tests}/measured_server.py" "$@"
"""


@pytest.mark.usefixtures("page_port")
@pytest.mark.parametrize("fault", [None, "out of memory"])
def test_a_pair_is_started_with_its_router_measured_and_stopped(fault, place, tmp_path, capsys, monkeypatch):
    """The router answers as a pair was measured, once all instances answer; or a side of it does not start."""
    place(faults={"1": fault} if fault else None)
    monkeypatch.setenv("SPEED", "20")
    (tmp_path / "rows.json").write_text(json.dumps({"1": {"1": [60, 5], "64": [350, 9]}}), encoding="utf-8")
    router = tmp_path / "programs" / "vllm-router"
    router.write_text(ROUTER.format(python=sys.executable, tests=TESTS), encoding="utf-8")
    router.chmod(0o755)
    url = f"sqlite:///{tmp_path}/pair.sqlite"
    question = ["Qwen/Qwen3-8B", "--device", "h100_sxm", "--total-devices", "2", "--input-length", "1024",
                "--output-length", "128", "--ttft-limit", "500", "--tpot-limit", "10", "--quantization", "BF16",
                "--mode", "pd", "--store", url]  # fmt: skip
    assert run_command(["decide", *question, "--run"]) == 0
    told = capsys.readouterr()
    found = json.loads(_document(question, capsys))
    if fault is None:
        assert "ready at http://127.0.0.1:8000" in told.err
        assert found["answer"]["stands"] == "measured"
        assert found["answer"]["probe"].endswith("1P1D")
        assert len(found["runs"]) == sum(row[-1] is None for row in stored_points(url)) >= 1
    else:
        assert "CUDA out of memory" in told.err
        (why,) = found["ruled_out"].values()
        assert why.startswith("out of memory: ")
        assert found["answer"] is None
    assert left_over(url) == {}


def test_several_hosts_and_large_pairs_are_started_by_hand(tmp_path):
    from sweepdb.running.servers import started_server

    with (
        pytest.raises(InputError, match="`run` starts servers of one machine"),
        started_server(tmp_path, ready_s=1.0, on_process=lambda _: None),
    ):
        pass
