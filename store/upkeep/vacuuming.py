"""Gives back unused space and refreshes the planner's statistics; of rows only kept requests of voided loads go."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from store.faults import store_faults
from store.location import StoreLocation
from store.reading.connecting import BUSY_TIMEOUT_S, read_store_id
from store.schema import VOIDED_SWEEPS
from store.sealing import seal_location
from store.waiting import patiently

_VOIDED = f"""
    DELETE FROM load_request WHERE load_id IN (
        SELECT id FROM load WHERE scenario_id IN (
            SELECT scenario_id FROM tombstone WHERE lifted_at IS NULL AND scenario_id IS NOT NULL
            UNION SELECT scenario_id FROM sweep_interval GROUP BY scenario_id
            HAVING SUM(CASE WHEN sweep_id IN ({VOIDED_SWEEPS}) THEN 0 ELSE 1 END) = 0
        )
    )"""  # noqa: S608 - our text


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """Bytes of the store before and after, and of how many voided loads every request was removed."""

    bytes_before: int
    bytes_after: int
    requests_removed: int = 0


def vacuum_store(location: StoreLocation) -> VacuumReport:
    """Compact a store. Requests that loads of voided sweeps keep are removed; their distributions stay."""
    read_store_id(location)  # raises unless this is a store at the right revision
    report = _vacuum_postgresql(location) if location.path is None else _vacuum_sqlite(location, location.path)
    if report.requests_removed:
        seal_location(location)  # so that no part holds them any more
    return report


def _vacuum_sqlite(location: StoreLocation, path: Path) -> VacuumReport:
    before = file_bytes(path)
    with (
        store_faults(location),
        closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT_S, isolation_level=None)) as connection,
    ):
        patiently(connection, _VOIDED)
        (removed,) = connection.execute("SELECT changes()").fetchone()
        patiently(connection, "VACUUM")
        connection.execute("ANALYZE")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return VacuumReport(bytes_before=before, bytes_after=file_bytes(path), requests_removed=removed)


def file_bytes(path: Path) -> int:
    """Return the bytes of a file store, its log included."""
    return sum(part.stat().st_size for part in (path, path.with_name(f"{path.name}-wal")) if part.exists())


def _vacuum_postgresql(location: StoreLocation) -> VacuumReport:
    import psycopg

    size = "SELECT pg_database_size(current_database())"
    with store_faults(location), psycopg.connect(location.driver_url, autocommit=True) as connection:
        before = connection.execute(size).fetchone()
        removed = connection.execute(_VOIDED).rowcount
        connection.execute("VACUUM (ANALYZE)")
        after = connection.execute(size).fetchone()
    return VacuumReport(
        bytes_before=before[0] if before else 0, bytes_after=after[0] if after else 0, requests_removed=removed
    )
