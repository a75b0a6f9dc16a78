"""Files are written whole, and never in place of a pipe, a device or a folder: a store, an output, a proof."""

from __future__ import annotations

import os
import stat

import pytest
from conftest_cli import sweepdb

from store.errors import InputError
from store.whole_files import written_whole


def pipe(path):
    os.mkfifo(path)


def device(path):
    """A node of our own, never one of the machine: as /dev/null it takes everything and gives nothing."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes device nodes")


@pytest.mark.parametrize("make", [pipe, device])
@pytest.mark.parametrize(
    "command",
    [
        "db init --store sqlite:///{}",
        "evaluate Qwen/Qwen3-0.6B --num-devices 1 --input-length 9 --output-length 9 --batch-range 2 --store sqlite:///{}",
        "models --format csv --output {}",
        "models --format parquet --output {}",
    ],
)
def test_what_is_no_file_is_never_replaced(tmp_path, make, command):
    target = tmp_path / "special"
    make(target)
    before = os.lstat(target)
    outcome = sweepdb(command.format(target))
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{target} is a {make.__name__}, which is never replaced\nhint: name a file" in outcome.err
    assert (os.lstat(target).st_ino, os.lstat(target).st_mode) == (before.st_ino, before.st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["special"]


@pytest.mark.parametrize("command", ["query best --proof {}", "sql 'SELECT 1' --format parquet --output {}"])
def test_neither_by_answers(tmp_path, sqlite_url, command):
    example = "evaluate Qwen/Qwen3-0.6B --num-devices 1 --input-length 9 --output-length 9 --batch-range 2"
    assert sweepdb(example, sqlite_url).code == 0
    target = tmp_path / "special"
    pipe(target)
    arguments = ["SELECT 1" if part == "'SELECT" else part for part in command.format(target).split() if part != "1'"]
    outcome = sweepdb(arguments, sqlite_url)
    assert outcome.code == 2
    assert "is a pipe, which is never replaced" in outcome.err
    assert stat.S_ISFIFO(os.lstat(target).st_mode)


def _half_written(target):
    with written_whole(target) as temporary:
        temporary.write_text("half")
        raise RuntimeError


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    target = tmp_path / "file"
    target.write_text("before")
    with pytest.raises(RuntimeError):
        _half_written(target)
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]
    with written_whole(target) as temporary:
        temporary.write_text("after")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["after"]


def test_a_folder_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match="nowhere/file: cannot be written: No such file or directory"):
        with written_whole(tmp_path / "nowhere" / "file") as temporary:
            temporary.write_text("lost")
