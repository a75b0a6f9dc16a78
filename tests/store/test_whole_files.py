"""Files are written whole, and never in place of a socket, a device or a folder: a store, an output."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

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
        "evaluate Qwen/Qwen3-0.6B --device h100_sxm --num-devices 1 --input-length 9 --output-length 9 --batch-range 2 --store sqlite:///{}",
    ],
)
def test_what_is_no_file_is_never_replaced(tmp_path, make, command):
    target = tmp_path / "special"
    make(target)
    before = os.lstat(target)
    outcome = sweepdb(command.format(target))
    assert (outcome.code, outcome.out) == (2, "")
    assert f"{target} is a {make.__name__}, which is never replaced.\nhint: Name a file" in outcome.err
    assert (os.lstat(target).st_ino, os.lstat(target).st_mode) == (before.st_ino, before.st_mode)
    assert [path.name for path in tmp_path.iterdir()] == ["special"]


def connected(path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def block_device(path):
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, 255))
    except PermissionError:
        pytest.skip("only root makes device nodes")


@pytest.mark.parametrize(
    ("make", "kind"), [(connected, "a socket"), (block_device, "a device"), (Path.mkdir, "a folder")]
)
@pytest.mark.parametrize("by", ["itself", "a link"])
def test_what_is_no_file_and_no_stream_is_never_written_to(tmp_path, make, kind, by):
    target = tmp_path / "special"
    make(target)
    named = target if by == "itself" else tmp_path / "link"
    if by == "a link":
        named.symlink_to("special")
    before = [os.lstat(path) for path in (target, named)]
    with pytest.raises(InputError, match=f"{named} is {kind}, which is never replaced"), written_whole(named):
        pass
    assert [(one.st_ino, one.st_mode) for one in before] == [
        (one.st_ino, one.st_mode) for one in map(os.lstat, (target, named))
    ]
    assert {path.name for path in tmp_path.iterdir()} == {target.name, named.name}


def test_a_name_of_a_descriptor_is_written_where_it_stands(tmp_path):
    """A shell opened the file to append to it, and calls it by a number."""
    file = tmp_path / "file"
    file.write_text("before\n")
    with file.open("a") as opened:
        names = (f"/dev/fd/{opened.fileno()}", f"/proc/self/fd/{opened.fileno()}")
        for name in names:
            with written_whole(Path(name)) as temporary:
                temporary.write_text(f"{name}\n")
    assert file.read_text() == f"before\n{names[0]}\n{names[1]}\n"


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
