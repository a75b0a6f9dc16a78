"""Opens a store for reading, with every opening's checks."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from store.errors import NotAStoreError, StoreError
from store.faults import store_faults
from store.location import StoreLocation
from store.revision import VERSION_TABLE, check_revision

if TYPE_CHECKING:
    import psycopg

BUSY_TIMEOUT_S = 30.0
IDENTITY = "SELECT store_id FROM store_identity"
_SQLITE_MAGIC = b"SQLite format 3\0"
_KNOWN_MAGIC = ((b"PAR1", "a Parquet file"), (b"PK", "a zip archive"), (b"\x1f\x8b", "a gzip file"))


def connect_sqlite(location: StoreLocation) -> sqlite3.Connection:
    path = require_store_file(location)
    with store_faults(location):
        connection = _open_read_only(location, path)
        try:
            check_sqlite(location, connection)
        except BaseException:
            connection.close()
            raise
    return connection


def check_sqlite(location: StoreLocation, connection: sqlite3.Connection) -> None:
    check_revision(location, _sqlite_revision(location, connection))


def connect_postgresql(location: StoreLocation) -> psycopg.Connection[tuple[object, ...]]:
    with store_faults(location):
        connection = _connect_psycopg(location)
        try:
            connection.read_only = True
            check_revision(location, _postgresql_revision(location, connection))
        except BaseException:
            connection.close()
            raise
    return connection


def read_store_id(location: StoreLocation) -> str:
    if location.kind == "sqlite":
        with closing(connect_sqlite(location)) as connection:
            return identity_of(location, connection.execute(IDENTITY).fetchall())
    with closing(connect_postgresql(location)) as server:
        return identity_of(location, server.execute(IDENTITY).fetchall())


def identity_of(location: StoreLocation, rows: Sequence[Sequence[object]]) -> str:
    if len(rows) != 1:
        raise NotAStoreError(
            f"{location.display} is damaged: it has {len(rows)} identities instead of one.",
            hint="Restore a copy; backups made by upgrades lie beside a store's file.",
        )
    return str(rows[0][0])


def read_revision(location: StoreLocation) -> str:
    if location.kind == "sqlite":
        path = require_store_file(location)
        with store_faults(location), closing(_open_read_only(location, path)) as connection:
            return _sqlite_revision(location, connection)
    with store_faults(location), closing(_connect_psycopg(location)) as server:
        return _postgresql_revision(location, server)


def _connect_psycopg(location: StoreLocation) -> psycopg.Connection[tuple[object, ...]]:
    try:
        import psycopg
    except ImportError as error:
        raise StoreError(
            "A PostgreSQL store needs the psycopg driver.", hint="Run: pip install 'sweepdb[postgres]'"
        ) from error
    return psycopg.connect(location.driver_url)


def require_store_file(location: StoreLocation) -> Path:
    """Exists, is readable and not empty.

    Not opened: closing it would end this process's locks, and another could take away a log still written
    (sqlite.org/howtocorrupt.html, section 2.2)."""
    path = location.path
    if path is None:
        raise StoreError(f"{location.display} is not a file.")
    try:
        size = path.stat().st_size
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not os.access(path, os.R_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except FileNotFoundError:
        raise StoreError(
            f"There is no store at {location.display}.",
            hint=f"Evaluate something, or create an empty store: sweepdb db init{location.argument}",
        ) from None
    except OSError as error:
        raise StoreError(
            f"The store {location.display} cannot be read: {error.strerror}.",
            hint="Check the path and its permissions.",
        ) from error
    if not size:
        raise _not_sqlite(location, b"")
    return path


def _not_sqlite(location: StoreLocation, magic: bytes) -> NotAStoreError:
    if not magic:
        return NotAStoreError(
            f"{location.display} is an empty file, not a sweepdb store.",
            hint=f"Create the store in it: sweepdb db init{location.argument}",
        )
    kind = next((name for start, name in _KNOWN_MAGIC if magic.startswith(start)), "no SQLite database")
    return NotAStoreError(
        f"{location.display} is not a sweepdb store: it is {kind}, or it is damaged from its first byte on.",
        hint="Name another file with `store`.",
    )


def _open_read_only(location: StoreLocation, path: Path) -> sqlite3.Connection:
    uri = f"file:{quote(str(path))}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError as error:
        connection.close()
        if error.sqlite_errorcode == sqlite3.SQLITE_NOTADB:  # so nobody holds a lock of SQLite on it
            with path.open("rb") as file:
                raise _not_sqlite(location, file.read(len(_SQLITE_MAGIC))) from error
        if not isinstance(error, sqlite3.OperationalError):
            raise
        # Reading in WAL mode needs a -shm file beside the store. Where that cannot be made and no write-ahead log
        # waits to be read with it, nobody is writing, so the file may be read as it lies.
        effective = os.access in os.supports_effective_ids
        if os.access(path.parent, os.W_OK, effective_ids=effective) or _has_log(path):
            raise
        connection = sqlite3.connect(f"{uri}&immutable=1", uri=True, isolation_level=None, check_same_thread=False)
    return connection


def _has_log(path: Path) -> bool:
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _sqlite_revision(location: StoreLocation, connection: sqlite3.Connection) -> str:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    _require_own_tables(location, {str(row[0]) for row in rows})
    return _single_revision(location, connection.execute("SELECT version_num FROM alembic_version").fetchall())


def _postgresql_revision(location: StoreLocation, connection: psycopg.Connection[tuple[object, ...]]) -> str:
    rows = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()").fetchall()
    _require_own_tables(location, {str(row[0]) for row in rows})
    return _single_revision(location, connection.execute("SELECT version_num FROM alembic_version").fetchall())


def _require_own_tables(location: StoreLocation, tables: set[str]) -> None:
    if {VERSION_TABLE, "store_identity"} <= tables:
        return
    what = "holds no tables" if not tables else f"holds other tables ({', '.join(sorted(tables)[:5])})"
    raise NotAStoreError(
        f"{location.display} is a database, but not a sweepdb store: it {what}.",
        hint="Name another store with `store`, or create one: sweepdb db init `store=URL`",
    )


def _single_revision(location: StoreLocation, rows: Sequence[Sequence[object]]) -> str:
    if len(rows) != 1:
        raise NotAStoreError(f"{location.display} is damaged: it names {len(rows)} schema revisions instead of one.")
    return str(rows[0][0])
