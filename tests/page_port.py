"""Port 8000, which the pages name: one test at a time has it, of all processes of tests."""

from __future__ import annotations

import fcntl
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PORT = 8000
_LOCK = Path(tempfile.gettempdir()) / "sweepdb-tests-port.lock"


def listening(port: int = PORT) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def alone_at_port() -> Iterator[None]:
    """Skips where a program that is no test listens."""
    with _LOCK.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if listening():
            pytest.skip(f"something else listens at port {PORT}")
        yield
