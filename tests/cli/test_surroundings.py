"""Full disks, names that no disk takes, servers that go away: one sentence, exit 3, nothing half done."""

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from conftest_cli import sweepdb, words
from generator import fill, sweep_record

from store.opening import open_store
from store.writing import begin_sweep, finish_sweep

TESTS = Path(__file__).parents[1]
LONG = "a" * 300


@pytest.mark.parametrize(
    ("command", "store"),
    [
        ("db init", LONG),
        ("export {folder}/" + LONG, None),
        ("import {folder}/" + LONG, "new"),
        ("query best", LONG),
        ("query best --format csv --output {folder}/" + LONG, None),
        ("query best --proof {folder}/" + LONG, None),
        ("sql 'SELECT 1' --format parquet --output {folder}/" + LONG, None),
        ("verify {folder}/" + LONG, None),
        ("db check --format csv --output {folder}/" + LONG, None),
        ("db vacuum", LONG),
        ("db upgrade", LONG),
    ],
)
def test_a_name_that_no_disk_takes_is_one_sentence(tmp_path, example_store, command, store):
    url = example_store if store is None else f"sqlite:///{tmp_path}/{store}.sqlite"
    outcome = sweepdb([word.format(folder=tmp_path) for word in shlex.split(command)], url)
    assert outcome.code in {2, 3}, outcome.err
    assert "Traceback" not in outcome.err
    assert len([line for line in outcome.err.splitlines() if line.startswith("error: ")]) == 1
    assert [path.name for path in tmp_path.iterdir() if not path.name.startswith("new")] == []


EVALUATED = (
    "evaluate Qwen/Qwen3-32B --device TEST_DEVICE --num-devices 8 --input-length 3500 --output-length 1500"
    " --quantization W8A8_DYNAMIC --batch-range 400"
)
FULL = {  # a command, and how many of its writes and flushes succeed
    "evaluate": (EVALUATED, (1, 80, 150)),
    "export": ("export {folder}/out", (1, 25, 43)),
    "import": ("import {folder}/bundle --store sqlite:///{folder}/other.sqlite", (1, 70, 200)),
    "seal": ("db seal", (1, 26)),
    "vacuum": ("db vacuum", (1, 100)),
    "output": ("query best --format csv --output {folder}/answer", (1, 28)),
    "proof": ("query best --proof {folder}/answer", (1, 40)),
}


@pytest.mark.survival
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler for the shim that fills the disk")
@pytest.mark.parametrize("what", FULL)
def test_a_full_disk_is_one_sentence_and_leaves_nothing_half_done(tmp_path, example_store, what):
    shim = tmp_path / "kill_at.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, TESTS / "kill_at.c", "-ldl"], check=True)
    assert sweepdb(f"export {tmp_path}/bundle", example_store).code == 0
    command, moments = FULL[what]
    outcomes = []
    for moment in moments:
        store = tmp_path / f"{moment}.sqlite"
        shutil.copy(example_store.removeprefix("sqlite:///"), store)
        environment = {
            **os.environ,
            "PYTHONPATH": str(TESTS.parent),
            "LD_PRELOAD": str(shim),
            "SWEEPDB_FULL_AT": str(moment),
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CACHE_HOME": str(tmp_path / "cache"),
            "SWEEPDB_STORE": f"sqlite:///{store}",
        }
        given = [sys.executable, "-m", "cli.main", *words(command.format(folder=tmp_path))]
        done = subprocess.run(given, env=environment, capture_output=True, text=True, check=False)
        outcomes.append(done.returncode)
        if done.returncode:
            assert done.returncode == 3, done.stderr
            assert "Traceback" not in done.stderr
            assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1
            assert not (tmp_path / "out").exists()
            assert not (tmp_path / "answer").exists()
        assert sweepdb("db check", f"sqlite:///{store}").code == 0
    assert 3 in outcomes


def test_a_server_that_ends_a_session_while_a_sweep_ends_loses_nothing(postgresql_url):
    """What lets the sweep go finds its session gone, and with it the lock that it wanted to let go."""
    fill(postgresql_url, probes=50)
    with open_store(postgresql_url) as store:
        number = begin_sweep(store, sweep_record(key="d" * 32))
        with psycopg.connect(postgresql_url, autocommit=True) as other:
            other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
        store.engine.dispose()
        finish_sweep(store, number, "finished")
        with store.reading() as connection:
            (status,) = connection.exec_driver_sql("SELECT status FROM sweep ORDER BY id DESC LIMIT 1").one()
    assert status == "finished"
