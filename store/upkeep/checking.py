"""Checks that a store is whole: the file, its references, its blocks, its schema and its snapshots.

Finds faults and says what they mean."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from store.errors import NotAStoreError, StoreError
from store.faults import store_faults
from store.location import StoreLocation
from store.placing import NotOwned, files_beside, part_faults, parts_not_owned, thinned_faults
from store.reading import ReadTransaction, read_transaction
from store.reading.connecting import connect_sqlite, read_store_id
from store.reading.silent_duckdb import in_memory
from store.revision import HEAD_REVISION
from store.schema import TABLES

_MOST_FAULTS = 20

# Whether the probes of block `b` lie in a part that stands in place of rows.
_IN_PART = """EXISTS (SELECT 1 FROM part_block q WHERE q.last_block >= b.id AND q.first_block = (
                 SELECT MAX(x.first_block) FROM part_block x WHERE x.first_block <= b.id))"""

# Every statement counts what must not be there. `?` is not used: the same text runs on both databases.
_RULES: tuple[tuple[str, str], ...] = (
    (
        "blocks whose number of probes is not what was committed",
        """SELECT COUNT(*) FROM (
             SELECT b.id FROM block b
             LEFT JOIN probe p ON p.scenario_id = b.scenario_id
                  AND p.batch_size BETWEEN b.first_batch_size AND b.last_batch_size
             GROUP BY b.id, b.probe_count, b.first_batch_size, b.last_batch_size
             HAVING COUNT(p.batch_size) <> CASE WHEN {in_part} THEN 0 ELSE b.probe_count END
                 OR b.probe_count <> b.last_batch_size - b.first_batch_size + 1) AS wrong""",
    ),
    (
        "probes that belong to no block",
        """SELECT COUNT(*) FROM probe p WHERE NOT EXISTS (
             SELECT 1 FROM block b WHERE b.scenario_id = p.scenario_id
                AND p.batch_size BETWEEN b.first_batch_size AND b.last_batch_size)""",
    ),
    (
        "blocks that overlap another of the same scenario",
        """SELECT COUNT(*) FROM (
             SELECT first_batch_size, LAG(last_batch_size) OVER (
               PARTITION BY scenario_id ORDER BY first_batch_size) AS previous FROM block) AS pairs
           WHERE previous >= first_batch_size""",
    ),
    (
        "failed scenarios that have probes",
        """SELECT COUNT(*) FROM scenario s WHERE s.status <> 'ok'
             AND EXISTS (SELECT 1 FROM block b WHERE b.scenario_id = s.id)""",
    ),
    (
        "probes whose batch composition does not add up to their batch size",
        """SELECT COUNT(*) FROM (
             SELECT scenario_id, batch_size FROM composition
             GROUP BY scenario_id, batch_size HAVING SUM(samples) <> batch_size) AS wrong""",
    ),
    (
        "compositions without a probe",
        """SELECT COUNT(*) FROM composition c WHERE NOT EXISTS (
             SELECT 1 FROM probe p WHERE p.scenario_id = c.scenario_id AND p.batch_size = c.batch_size)
           AND NOT EXISTS (SELECT 1 FROM block b WHERE b.scenario_id = c.scenario_id
             AND c.batch_size BETWEEN b.first_batch_size AND b.last_batch_size AND {in_part})""",
    ),
    (
        "blocks that no sweep asked for",
        """SELECT COUNT(*) FROM block b WHERE NOT EXISTS (
             SELECT 1 FROM sweep_interval i WHERE i.scenario_id = b.scenario_id
                AND i.first_batch_size <= b.first_batch_size AND i.last_batch_size >= b.last_batch_size)""",
    ),
    (
        "loads that belong to no block, or to several",
        """SELECT COUNT(*) FROM load l WHERE (
             SELECT COUNT(*) FROM load_block b WHERE b.settings_key = l.settings_key
                AND b.scenario_id = l.scenario_id AND b.sweep_id = l.sweep_id
                AND l.id BETWEEN b.first_load AND b.last_load) <> 1""",
    ),
    (
        "distributions without a load",
        """SELECT (SELECT COUNT(*) FROM load_cell c WHERE NOT EXISTS (SELECT 1 FROM load l WHERE l.id = c.load_id))
             + (SELECT COUNT(*) FROM load_token t WHERE NOT EXISTS (SELECT 1 FROM load l WHERE l.id = t.load_id))
             + (SELECT COUNT(*) FROM load_request q WHERE NOT EXISTS (SELECT 1 FROM load l WHERE l.id = q.load_id))""",
    ),
    (
        "sweeps whose identity row is missing or doubled",
        "SELECT CASE WHEN COUNT(*) = 1 THEN 0 ELSE 1 END FROM store_identity",
    ),
)
_IN_PARTS = "SELECT COALESCE(SUM(row_count), 0) FROM part WHERE retired_at IS NULL"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """The findings of a check: what the store holds, and what is wrong with it. Without faults the store is whole."""

    store: str
    revision: str
    sweeps: int
    scenarios: int
    blocks: int
    probes: int
    snapshot_probes: int
    faults: tuple[str, ...]
    orphans: tuple[str, ...] = ()  # files of workers that were stopped, by name: no fault, and nothing reads them
    unknown: tuple[str, ...] = ()  # files that another state of this database may name: no fault, and they stay
    elsewhere: tuple[NotOwned, ...] = ()  # folders of parts that do not belong to this database: it only reads there

    @property
    def whole(self) -> bool:
        return not self.faults


def check_store(location: StoreLocation) -> CheckReport:
    """Check a whole store, its snapshots included, and report every fault found.

    Raises StoreError only where the store cannot even be opened."""
    read_store_id(location)
    counts = dict.fromkeys(("sweep", "scenario", "block", "probe", "snapshot"), 0)
    faults: list[str] = []
    for section in (_file_faults, _rule_faults, _trigger_faults, _drift_faults):
        _collect(faults, section(location))
    _collect(faults, _count_rows(location, counts))
    _collect(faults, _row_faults(location, counts))
    with read_transaction(location) as transaction:
        beside, elsewhere = files_beside(transaction), tuple(parts_not_owned(transaction))
    return CheckReport(
        store=location.display,
        revision=HEAD_REVISION,  # another one would not have been opened
        sweeps=counts["sweep"],
        scenarios=counts["scenario"],
        blocks=counts["block"],
        probes=counts["probe"],
        snapshot_probes=counts["snapshot"],
        faults=tuple(dict.fromkeys(faults)),
        orphans=beside.unneeded,
        unknown=beside.unknown,
        elsewhere=elsewhere,
    )


def _collect(faults: list[str], found: Iterator[str]) -> None:
    """Take what a section finds; damage that stops it is a fault like any other."""
    try:
        faults.extend(found)
    except NotAStoreError as error:
        faults.append(error.message)


def _file_faults(location: StoreLocation) -> Iterator[str]:
    if location.kind != "sqlite":
        return
    with store_faults(location), closing(connect_sqlite(location)) as connection:
        for (message,) in connection.execute(f"PRAGMA integrity_check({_MOST_FAULTS})"):
            if message != "ok":
                yield f"The file is damaged: {message}"
        for table, _, referred, _ in connection.execute("PRAGMA foreign_key_check").fetchmany(_MOST_FAULTS):
            yield f"A row of {table} refers to a row of {referred} that is not there."


def _rule_faults(location: StoreLocation) -> Iterator[str]:
    with read_transaction(location) as transaction:
        for meaning, statement in _RULES:
            if count := _count(transaction, statement.replace("{in_part}", _IN_PART)):
                yield f"There are {count:,} {meaning}."


def _count_rows(location: StoreLocation, counts: dict[str, int]) -> Iterator[str]:
    """Fill in how many rows there are; finds faults only by meeting damage."""
    with read_transaction(location) as transaction:
        for table in ("sweep", "scenario", "block", "probe"):
            counts[table] = _count(transaction, f"SELECT COUNT(*) FROM {table}")  # noqa: S608 - our own names
        counts["probe"] += _count(transaction, _IN_PARTS)
    yield from ()


def _trigger_faults(location: StoreLocation) -> Iterator[str]:
    statement = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal",
    }[location.kind]
    with read_transaction(location) as transaction:
        present = set(transaction.values(str, statement))
    for name in sorted({name for table in TABLES.values() for name in table.refusals} - present):
        yield f"The trigger {name}, which keeps what is committed as it is, is gone."


def _count(transaction: ReadTransaction, statement: str) -> int:
    return next(transaction.values(int, statement))


def _drift_faults(location: StoreLocation) -> Iterator[str]:
    from store.migrating import make_reading_engine, schema_drift

    with store_faults(location):
        engine = make_reading_engine(location)
        try:
            with engine.connect() as connection:
                for difference in schema_drift(connection):
                    yield f"The schema differs from this program's: {difference}"
        finally:
            engine.dispose()


def _row_faults(location: StoreLocation, counts: dict[str, int]) -> Iterator[str]:
    from store.reading.silent_duckdb import duckdb
    from store.upkeep.rows import compare_rows

    with read_transaction(location) as transaction, in_memory() as connection:
        yield from part_faults(location, transaction)
        yield from thinned_faults(location, transaction)
        try:
            found = compare_rows(connection, transaction, location)
        except (StoreError, duckdb.Error) as error:  # a part cannot be read, which is named above
            yield f"No row could be compared with its digest: {str(error).partition(chr(10))[0]}"
            return
    counts["snapshot"] = found.snapshot.rows
    for part in found.snapshot.rejected:
        yield (
            f"The snapshot {part.path.name} is not used, and rebuilt by `sweepdb db seal{location.argument}`:"
            f" {part.reason}."
        )
    for laid, rows in found.differing:
        yield f"The snapshot {laid.path.name} says something else than the database in {rows:,} rows of both."
    for block in found.changed[:_MOST_FAULTS]:
        yield (
            f"The numbers of block {block.block_id}, of scenario {block.scenario_key[:12]}, are not those that were"
            " committed."
        )
    if more := len(found.changed[_MOST_FAULTS:]):
        yield f"The numbers of {more:,} more blocks are not those that were committed."
    for name, apart in found.loads.differing:
        yield f"The snapshot {name.name} says something else than the database in {apart:,} rows of both."
    for changed in found.loads.changed[:_MOST_FAULTS]:
        yield (
            f"The loads of block {changed.block_id}, of scenario {changed.scenario[:12]}, are not those that were"
            " committed."
        )
    if more := len(found.loads.changed[_MOST_FAULTS:]):
        yield f"The loads of {more:,} more blocks are not those that were committed."
