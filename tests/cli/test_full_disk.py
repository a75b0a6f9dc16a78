"""A disk that is full while a command writes: one sentence, exit 3, and the same command goes on where there is room."""

from __future__ import annotations

import subprocess

import pytest
from conftest_cli import sweepdb

EVALUATE = (
    "evaluate Qwen/Qwen3-0.6B --device TEST_DEVICE --total-devices 2 --input-length 1000 --output-length 300"
    " --batch-range 2000 --serving-model waves"
)


@pytest.fixture
def small_disk(tmp_path):
    """A file system that `resized` makes larger or smaller."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


def resized(place, more):
    used = sum(-(-path.stat().st_size // 4096) * 4096 for path in place.rglob("*") if path.is_file())
    subprocess.run(["mount", "-o", f"remount,size={(used + more) // 1024 + 16}k", place], check=True)


# Little room fails a block, more the move of the log into the file at the end, and more the snapshot beside it.
@pytest.mark.parametrize("room", [100_000, 700_000, 1_100_000, 1_500_000])
def test_an_evaluation_on_a_full_disk_says_so_and_goes_on_later(small_disk, room):
    url = f"sqlite:///{small_disk}/store.sqlite"
    assert sweepdb("db init", url).code == 0
    resized(small_disk, room)
    outcome = sweepdb(EVALUATE, url)
    assert "Traceback" not in outcome.err
    assert outcome.code == 3, (outcome.code, outcome.err)
    assert "full" in outcome.err or "No space left" in outcome.err
    resized(small_disk, 64_000_000)
    again = sweepdb(EVALUATE, url)
    assert again.code == 0, again.err
    assert sweepdb("db check", url).code == 0


def test_a_parquet_file_on_a_full_disk_says_so(small_disk, tmp_path):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    assert sweepdb("db init", url).code == 0
    resized(small_disk, 100_000)
    statement = "SELECT md5(range::VARCHAR) AS a FROM range(100000)"
    outcome = sweepdb(["sql", statement, "--format", "parquet", "--output", f"{small_disk}/a.parquet"], url)
    assert (outcome.code, "No space left on device" in outcome.err) == (3, True), outcome.err
    assert list(small_disk.iterdir()) == []
