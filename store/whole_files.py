"""Files that are written whole or not at all, and never in place of something that is no file."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from store.errors import InputError, StoreError, SweepdbError

_DISK = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EFBIG})
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def refuse_special(path: Path) -> None:
    """Refuse a path at which there is something else than a file: a rename over it would destroy it.

    As root in a container, a device node that is replaced by a file is gone for every process."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # nothing there, or nothing that may be looked at: writing says what is wrong
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise InputError(f"{path} is {kind}, which is never replaced", hint="name a file")


_UNDER_WAY: set[Path] = set()


def drop_unfinished_files() -> None:
    """Remove what is half written, where a process must end without unwinding."""
    for temporary in tuple(_UNDER_WAY):
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to, which takes its place at the end. An error leaves nothing of it."""
    refuse_special(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    _UNDER_WAY.add(temporary)
    try:
        yield temporary
        temporary.replace(path)
    except OSError as error:
        raise unwritable(path, error) from error
    finally:
        _UNDER_WAY.discard(temporary)
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def number_of(error: Exception) -> int | None:
    """The number that the system gave an error, in the words of DuckDB too; None where it gave none."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = re.search(r'"errno":"(\d+)"', str(error))
    if found is None:
        return errno.ENOSPC if os.strerror(errno.ENOSPC) in str(error) else None
    return int(found[1])


def unwritable(path: Path, error: Exception) -> SweepdbError:
    """The error of a path that could not be written: a full or failing disk is not the user's mistake."""
    number = number_of(error)
    said = str(error).partition("\n")[0] if number is None else os.strerror(number)
    if number in _DISK:
        free = "" if number == errno.EROFS else "free some space, or "
        return StoreError(f"{path}: cannot be written: {said}", hint=f"{free}name another place")
    return InputError(f"{path}: cannot be written: {said}", hint="name a place that you may write")
