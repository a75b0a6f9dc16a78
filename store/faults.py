"""Drivers' errors as store errors that say what, where, and what to do next."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from store.errors import NotAStoreError, StoreBusyError, StoreError
from store.location import StoreLocation


@contextmanager
def store_faults(location: StoreLocation) -> Iterator[None]:
    """Bare, or wrapped by SQLAlchemy."""
    try:
        yield
    except StoreError:
        raise
    except Exception as error:
        translated = translate(error, location)
        if translated is None:
            raise
        raise translated from error


def translate(error: Exception, location: StoreLocation) -> StoreError | None:
    """None where neither the store nor its surroundings are at fault."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, sqlite3.Error):
        return _from_sqlite(cause, location)
    if type(cause).__module__.partition(".")[0] == "psycopg":
        return _from_postgresql(cause, location)
    return None


_READ_ONLY = (
    StoreError,
    "The store {where} cannot be written: the file or its directory is read-only.",
    "Make both writable, or copy the file to a directory you may write and name it with `store`.",
)
_LOCKED = (
    StoreBusyError,
    "Another process kept the store {where} locked for too long.",
    "Nothing stored is lost: run the same command again when it has finished, or wait longer with `wait=SECONDS`.",
)
_SQLITE_FAULTS: dict[int, tuple[type[StoreError], str, str]] = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_FULL: (
        StoreError,
        "The disk that holds the store {where} is full; what was acknowledged before is kept.",
        "Free some space, then run the same command again: it continues where it stopped.",
    ),
    sqlite3.SQLITE_IOERR: (
        StoreError,
        "The store {where} could not be read or written ({error}): the disk may be full or failing.",
        "Check free space and quotas, then run the same command again: what was acknowledged is kept.",
    ),
    sqlite3.SQLITE_CORRUPT: (
        NotAStoreError,
        "The store {where} is damaged ({error}).",
        "Run: sweepdb db check{argument}   and restore a copy; backups made by upgrades lie beside the file.",
    ),
    sqlite3.SQLITE_NOTADB: (
        NotAStoreError,
        "{where} is not a sweepdb store: it is no SQLite database, or it is damaged.",
        "Name another file with `store`.",
    ),
    sqlite3.SQLITE_CANTOPEN: (
        StoreError,
        "The store {where} cannot be opened ({error}).",
        "Check that the directory exists and that you may read and write it.",
    ),
}


# The program's own statements over a store of its revision: a table or column of another name is one that flipped.
_ALTERED_NAMES = ("Could not decode to UTF-8", "no such column", "no such table", "no such index", "no such trigger")


def _from_sqlite(error: sqlite3.Error, location: StoreLocation) -> StoreError | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code in {None, sqlite3.SQLITE_ERROR} and str(error).startswith(_ALTERED_NAMES):
        code = sqlite3.SQLITE_CORRUPT
    fault = None if code is None else _SQLITE_FAULTS.get(code & 0xFF)  # extended codes keep the primary one there
    if fault is None:
        return None
    kind, message, hint = fault
    values = {"where": location.display, "error": error, "argument": location.argument}
    return kind(message.format(**values), hint=hint.format(**values))


def _from_postgresql(error: BaseException, location: StoreLocation) -> StoreError | None:
    state = getattr(error, "sqlstate", None) or ""
    where = location.display
    first_line = str(error).strip().partition("\n")[0]
    if state.startswith("53"):
        return StoreError(
            f"The server of {where} has run out of a resource: {first_line}.",
            hint="Free space or connections on the server, then run the same command again.",
        )
    if state in {"55P03", "40P01", "40001", "57014"}:
        return StoreBusyError(
            f"The store {where} was locked by another process: {first_line}.", hint="Run the same command again."
        )
    if state == "2BP01":
        return StoreError(
            f"Something of yours in {where} reads what is to change: {first_line}.",
            hint="Drop it, run the same command again, and create it anew. Nothing was changed.",
        )
    if state in {"25006", "42501"}:
        return StoreError(
            f"The store {where} may not be written: {first_line}.", hint="Ask for the rights, or use another account."
        )
    if type(error).__name__ in {"OperationalError", "InterfaceError"} or state.startswith(("08", "28", "3D", "57")):
        return StoreError(
            f"No connection to the store {where}: {first_line}.",
            hint="Check that the server runs and that host, port, user, password and database are right.",
        )
    return None
