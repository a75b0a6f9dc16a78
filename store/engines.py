"""The engines of a store: which driver, with which settings, and how transactions begin.

Not here: opening a store (store.opening), and drivers without SQLAlchemy (store.reading)."""

from __future__ import annotations

import sqlite3
from typing import Any

from sqlalchemy import URL, Connection, Engine, NullPool, create_engine, event, make_url

from store.location import StoreLocation
from store.reading.connecting import BUSY_TIMEOUT_S, connect_sqlite
from store.waiting import limit_s, patiently


def make_engine(location: StoreLocation, *, foreign_keys: bool = True) -> Engine:
    """Build the engine of a store; nothing is connected yet."""
    if location.kind == "postgresql":
        waiting = {"options": f"-c lock_timeout={int(1000 * limit_s())}"}
        return create_engine(make_url(location.url), connect_args=waiting)
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
        if connection.get_execution_options().get("sweepdb_reading", False):
            connection.exec_driver_sql("BEGIN")
        elif isinstance(driver := connection.connection.driver_connection, sqlite3.Connection):
            patiently(driver, "BEGIN IMMEDIATE")

    return engine
