"""Mends what can be proven: parts from the database, numbers from parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from store.location import StoreLocation
from store.opening import Store, open_store
from store.reading import read_transaction
from store.reading.silent_duckdb import in_memory
from store.records import BlockRecord
from store.schema import MEASURES
from store.schema.sql_tables import BLOCK, PROBE
from store.sealing import KeptDigest, Snapshot, changed_blocks, fetched_arrays, quoted, seal_location
from store.upkeep.rows import LoadBlockDigest, RowFindings, compare_rows
from store.writing.arrays import MissingRows, insert_block_arrays


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairReport:
    parts_rebuilt: int
    restored: tuple[KeptDigest, ...]
    lost: tuple[KeptDigest, ...]
    lost_loads: tuple[LoadBlockDigest, ...] = ()


def repair_store(location: StoreLocation) -> RepairReport:
    found = _findings(location)
    restored: tuple[KeptDigest, ...] = ()
    if found.changed:
        with open_store(location.url) as store:
            restored = tuple(_restored(store, found.snapshot, found.changed))
        found = _findings(location)
    for part, _ in found.differing:
        part.path.unlink(missing_ok=True)
    for path, _ in found.loads.differing:
        path.unlink(missing_ok=True)
    broken = len(found.differing) + len(found.snapshot.rejected) + len(found.loads.differing)
    if not found.changed and not found.loads.changed:
        seal_location(location)
    return RepairReport(parts_rebuilt=broken, restored=restored, lost=found.changed, lost_loads=found.loads.changed)


def _findings(location: StoreLocation) -> RowFindings:

    with read_transaction(location) as transaction, in_memory() as connection:
        return compare_rows(connection, transaction, location)


def _restored(store: Store, snapshot: Snapshot, changed: Sequence[KeptDigest]) -> Iterator[KeptDigest]:
    """From parts that still hold the committed rows; yields those blocks."""

    if not snapshot.parts:
        return
    laid = f"read_parquet([{', '.join(quoted(part.path) for part in snapshot.parts)}])"
    names = ", ".join(column.name for column in MEASURES)
    with in_memory() as connection:
        for block in changed:
            with read_transaction(store.location) as transaction:
                only = ((block.block_id, block.block_id),)
                if changed_blocks(connection, transaction, laid, only):
                    continue
            rows = connection.execute(
                f"SELECT batch_size, {names} FROM {laid} WHERE block_id = {block.block_id:d} ORDER BY batch_size"  # noqa: S608
            )
            columns = fetched_arrays(rows)
            record = BlockRecord(batch_sizes=columns.pop("batch_size"), columns=columns)
            with store.writing() as transaction_, _changeable(transaction_, "probe"):
                _put_back(transaction_, block.block_id, record)
            yield block


def _put_back(connection: Connection, block_id: int, record: BlockRecord) -> None:
    found = select(BLOCK.c.scenario_id, BLOCK.c.first_batch_size, BLOCK.c.last_batch_size).where(BLOCK.c.id == block_id)
    scenario, first, last = connection.execute(found).one()
    within = PROBE.c.batch_size.between(first, last)
    connection.execute(delete(PROBE).where(PROBE.c.scenario_id == scenario, within))
    insert_block_arrays(connection, [MissingRows(scenario_id=scenario, record=record, intervals=[(first, last)])])


@contextmanager
def _changeable(connection: Connection, table: str) -> Iterator[None]:
    """Triggers that keep committed rows rest meanwhile."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"ALTER TABLE {table} DISABLE TRIGGER USER")
        yield
        connection.exec_driver_sql(f"ALTER TABLE {table} ENABLE TRIGGER USER")
        return
    query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
    triggers = connection.exec_driver_sql(query, (table,)).all()
    for name, _ in triggers:
        connection.exec_driver_sql(f"DROP TRIGGER {name}")
    yield
    for _, sql in triggers:
        connection.exec_driver_sql(sql)
