"""Kills, many processes at once, and full disks. Nothing acknowledged may be lost, nothing half done seen."""

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from generator import fill
from sqlalchemy import text

from queries.connect import connect
from store.location import parse_url
from store.opening import open_store
from store.sealing import seal
from store.upkeep import check_store

ROOT = Path(__file__).parents[2]
SOAK_S = 20.0
READERS = 8

pytestmark = pytest.mark.survival


@pytest.fixture(autouse=True)
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def start(role, url, number, seconds, **options):
    command = [sys.executable, "-W", "error", str(ROOT / "tests" / "survival_programs.py"), role, url]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([*command, str(number), str(seconds)], env=environment, cwd=ROOT, **options)


def facts(path):
    """Return the whole lines a program has printed; a line cut by a kill was not said."""
    return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]


def stored_blocks(url):
    query = "SELECT s.key, b.first_batch_size, b.last_batch_size FROM block b JOIN scenario s ON s.id = b.scenario_id"
    found = {}
    with open_store(url) as store, store.reading() as connection:
        for key, first, last in connection.execute(text(query)):
            found.setdefault(key, set()).update(range(first, last + 1))
    return found


def require_acknowledged(url, acknowledged):
    found = stored_blocks(url)
    for item in acknowledged:
        missing = set(range(item["first"], item["last"] + 1)) - found.get(item["scenario"], set())
        assert not missing, (item, missing)


def count_with_duckdb(url):
    with connect(url) as connection:
        return connection.execute("SELECT COUNT(*), COUNT(DISTINCT block_id) FROM raw.stored_probe").fetchone()


@pytest.mark.parametrize("wanted", [10, pytest.param(100, marks=pytest.mark.long)])
def test_a_writer_killed_many_times_loses_nothing_it_acknowledged(tmp_path, wanted):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    chance = random.Random(20_26)
    acknowledged, kills = [], 0
    log = tmp_path / "said"
    while kills < wanted:
        with log.open("wb") as output:
            process = start("write", url, kills, 60, stdout=output)
        while not facts(log) and process.poll() is None:
            time.sleep(0.01)
        time.sleep(chance.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
        kills += 1
        acknowledged += [item for item in facts(log) if "scenario" in item]
        report = check_store(parse_url(url))
        # A snapshot part that does not match is left aside and rebuilt; the store itself must be whole.
        assert [fault for fault in report.faults if not fault.startswith("The snapshot")] == []
        require_acknowledged(url, acknowledged)
        assert count_with_duckdb(url) == (report.probes, report.blocks)
    assert len(acknowledged) > wanted
    with open_store(url) as store:
        seal(store)
    report = check_store(parse_url(url))
    assert report.faults == ()
    assert report.snapshot_probes == report.probes > 0
    assert count_with_duckdb(url) == (report.probes, report.blocks)


@pytest.mark.parametrize("writers", [3, pytest.param(32, marks=pytest.mark.long)])
def test_many_evaluators_and_eight_readers_at_once(store_url, tmp_path, writers):
    open_store(store_url, create=True).close()
    logs, processes = [], []
    for number in range(writers + READERS):
        log = tmp_path / f"said-{number}"
        with log.open("wb") as output, log.with_suffix(".err").open("wb") as errors:
            role = "write" if number < writers else "read"
            processes.append(start(role, store_url, number, SOAK_S, stdout=output, stderr=errors))
        logs.append(log)
    for process, log in zip(processes, logs, strict=True):
        process.wait(timeout=SOAK_S * (4 + writers))
        assert process.returncode == 0, log.with_suffix(".err").read_text()[-3000:]
    written = [item for log in logs[:writers] for item in facts(log)]
    transactions = [item for item in written if "added" in item]
    counted = [item for log in logs[writers:] for item in facts(log)]
    assert all(facts(log) for log in logs)
    assert [item for item in counted if item["wrong_blocks"] or item["fell"]] == []
    assert max(item["probes"] for item in counted) > 0
    report = check_store(parse_url(store_url))
    print(
        f"{writers} writers: {len(transactions)} transactions, {report.blocks} blocks, {report.probes} probes;"
        f" {READERS} readers: {len(counted)} counts"
    )
    assert report.faults == ()
    assert report.probes == sum(item["added"] for item in transactions)
    # They did ask for the same: some blocks were trimmed to what the other writer had not stored.
    assert any(0 < item["added"] < item["asked"] for item in transactions)
    require_acknowledged(store_url, [item for item in written if "scenario" in item])


def starve(url, **options):
    """Let a writer run until its surroundings stop it, and return what it acknowledged and what it complained of."""
    log = options.pop("said", parse_url(url).path.parent) / "said"
    with log.open("wb") as output:
        process = start("write", url, 3, 120, stdout=output, stderr=subprocess.PIPE, **options)
    _, complaint = process.communicate(timeout=150)
    assert process.returncode == 1
    return [item for item in facts(log) if "scenario" in item], complaint.decode()


def continue_writing(url, acknowledged):
    """The store is whole, holds what was acknowledged, and can be written again."""
    require_acknowledged(url, acknowledged)
    assert [fault for fault in check_store(parse_url(url)).faults if "snapshot" not in fault] == []
    assert fill(url, probes=300, seed=77).probes >= 300
    require_acknowledged(url, acknowledged)


def test_a_file_that_may_not_grow_is_a_clear_error_and_loses_nothing(tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    open_store(url, create=True).close()
    limit = 3_000_000
    acknowledged, complaint = starve(
        url, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    )
    assert "StoreError" in complaint
    assert "full" in complaint
    assert len(acknowledged) > 3
    continue_writing(url, acknowledged)


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 4 MB."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_disk_is_a_clear_error_and_loses_nothing(small_disk, tmp_path):
    url = f"sqlite:///{small_disk}/store.sqlite"
    open_store(url, create=True).close()
    acknowledged, complaint = starve(url, said=tmp_path)
    assert "StoreError" in complaint
    assert "full" in complaint
    assert len(acknowledged) > 3
    require_acknowledged(url, acknowledged)
    subprocess.run(["mount", "-o", "remount,size=32m", small_disk], check=True)
    continue_writing(url, acknowledged)


def test_a_disk_too_full_for_a_new_store_leaves_nothing_behind(small_disk):
    from store.errors import StoreError

    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(4 * 2**20 - 65_536))
    with pytest.raises(StoreError, match="full"):
        open_store(f"sqlite:///{small_disk}/store.sqlite", create=True)
    assert [path.name for path in small_disk.iterdir()] == ["ballast"]
