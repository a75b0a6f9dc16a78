"""Opens a store for writing: the engine with its settings, the transactions, and the checks before anything is done.

Not here: creating and migrating (store.migrating), and reading without SQLAlchemy (store.reading)."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url

from store.errors import StoreError
from store.faults import store_faults
from store.interrupts import interrupts_held
from store.location import StoreLocation, parse_url
from store.presence import Presence
from store.reading import BUSY_TIMEOUT_S, connect_sqlite, read_store_id
from store.revision import check_revision


@dataclass(slots=True, kw_only=True)
class Store:
    """An opened store. `ids` remembers integer ids by content key, so that dimensions are looked up once."""

    location: StoreLocation
    engine: Engine
    store_id: str
    presence: Presence
    read_only: bool = False
    ids: dict[str, dict[object, int]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """The address of the store."""
        return self.location.url

    @property
    def kind(self) -> str:
        """`sqlite` or `postgresql`."""
        return self.location.kind

    def close(self) -> None:
        """Release every connection."""
        with store_faults(self.location):
            self.presence.close()
            self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Read inside one consistent transaction."""
        reader = self.engine.execution_options(sweepdb_reading=True)
        with store_faults(self.location), reader.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Write inside one transaction; what it did is durable when the block has ended, and undone if it raised.

        ^C waits for the end of the block."""
        if self.read_only:
            raise StoreError(f"The store {self.location.display} was opened for reading only.")
        with interrupts_held(), store_faults(self.location), self.engine.connect() as connection, connection.begin():
            # Somebody may have upgraded the store since it was opened.
            found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar_one()
            check_revision(self.location, found)
            yield connection


def open_store(url: str | None, *, create: bool = False, read_only: bool = False) -> Store:
    """Open a store after checking that it is one, at this program's revision; `create` makes a missing one first."""
    location = parse_url(url)
    if create and not read_only:
        from store.migrating import create_if_missing

        create_if_missing(location)
    store_id = read_store_id(location)
    engine = make_reading_engine(location) if read_only else make_engine(location)
    presence = Presence(location=location, store_id=store_id)
    return Store(location=location, engine=engine, store_id=store_id, presence=presence, read_only=read_only)


def make_engine(location: StoreLocation, *, foreign_keys: bool = True) -> Engine:
    """Build the engine of a store; nothing is connected yet."""
    if location.kind == "postgresql":
        return create_engine(make_url(location.url))
    return sqlite_engine(str(location.path), foreign_keys=foreign_keys)


def make_reading_engine(location: StoreLocation) -> Engine:
    """Build an engine that cannot write, which a SQLite store in a read-only directory needs."""
    if location.kind == "postgresql":
        return create_engine(make_url(location.url), execution_options={"postgresql_readonly": True})
    return create_engine("sqlite://", creator=lambda: connect_sqlite(location), poolclass=NullPool)


def sqlite_engine(path: str, *, foreign_keys: bool = True) -> Engine:
    """Build an engine on a SQLite file: WAL, foreign keys, a busy timeout, and BEGIN IMMEDIATE for writers."""
    engine = create_engine(
        URL.create("sqlite", database=path),
        connect_args={"timeout": BUSY_TIMEOUT_S, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def set_up(connection: sqlite3.Connection, _: Any) -> None:  # noqa: ANN401 - SQLAlchemy's own record
        connection.isolation_level = None  # the driver must not begin transactions of its own
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")
        # A commit survives the death of the process. A power cut may take the last commits, never the store; a
        # finished sweep is checkpointed, which makes it durable against that too.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")  # pages: copying back every 16 MB instead of every 4

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        # Reading first and upgrading the lock later fails at once when another writer was faster, whatever the
        # timeout; taking the write lock at the start waits its turn.
        reading = connection.get_execution_options().get("sweepdb_reading", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine
