"""Whether a file of a part is the one that was named, as far as that is cheap: by size, times, inode, and footer.

A file whose times moved, as after a copy, is compared whole, once a process."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from store.light_dataclass import NamedTuple
from store.placing.shelves import NO_TIMES, FileTimes
from store.reading import ReadTransaction, Recalled, version_of

_TAIL = 8  # the length of the footer, and four letters
_AT_FIRST = 32_768
_RIGHT: Recalled[str] = Recalled(most=100_000)  # digests of files that were compared, by their version


class FileState(NamedTuple):
    """A file as it was when it was named. Without times its place keeps none, a bucket."""

    name: str
    footer: str
    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None

    @property
    def times(self) -> FileTimes:
        return FileTimes(self.mtime_ns, self.ctime_ns, self.inode)


def footer_digest(path: Path) -> str:
    """Digest what a Parquet file says at its end of itself: rows, columns, and where each of their pages lies."""
    file = os.open(path, os.O_RDONLY)  # a question opens thousands of files
    try:
        end = os.fstat(file).st_size
        last = os.pread(file, _AT_FIRST, max(0, end - _AT_FIRST))
        length = min(int.from_bytes(last[-_TAIL:-4], "little") + _TAIL, end)
        if length > len(last):
            last = os.pread(file, length, end - length)
        return hashlib.sha256(last[-length:]).hexdigest()
    finally:
        os.close(file)


def whole_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def states_of_files(transaction: ReadTransaction, names: Iterable[str]) -> dict[str, FileState]:
    """How files were when they were named; those of before revision 0018 are not there."""
    statement = "SELECT name, footer, mtime_ns, ctime_ns, inode FROM part_file WHERE name IN ({marks})"
    return {row.name: row for row in transaction.rows_of(FileState, statement, names)}


def changed_since(path: Path, size: int, sha256: str, state: FileState | None) -> str | None:
    """Say in which way a file is not the one that was named; raises FileNotFoundError where there is none."""
    status = path.stat()
    if status.st_size != size:
        return f"has {status.st_size:,} bytes, {size:,} were written"
    version = version_of(path, status)
    if _RIGHT.get(version) == sha256:
        return None
    if state is not None and footer_digest(path) != state.footer:
        return "is not the file that was registered: its footer is another"
    untouched = state is not None and state.times in (NO_TIMES, FileTimes.of(status))
    if not untouched and whole_digest(path) != sha256:
        return "is not the file that was registered: it was changed after it was written"
    _RIGHT.keep(version, sha256)
    return None
