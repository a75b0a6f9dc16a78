"""^C in `sweepdb sql`: exit 130 and one line within two seconds, whatever DuckDB is doing; JSON is whole or absent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest_cli import sweepdb

ROOT = Path(__file__).parents[2]
LINE = "interrupted; what was acknowledged is kept\n"
STUCK = "SELECT levenshtein(repeat('a', 5000000), repeat('b', 5000000)) AS d"  # one call: hours, looking at nothing
ROWS = "SELECT i, levenshtein(repeat('a', 1000), repeat('b', 1000)) AS d FROM range(100000000000) t(i)"


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('interrupted')}/store.sqlite"
    assert sweepdb("db init", url).code == 0
    return url


def started(store, *arguments):
    """The command in a process of its own, once its statement runs."""
    ready = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
    told = "import queries.sandbox as s; old = s._memory_ceiling;"
    told += "s._memory_ceiling = lambda limits: (print('running', file=sys.stderr, flush=True), old(limits))[1];"
    program = f"{ready}{told} from cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "sql", *arguments, "--store", store],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert process.stderr.readline() == "running\n"
    return process


def ended(process, number=signal.SIGINT):
    """(exit code, stdout, stderr, seconds) of a running statement that gets a signal."""
    time.sleep(0.3)
    process.send_signal(number)
    begun = time.monotonic()
    out, err = process.communicate(timeout=20)
    return process.returncode, out, err, time.monotonic() - begun


@pytest.mark.parametrize("sql", ["SELECT count(*) FROM range(100000000000000)", STUCK, ROWS])
@pytest.mark.parametrize("format_", ["table", "json"])
def test_an_interrupt_ends_the_command_with_one_line_and_no_output(empty_store, sql, format_):
    code, out, err, seconds = ended(started(empty_store, sql, "--format", format_))
    assert (code, out, err) == (130, "", LINE)
    assert seconds < 10  # two where nothing else runs


def test_lines_that_were_printed_are_whole(empty_store):
    code, out, err, _ = ended(started(empty_store, ROWS, "--format", "jsonl"))
    assert (code, err) == (130, LINE)
    assert [json.loads(line)["i"] for line in out.splitlines()] == list(range(len(out.splitlines())))
    assert not out or out.endswith("\n")


@pytest.mark.parametrize(("format_", "sql"), [("parquet", STUCK), ("json", ROWS), ("csv", STUCK)])
def test_a_file_that_was_not_finished_is_gone(empty_store, tmp_path, format_, sql):
    file = tmp_path / "answer"
    code, _, err, _ = ended(started(empty_store, sql, "--format", format_, "--output", str(file)))
    assert (code, err) == (130, LINE)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--timeout", "0.5"], ["--memory-limit", "0.25"]])
def test_json_that_meets_a_limit_prints_nothing(empty_store, arguments):
    # 10^8 rows of 100 kB: whichever limit comes first, rows have come before it. In a process of its own, since a slow
    # machine may be at work on one batch of rows for longer than a statement is waited for.
    wide = "SELECT i, repeat('x', 100000) AS text FROM range(100000000) t(i)"
    process = started(empty_store, wide, "--format", "json", *arguments)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (2, "")
    assert err.count("error: ") == 1


def test_json_within_its_limits_is_valid(empty_store):
    outcome = sweepdb(["sql", "SELECT i FROM range(5000) t(i)", "--format", "json"], empty_store)
    assert [row["i"] for row in json.loads(outcome.out)] == list(range(5000))
