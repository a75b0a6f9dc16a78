"""Gives back unused space and refreshes the planner's statistics; changes no row.

Not here: checking (store.upkeep)."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from store.faults import store_faults
from store.location import StoreLocation
from store.reading.connecting import BUSY_TIMEOUT_S, read_store_id
from store.waiting import patiently


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """Bytes of the store before and after."""

    bytes_before: int
    bytes_after: int


def vacuum_store(location: StoreLocation) -> VacuumReport:
    """Compact a store."""
    read_store_id(location)  # raises unless this is a store at the right revision
    if location.path is None:
        return _vacuum_postgresql(location)
    before = file_bytes(location.path)
    with (
        store_faults(location),
        closing(sqlite3.connect(location.path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection,
    ):
        patiently(connection, "VACUUM")
        connection.execute("ANALYZE")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return VacuumReport(bytes_before=before, bytes_after=file_bytes(location.path))


def file_bytes(path: Path) -> int:
    """Return the bytes of a file store, its log included."""
    return sum(part.stat().st_size for part in (path, path.with_name(f"{path.name}-wal")) if part.exists())


def _vacuum_postgresql(location: StoreLocation) -> VacuumReport:
    import psycopg

    size = "SELECT pg_database_size(current_database())"
    with store_faults(location), psycopg.connect(location.driver_url, autocommit=True) as connection:
        before = connection.execute(size).fetchone()
        connection.execute("VACUUM (ANALYZE)")
        after = connection.execute(size).fetchone()
    return VacuumReport(bytes_before=before[0] if before else 0, bytes_after=after[0] if after else 0)
