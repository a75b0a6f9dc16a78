"""A writer, sealers that are killed, and readers at once: no error, no wrong count, no part that is wrong."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from part_cases import whole_snapshot

from queries.connect import connect
from store.location import parse_url
from store.opening import open_store
from store.sealing import seal_location

SECONDS = 20
ROOT = Path(__file__).parents[2]

WRITER = """
    import itertools, sys, time
    from generator import put, scenarios, sweep_record
    from store.opening import open_store
    from store.writing import begin_sweep, put_scenarios
    end = time.monotonic() + float(sys.argv[2])
    with open_store(sys.argv[1]) as store:
        sweep = begin_sweep(store, sweep_record(key="w" * 32))
        records = (record for record in scenarios() if record.status == "ok")
        while time.monotonic() < end:
            chosen = list(itertools.islice(records, 5))
            for record, ref in zip(chosen, put_scenarios(store, sweep, chosen), strict=True):
                put(store, sweep, record, ref, first=1, last=50)
"""
SEALER = """
    import sys
    from store.sealing import laying_down
    from store.location import parse_url
    laying_down.RETIRED_KEPT_S = 1.0
    while True:
        laying_down.seal_location(parse_url(sys.argv[1]))
"""
READER = """
    import sys, time
    from queries.connect import connect
    end = time.monotonic() + float(sys.argv[2])
    last, asked, from_parts = 0, 0, 0
    check = '''SELECT count(*), count(DISTINCT (scenario_id, batch_size)), count(DISTINCT block_id),
        count(*) FILTER (batch_size NOT BETWEEN 1 AND 50) FROM raw.stored_probe'''
    while time.monotonic() < end:
        with connect(sys.argv[1]) as connection:
            count, distinct, blocks, strange = connection.execute(check).fetchone()
            from_parts += connection.snapshot.rows > 0
            reasons = [part.reason for part in connection.snapshot.rejected]
        assert count == distinct == 50 * blocks, (count, distinct, blocks)
        assert count >= last, (count, last)
        assert strange == 0
        assert not reasons, reasons
        last, asked = count, asked + 1
    print(asked, from_parts)
"""


def launch(program: str, *arguments: str) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
    )  # fmt: skip


@pytest.fixture
def start():
    """Start programs that do not outlive the test."""
    started: list[subprocess.Popen] = []

    def run(program: str, *arguments: str) -> subprocess.Popen:
        started.append(launch(program, *arguments))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.survival
def test_sealers_are_killed_while_others_write_and_read(store, start, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    url = store.url
    seconds = str(SECONDS)
    chance = random.Random(4)
    writer = start(WRITER, url, seconds)
    readers = [start(READER, url, seconds) for _ in range(3)]
    kills, read_from_parts = 0, 0
    # On a busy machine no sealer may live long enough: something is laid down before the first is killed.
    while seal_location(parse_url(url)).probes == 0:
        time.sleep(0.1)
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        sealer = start(SEALER, url)
        time.sleep(chance.uniform(1.0, 4.0))
        assert sealer.poll() is None, sealer.communicate()[1]
        sealer.send_signal(signal.SIGKILL)
        sealer.communicate()
        kills += 1
    for process in (writer, *readers):
        output, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors
        if process is not writer:
            asked, from_parts = map(int, output.split())
            assert asked > 3
            read_from_parts += from_parts
    assert read_from_parts > 0
    assert kills >= 4
    seal_location(parse_url(url))
    with open_store(url) as opened:
        checked = whole_snapshot(opened)
    assert checked.rejected == ()
    with connect(url) as connection:
        (count,) = connection.execute("SELECT count(*) FROM raw.stored_probe").fetchone()
        assert connection.unsealed_probes == 0
    assert count == checked.rows > 0
    leftovers = [path for path in checked.parts[0].path.parent.iterdir() if path.name.startswith(".part-")]
    assert leftovers == []
