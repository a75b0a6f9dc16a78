"""Whether a store, or a file, is still as it was when it was read.

A store's state is a few digits: another one means that some answer may differ."""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import Generic, TypeVar

from store.location import Moment, StoreLocation
from store.reading.transactions import read_transaction

# Newest rows of what questions read. Prices and comparisons are few and may be replaced: all of them count.
_MEASURED = (
    "SELECT coalesce(max(id), 0) || ' ' || count(*) FROM measurement",
    "SELECT count(*) || ' ' || coalesce(CAST(max(created_at) AS VARCHAR), '') FROM validation",
    "SELECT coalesce(max(id), 0) || ' ' || count(*) FROM calibration",
)
_STATEMENTS = (
    "SELECT coalesce(max(id), 0) || ' ' || count(*) FROM scenario",
    "SELECT coalesce(max(id), 0) FROM block",
    "SELECT coalesce(max(id), 0) FROM load_block",
    "SELECT coalesce(max(id), 0) || ' ' || count(lifted_at) FROM tombstone",
    *_MEASURED,
    "SELECT count(*) || ' ' || coalesce(sum(usd_per_device_hour), 0) || coalesce(sum(watts_per_device), 0) FROM price",
)
_DIGITS = 16
Version = tuple[str, int, int, int, int]  # path, inode, size, when its content and anything of it changed
_T = TypeVar("_T")


def read_state(location: StoreLocation) -> str:
    """Digits that are the same as long as nothing was added, voided, measured or priced."""
    with read_transaction(location) as transaction:
        parts = [transaction.store_id]
        parts += [str(value) for statement in _STATEMENTS for (value,) in transaction.cells(statement)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


def read_moment(location: StoreLocation) -> Moment:
    with read_transaction(location) as transaction:
        newest = {
            name: next(transaction.values(int, f"SELECT coalesce(max(id), 0) FROM {name}"))  # noqa: S608  our names
            for name in Moment.__slots__
        }
    return Moment(**newest)


def read_measured(location: StoreLocation) -> str:
    """Digits that are the same as long as nothing was measured, compared or fitted in the store."""
    with read_transaction(location) as transaction:
        parts = [str(value) for statement in _MEASURED for (value,) in transaction.cells(statement)]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:_DIGITS]


def version_of(path: Path, status: os.stat_result) -> Version:
    return str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class Recalled(Generic[_T]):
    """Values by the version of a file; the one that was looked at longest ago goes first."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Version, _T] = OrderedDict()
        self._lock = Lock()  # sessions of a server share a process

    def get(self, version: Version) -> _T | None:
        with self._lock:
            value = self._values.get(version)
            if value is not None:
                self._values.move_to_end(version)
            return value

    def keep(self, version: Version, value: _T) -> None:
        with self._lock:
            self._values[version] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
