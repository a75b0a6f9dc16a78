"""How long writers wait, and whom they tell: one setting a process."""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Callable

from store.errors import InputError
from store.light_dataclass import dataclass

USUAL_LIMIT_S = 300.0
VARIABLE = "SWEEPDB_WAIT"
_ATTEMPT_S = 0.5  # of waiting inside SQLite, which looks again every 1 to 100 ms
_TOLD_AFTER_S = 2.0


@dataclass(slots=True)
class _Setting:
    limit_s: float | None = None
    tell: Callable[[float, float], None] | None = None  # seconds waited, and the limit


_SETTING = _Setting()


def wait_at_most(limit_s: float | None, tell: Callable[[float, float], None] | None = None) -> None:
    """None: the environment's, or five minutes."""
    if limit_s is not None:
        _check(limit_s, "`wait`")
    _SETTING.limit_s, _SETTING.tell = limit_s, tell


def limit_s() -> float:
    if _SETTING.limit_s is not None:
        return _SETTING.limit_s
    text = os.environ.get(VARIABLE)
    if not text:
        return USUAL_LIMIT_S
    try:
        limit = float(text)
    except ValueError:
        raise InputError(f"{VARIABLE} is {text!r}, not a number of seconds") from None
    _check(limit, VARIABLE)
    return limit


def _check(limit: float, what: str) -> None:
    if not (math.isfinite(limit) and limit >= 0):
        raise InputError(f"{what} is {limit:g}, not a number of seconds from 0 on")


def patiently(connection: sqlite3.Connection, statement: str) -> None:
    started, limit = time.monotonic(), limit_s()
    (usual_ms,) = connection.execute("PRAGMA busy_timeout").fetchone()
    connection.execute(f"PRAGMA busy_timeout = {int(1000 * min(_ATTEMPT_S, limit))}")
    try:
        while True:
            try:
                connection.execute(statement)
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - started
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or waited >= limit:
                    raise
                if _SETTING.tell is not None and waited >= _TOLD_AFTER_S:
                    _SETTING.tell(waited, limit)
            else:
                return
    finally:
        connection.execute(f"PRAGMA busy_timeout = {int(usual_ms)}")
