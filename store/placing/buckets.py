"""Parts in a bucket by fsspec (s3:// and others), copied here once.

A part never changes under its name, so a right copy stays right."""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from store.errors import InputError, StoreError
from store.placing.shelves import NO_TIMES, THINNED, WAITING, FileTimes, Shelf

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

COPIES = "SWEEPDB_PARTS_COPIES_GB"
_COPIES_GB = 20.0
_READ_AT_ONCE = 2**20
_LEFT_S = 24 * 3600.0
_IN_USE_S = 600.0  # a question that opens files one by one finds the first of them still there


class Bucket(Shelf):
    """Copies are in the user's cache; the least recent go first."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")
        place = hashlib.sha256(self.address.encode()).hexdigest()[:12]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sweepdb"
        self.scratch = cache / f"parts-{place}"
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._files, self._root = _opened(self.address)

    def below(self, home: str) -> Bucket:
        return Bucket(f"{self.address}/{home}")

    def put(self, temporary: Path, name: str) -> None:
        """An object store shows an object once it is whole."""
        size = temporary.stat().st_size
        waiting = self._key(f"{WAITING}{name}")
        with _faults(self.address):
            self._files.put_file(str(temporary), waiting)
            arrived = int(self._files.info(waiting)["size"])
        if arrived != size:
            raise OSError(errno.EIO, f"{arrived:,} of {size:,} bytes arrived")
        temporary.unlink()

    def settle(self, name: str) -> FileTimes:
        with _faults(self.address):
            try:
                self._files.mv(self._key(f"{WAITING}{name}"), self._key(name))
            except FileNotFoundError:
                if not self._files.exists(self._key(name)):
                    raise
        return NO_TIMES

    def has(self, name: str) -> bool:
        if (self.scratch / name).is_file():
            return True
        with _faults(self.address):
            return bool(self._files.exists(self._key(name)))

    def fetched(self, name: str, size: int, sha256: str) -> Path:
        """Copied if missing; one that was not registered so is not kept."""
        path = self.scratch / name
        with suppress(OSError):
            if path.stat().st_size == size:
                os.utime(path)
                return path
        self._make_room(size, path)
        temporary = path.with_name(f".copy-{os.urandom(6).hex()}")
        try:
            with _faults(self.address):
                self._files.get_file(self._key(name), str(temporary))
            with temporary.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
            if found != sha256:
                raise OSError(errno.EIO, f"what {self.address} holds is not the file that was registered")
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
        return path

    def sha256(self, name: str) -> str:
        digest = hashlib.sha256()
        with _faults(self.address), self._files.open(self._key(name), "rb") as file:
            while chunk := file.read(_READ_AT_ONCE):
                digest.update(chunk)
        return digest.hexdigest()

    def remove(self, name: str) -> None:
        (self.scratch / name).unlink(missing_ok=True)
        with _faults(self.address), suppress(FileNotFoundError):
            self._files.rm_file(self._key(name))

    def unneeded(self, thinned: Collection[str], *, older_than_s: float = 0.0) -> list[str]:
        found = [(name, one) for name, one in self._listed() if name.startswith((WAITING, THINNED))]
        return sorted(name for name, one in found if name not in thinned and _age_s(one) >= older_than_s)

    def named(self) -> list[str]:
        names = (name for name, _ in self._listed())
        return sorted(name for name in names if name.startswith("shard-") and not name.startswith(THINNED))

    def note(self, name: str) -> str | None:
        with _faults(self.address):
            try:
                return str(self._files.cat_file(self._key(name)).decode(errors="replace"))
            except FileNotFoundError:
                return None

    def put_note(self, name: str, text: str) -> None:
        with _faults(self.address):
            self._files.pipe_file(self._key(name), text.encode())

    def _listed(self) -> list[tuple[str, dict[str, Any]]]:
        with _faults(self.address):
            self._files.invalidate_cache()
            try:
                found = self._files.ls(self._root, detail=True)
            except FileNotFoundError:  # nothing was ever written
                return []
        return [(PurePosixPath(one["name"]).name, one) for one in found]

    def _key(self, name: str) -> str:
        return f"{self._root}/{name}"

    def _make_room(self, size: int, wanted: Path) -> None:
        """Deletes least recent copies, and what killed processes left."""
        for path in self.scratch.glob(".*-*"):
            if (found := _status(path)) is not None and time.time() - found.st_mtime > _LEFT_S:
                path.unlink(missing_ok=True)
        copies = sorted(
            (found.st_mtime, found.st_size, path)
            for path in self.scratch.glob("shard-*.parquet")
            if path != wanted and (found := _status(path)) is not None
        )
        held = sum(bytes_ for _, bytes_, _ in copies)
        for used, bytes_, path in copies:
            if held + size <= most_copies_bytes() or time.time() - used < _IN_USE_S:
                return
            path.unlink(missing_ok=True)
            held -= bytes_


def most_copies_bytes() -> float:
    """Of a bucket, on this machine."""
    asked = os.environ.get(COPIES, "")
    try:
        gigabytes = float(asked) if asked else _COPIES_GB
    except ValueError:
        gigabytes = -1.0
    if gigabytes < 0:
        raise InputError(f"{COPIES} is {asked!r}: a number of gigabytes is expected", hint=f"such as {COPIES}=20")
    return gigabytes * 1e9


def _opened(address: str) -> tuple[AbstractFileSystem, str]:
    try:
        from fsspec.core import url_to_fs

        options: dict[str, Any] = {} if address.startswith("memory://") else {"use_listings_cache": False}
        files, root = url_to_fs(address, **options)
    except ImportError as error:
        raise StoreError(
            f"Parts at {address} need a package that reads such addresses.", hint="Run: pip install 'sweepdb[s3]'"
        ) from error
    except ValueError as error:
        raise InputError(f"{address!r} is no place for parts: {error}", hint="such as s3://bucket/sweeps") from error
    return files, str(root).rstrip("/")


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None


def _age_s(found: dict[str, Any]) -> float:
    moment = found.get("LastModified") or found.get("updated") or found.get("created")
    return time.time() - moment.timestamp() if isinstance(moment, datetime) else 0.0


@contextmanager
def _faults(address: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except Exception as error:
        said = str(error).partition("\n")[0] or type(error).__name__
        raise OSError(errno.EIO, f"{address} does not answer: {said}") from error
