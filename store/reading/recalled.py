"""Keeps what was read of a file while it is the same file: by name, inode, size and times."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

Version = tuple[str, int, int, int, int]  # path, inode, size, when its content and anything of it changed
_T = TypeVar("_T")


class Recalled(Generic[_T]):
    """Values by the version of a file; the one that was looked at longest ago goes first."""

    def __init__(self, *, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Version, _T] = OrderedDict()
        self._lock = Lock()  # sessions of a server share a process

    def get(self, version: Version) -> _T | None:
        """Return the value kept of this version of a file, if there is one."""
        with self._lock:
            value = self._values.get(version)
            if value is not None:
                self._values.move_to_end(version)
            return value

    def keep(self, version: Version, value: _T) -> None:
        """Keep what was read of a version of a file."""
        with self._lock:
            self._values[version] = value
            while len(self._values) > self._most:
                self._values.popitem(last=False)
