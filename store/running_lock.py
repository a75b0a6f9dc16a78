"""Tells running sweeps from abandoned ones by locks that end with the writer.

SQLite: a small file beside the store; PostgreSQL: a session's advisory lock. Clocks and process numbers are not
trusted: containers, other hosts and reuse deceive."""

from __future__ import annotations

import fcntl
import zlib
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from store.errors import StoreError
from store.light_dataclass import NamedTuple, dataclass
from store.location import StoreLocation
from store.reading import ReadTransaction, read_transaction

if TYPE_CHECKING:
    from sqlalchemy import Connection, Engine


_RUNNING = "SELECT id, key FROM sweep WHERE status = 'running'"
_STATUS = "SELECT status FROM sweep WHERE id = ?"
_POSITIVE = 0x7FFFFFFF  # advisory locks are named by two signed 32-bit numbers
_HELD = """
SELECT COUNT(*) FROM pg_locks
WHERE locktype = 'advisory' AND granted AND classid::bigint = ? AND objid::bigint = ?
  AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""


@dataclass(slots=True, kw_only=True)
class RunningLock:
    """Of sweeps that this process writes into a store."""

    location: StoreLocation
    store_id: str
    _files: dict[int, BinaryIO] = field(default_factory=dict)
    _session: Connection | None = None

    def hold(self, engine: Engine, sweep_id: int, key: str) -> None:
        """Before its row can be seen, so that no reader takes it for abandoned."""
        if self.location.path is not None:
            self._files[sweep_id] = _locked_file(_lock_path(self.location.path, key), self.location)
            return
        if self._session is None:
            self._session = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._on_server("pg_advisory_lock", sweep_id)

    def release(self, sweep_id: int) -> None:
        file = self._files.pop(sweep_id, None)
        if file is not None:
            Path(file.name).unlink(missing_ok=True)
            file.close()
        if self._session is not None:
            from sqlalchemy.exc import DBAPIError

            try:
                self._on_server("pg_advisory_unlock", sweep_id)
            except DBAPIError:  # the server ended the session, and with it the lock
                self._session.invalidate()
                self._session = None

    def close(self) -> None:
        """Unfinished sweeps show as interrupted from now on."""
        for sweep_id in list(self._files):
            self.release(sweep_id)
        if self._session is not None:
            self._session.invalidate()  # ends the session, and with it its locks
            self._session.close()
            self._session = None

    def _on_server(self, function: str, sweep_id: int) -> None:
        if self._session is not None:
            store, sweep = _server_name(self.store_id, sweep_id)
            self._session.exec_driver_sql(f"SELECT {function}({store}, {sweep})")


def is_abandoned(location: StoreLocation, sweep_id: int, key: str) -> bool:
    """Recorded as running, without a writer; where nobody can tell, it runs.

    The lock is read first: a writer records the end before it lets go."""
    if location.path is not None and not _is_free(_lock_path(location.path, key)):
        return False
    if location.path is None:
        with read_transaction(location) as transaction:
            held = transaction.values(int, _HELD, _server_name(transaction.store_id, sweep_id))
            if next(held):
                return False
    with read_transaction(location) as transaction:
        return "running" in transaction.values(str, _STATUS, (sweep_id,))


class RunningSweep(NamedTuple):
    id: int
    key: str


def abandoned_sweeps(location: StoreLocation, transaction: ReadTransaction) -> list[RunningSweep]:
    running = list(transaction.rows(RunningSweep, _RUNNING))
    return [sweep for sweep in running if is_abandoned(location, sweep.id, sweep.key)]


def status_now(location: StoreLocation, sweep_id: int, key: str, status: str) -> str:
    return "interrupted" if status == "running" and is_abandoned(location, sweep_id, key) else status


def forget(location: StoreLocation, key: str) -> None:
    if location.path is not None and _is_free(_lock_path(location.path, key)):
        _lock_path(location.path, key).unlink(missing_ok=True)


def _lock_path(store: Path, key: str) -> Path:
    return store.with_name(f"{store.name}.running-{key}")


def _locked_file(path: Path, location: StoreLocation) -> BinaryIO:
    try:
        file = path.open("ab")
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        raise StoreError(
            f"The store {location.display} cannot be written: {path.name} beside it: {error.strerror}.",
            hint="Check free space, and that you may write the directory.",
        ) from error
    return file


def _is_free(path: Path) -> bool:
    """An unreadable file counts as held."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except OSError:  # held, or on a file system without locks
        return False
    return True


def _server_name(store_id: str, sweep_id: int) -> tuple[int, int]:
    return zlib.crc32(store_id.encode()) & _POSITIVE, sweep_id & _POSITIVE
