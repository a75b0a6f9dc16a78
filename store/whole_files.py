"""The one place that opens a user's output.

A file is written whole or not at all. Pipes, terminals and descriptors such as `/dev/stdout` are written to; nothing
else is."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping
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
STANDARD_OUTPUT = Path("/dev/stdout")
_MOST_LINKS = 40  # as Linux follows
_SCRIPT, _SCRIPT_MODE = ".sh", 0o755


def refuse_special(path: Path) -> None:
    """A rename would destroy it.

    As root in a container, a replaced device node is gone for every process."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return  # nothing there, or nothing that may be looked at: writing says what is wrong
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "no regular file")
        raise InputError(f"{path} is {kind}, which is never replaced", hint="name a file")


_UNDER_WAY: set[Path] = set()


def drop_unfinished_files() -> None:
    """For a process that must end without unwinding."""
    for temporary in tuple(_UNDER_WAY):
        with suppress(OSError):
            temporary.unlink()


def is_standard_output(path: Path) -> bool:
    return _descriptor(path) == 1


def is_stream(path: Path) -> bool:
    """A pipe, terminal, `/dev/null`, or open descriptor."""
    if _descriptor(path) is not None:
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def is_device(path: Path) -> bool:
    """A terminal, or another character device."""
    descriptor = _descriptor(path)
    try:
        return stat.S_ISCHR((path.stat() if descriptor is None else os.fstat(descriptor)).st_mode)
    except OSError:
        return False


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """Reaches `path` at the end, or not at all.

    Replaces the file, or the one that a link leads to."""
    try:
        if is_stream(path):
            with _sent(path) as temporary:
                yield temporary
        else:
            refuse_special(path)
            with _replaced(path.resolve() if path.is_symlink() else path) as temporary:
                yield temporary
    except BrokenPipeError:
        raise  # the reader has seen enough, as of standard output
    except OSError as error:
        raise unwritable(path, error) from error


@contextmanager
def _replaced(path: Path) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    with _unfinished(temporary):
        yield temporary
        temporary.replace(path)


@contextmanager
def _sent(path: Path) -> Iterator[Path]:
    """Opened at once, so that a reader meets an end even of failures."""
    descriptor = _descriptor(path)
    opened = os.open(path, os.O_WRONLY | os.O_NOCTTY) if descriptor is None else os.dup(descriptor)
    with os.fdopen(opened, "wb") as stream:
        import tempfile

        number, name = tempfile.mkstemp(prefix="sweepdb-", suffix=".part")
        os.close(number)
        with _unfinished(Path(name)) as temporary:
            yield temporary
            if descriptor == 1:
                sys.stdout.flush()  # what was written before comes first
            with temporary.open("rb") as file:
                shutil.copyfileobj(file, stream)


@contextmanager
def _unfinished(temporary: Path) -> Iterator[Path]:
    _UNDER_WAY.add(temporary)
    try:
        yield temporary
    finally:
        _UNDER_WAY.discard(temporary)
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _descriptor(path: Path) -> int | None:
    """1 for `/dev/stdout`, through links too.

    Opening it anew would overwrite the beginning of a file to which a shell appends."""
    folders = {Path("/dev/fd"), Path("/dev/fd").resolve(), Path("/proc/self/fd").resolve()}
    place = path.absolute()
    for _ in range(_MOST_LINKS):
        if place == STANDARD_OUTPUT:
            return 1
        if place.name.isdecimal() and place.parent.resolve() in folders:
            return int(place.name)
        if not place.is_symlink():
            break
        place = place.parent / place.readlink()
    return None


def number_of(error: Exception) -> int | None:
    """Also in DuckDB's words."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = re.search(r'"errno":"(\d+)"', str(error))
    if found is None:
        return errno.ENOSPC if os.strerror(errno.ENOSPC) in str(error) else None
    return int(found[1])


def unwritable(path: Path, error: Exception) -> SweepdbError:
    """A full or failing disk is not the user's mistake."""
    number = number_of(error)
    said = str(error).partition("\n")[0] if number is None else os.strerror(number)
    if number in _DISK:
        free = "" if number == errno.EROFS else "free some space, or "
        return StoreError(f"{path}: cannot be written: {said}", hint=f"{free}name another place")
    return InputError(f"{path}: cannot be written: {said}", hint="name a place that you may write")


def write_folder(folder: Path, files: Mapping[str, bytes], *, force: bool) -> None:
    if is_stream(folder):
        _write_archive(folder, files)
        return
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file", hint="`output` names a folder")
    if folder.exists() and any(folder.iterdir()) and not force:
        raise InputError(f"{folder} is not empty", hint="`force` writes into it all the same, or name another")
    try:
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            if name.endswith(_SCRIPT):
                path.chmod(_SCRIPT_MODE)
    except OSError as error:
        raise unwritable(folder, error) from error


def _write_archive(stream: Path, files: Mapping[str, bytes]) -> None:
    import tarfile

    with written_whole(stream) as temporary, tarfile.open(temporary, "w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(content), _SCRIPT_MODE if name.endswith(_SCRIPT) else 0o644
            archive.addfile(member, io.BytesIO(content))
