"""Shelves of parts: a folder that every machine sees, or a bucket. A file never changes under its name.

Not here: which shelf is a store's (store.placing.folders), buckets (store.placing.buckets)."""

from __future__ import annotations

import hashlib
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

_WRITTEN = "shard-*.parquet"
_HIDDEN = ".shard-*.parquet"


class Shelf(ABC):
    """A place of parts by address. Whatever goes wrong with it is an OSError that says what."""

    address: str
    scratch: Path
    """A folder of this machine, for files that are not finished."""

    @abstractmethod
    def put(self, temporary: Path, name: str) -> None:
        """Give a finished file of `scratch` its place; it appears whole, or not at all."""

    @abstractmethod
    def has(self, name: str) -> bool:
        """Whether a file of this name is there."""

    @abstractmethod
    def fetched(self, name: str, size: int, sha256: str) -> Path:
        """The file as one of this machine, to be read. That it is what was written is compared where it was copied."""

    @abstractmethod
    def sha256(self, name: str) -> str:
        """The digest of what lies there now."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Delete a file; one that is not there is no error."""

    @abstractmethod
    def strangers(self, names: Collection[str], *, older_than_s: float = 0.0) -> list[str]:
        """Files of workers that are not among these names, by name."""


class Folder(Shelf):
    """A folder of this machine, or one that it shares with others."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.address = str(path)
        self.scratch = path

    def put(self, temporary: Path, name: str) -> None:
        """Rename it, and have that flushed."""
        temporary.replace(self.path / name)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def has(self, name: str) -> bool:
        """Whether it is a file here."""
        return (self.path / name).is_file()

    def fetched(self, name: str, size: int, sha256: str) -> Path:  # noqa: ARG002  read where it lies
        """The file itself."""
        path = self.path / name
        path.stat()
        return path

    def sha256(self, name: str) -> str:
        """The digest of the file."""
        with (self.path / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def remove(self, name: str) -> None:
        """Delete it."""
        (self.path / name).unlink(missing_ok=True)

    def strangers(self, names: Collection[str], *, older_than_s: float = 0.0) -> list[str]:
        """Files that no row names, finished or not."""
        found = []
        for pattern in (_WRITTEN, _HIDDEN):
            for path in self.path.glob(pattern):
                with suppress(OSError):
                    if path.name not in names and time.time() - path.stat().st_mtime >= older_than_s:
                        found.append(path.name)
        return sorted(found)
