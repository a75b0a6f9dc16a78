"""Shelves of parts: a folder that every machine sees, or a bucket. A file never changes under its name.

A file waits under another name until a database is about to name it. What waits may be deleted when nobody comes for
it; what has its name may be in some database, a copy or a backup, and is not deleted for being unknown here."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from store.light_dataclass import NamedTuple

WAITING = "waiting-"
THINNED = "shard-thin-"
_NAMED = "shard-*.parquet"
_UNNEEDED = (f"{WAITING}{_NAMED}", f".{_NAMED}", f"{THINNED}*.parquet")
_LOCK = ".lock"


class FileTimes(NamedTuple):
    """When a file changed, and its number: whoever touches it changes one of them."""

    mtime_ns: int | None
    ctime_ns: int | None
    inode: int | None

    @classmethod
    def of(cls, status: os.stat_result) -> FileTimes:
        return cls(status.st_mtime_ns, status.st_ctime_ns, status.st_ino & (2**63 - 1))


NO_TIMES = FileTimes(None, None, None)


class Shelf(ABC):
    """A place of parts by address. Whatever goes wrong with it is an OSError that says what."""

    address: str
    scratch: Path
    """A folder of this machine, for files that are not finished."""

    @abstractmethod
    def below(self, home: str) -> Shelf: ...

    @abstractmethod
    def put(self, temporary: Path, name: str) -> None:
        """Let a finished file of `scratch` wait for its name; it appears whole, or not at all."""

    @abstractmethod
    def settle(self, name: str) -> FileTimes:
        """Give a file that waits its name, and say how it is then; what has it already is left alone."""

    @abstractmethod
    def has(self, name: str) -> bool: ...

    @abstractmethod
    def fetched(self, name: str, size: int, sha256: str) -> Path:
        """The file as one of this machine, to be read. That it is what was written is compared where it was copied."""

    @abstractmethod
    def sha256(self, name: str) -> str: ...

    @abstractmethod
    def remove(self, name: str) -> None:
        """Delete a file; one that is not there is no error."""

    @abstractmethod
    def unneeded(self, thinned: Collection[str], *, older_than_s: float = 0.0) -> list[str]:
        """Files that no database can have named, unfinished or waiting; and thinned ones, which are made again, but for
        some."""

    @abstractmethod
    def named(self) -> list[str]: ...

    @abstractmethod
    def note(self, name: str) -> str | None: ...

    @abstractmethod
    def put_note(self, name: str, text: str) -> None:
        """Write a small file in one step."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep everybody else of this machine, or of the shared folder, from changing whose it is."""
        yield


class Folder(Shelf):
    def __init__(self, path: Path) -> None:
        self.path = path
        self.address = str(path)
        self.scratch = path

    def below(self, home: str) -> Folder:
        return Folder(self.path / home)

    def put(self, temporary: Path, name: str) -> None:
        temporary.replace(self.path / f"{WAITING}{name}")

    def settle(self, name: str) -> FileTimes:
        path = self.path / name
        try:
            (self.path / f"{WAITING}{name}").replace(path)
        except FileNotFoundError:
            if not path.is_file():
                raise
        flush_folder(self.path)
        return FileTimes.of(path.stat())

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def fetched(self, name: str, size: int, sha256: str) -> Path:  # noqa: ARG002  read where it lies
        path = self.path / name
        path.stat()
        return path

    def sha256(self, name: str) -> str:
        with (self.path / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def remove(self, name: str) -> None:
        (self.path / name).unlink(missing_ok=True)

    def unneeded(self, thinned: Collection[str], *, older_than_s: float = 0.0) -> list[str]:
        found = []
        for path in (path for pattern in _UNNEEDED for path in self.path.glob(pattern)):
            with suppress(OSError):
                if path.name not in thinned and time.time() - path.stat().st_mtime >= older_than_s:
                    found.append(path.name)
        return sorted(found)

    def named(self) -> list[str]:
        return sorted(path.name for path in self.path.glob(_NAMED) if not path.name.startswith(THINNED))

    def note(self, name: str) -> str | None:
        try:
            return (self.path / name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return None

    def put_note(self, name: str, text: str) -> None:
        put_text(self.path / name, text)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock that the system frees when its holder dies."""
        with (self.path / _LOCK).open("a", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def put_text(path: Path, text: str) -> None:
    """Write a small file in one step, and let the disk have it."""
    temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


def flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
