"""Compares rows and loads with what was committed: database by digest, parts by database."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from store import sealing
from store.errors import StoreError, UnreadableRowsError
from store.location import StoreLocation
from store.reading import ReadTransaction
from store.reading.load_blocks import stored_loads
from store.schema import PROBE_COLUMNS

if TYPE_CHECKING:
    import duckdb


_LOADS_AT_ONCE = 2_000
_TABLE = "checked_loads"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBlockDigest:
    block_id: int
    scenario: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFindings:
    """Changed blocks, and parts that differ from the database."""

    blocks: int = 0
    changed: tuple[LoadBlockDigest, ...] = ()
    differing: tuple[tuple[Path, int], ...] = ()


def compare_loads(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, location: StoreLocation
) -> LoadFindings:
    """Every load once, few in memory."""
    blocks, changed = 0, []
    for block in stored_loads(transaction):
        blocks += 1
        if not block.unchanged:
            changed.append(LoadBlockDigest(block_id=block.block_id, scenario=block.scenario))
    differing = []
    for relation in sealing.LOAD_RELATIONS:
        for path, loads in sealing.parts_of_loads(transaction, location, relation):
            if rows := sum(_loads_apart(connection, transaction, relation, path, some) for some in _cut(loads)):
                differing.append((path, rows))
    return LoadFindings(blocks=blocks, changed=tuple(changed), differing=tuple(differing))


def _cut(loads: sealing.Ranges) -> Iterator[tuple[int, int]]:
    for low, high in loads:
        for start in range(low, high + 1, _LOADS_AT_ONCE):
            yield start, min(high, start + _LOADS_AT_ONCE - 1)


def _loads_apart(
    connection: duckdb.DuckDBPyConnection,
    transaction: ReadTransaction,
    relation: str,
    path: Path,
    within: tuple[int, int],
) -> int:
    sealing.create_table(connection, _TABLE, sealing.columns_of(relation))
    try:
        try:
            sealing.insert_from_store(connection, transaction, _TABLE, relation, (within,))
        except StoreError:
            connection.execute(f"DELETE FROM {_TABLE}")  # noqa: S608 - our name
        number = "id" if relation == "load" else "load_id"
        return _rows_apart(
            connection, [name for name, _ in sealing.columns_of(relation)], _TABLE, path, (number, *within)
        )
    finally:
        connection.execute(f"DROP TABLE {_TABLE}")


_SCHEMA = "checking"
_COLUMNS = [column.name for column in PROBE_COLUMNS]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFindings:
    """Changed blocks, and parts that differ."""

    snapshot: sealing.Snapshot
    changed: tuple[sealing.KeptDigest, ...] = ()
    differing: tuple[tuple[sealing.Part, int], ...] = ()  # part, and how many rows only one of the two has
    loads: LoadFindings


def compare_rows(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, location: StoreLocation
) -> RowFindings:
    """Every row once, few in memory."""
    snapshot = sealing.load_snapshot(connection, transaction, location, transaction.store_id, full_hash=lambda _: True)
    changed: list[sealing.KeptDigest] = []
    differing: list[tuple[sealing.Part, int]] = []
    for part in (*snapshot.parts, None):
        rows = 0
        for group in sealing.groups_of(
            sealing.blocks_within(transaction, part.contents.blocks if part else sealing.complement(snapshot.blocks))
        ):
            for found, apart in _compared(connection, transaction, part, group):
                changed += found
                rows += apart
        if part and rows:
            differing.append((part, rows))
    loads = compare_loads(connection, transaction, location)
    return RowFindings(snapshot=snapshot, changed=tuple(changed), differing=tuple(differing), loads=loads)


def _compared(
    connection: duckdb.DuckDBPyConnection,
    transaction: ReadTransaction,
    part: sealing.Part | None,
    group: Sequence[sealing.UnsealedBlock],
) -> Iterator[tuple[list[sealing.KeptDigest], int]]:
    """An unreadable block is found by halving."""
    ranges = sealing.ranges_of(block.id for block in group)
    connection.execute(f"CREATE SCHEMA {_SCHEMA}")
    try:
        sealing.load_unsealed(connection, transaction, ranges, schema=_SCHEMA)
        connection.execute(f"CREATE VIEW {_SCHEMA}.wide AS {sealing.unsealed_select(_SCHEMA)}")
        found = sealing.changed_blocks(connection, transaction, f"{_SCHEMA}.wide", ranges)
        within = ("block_id", ranges[0][0], ranges[-1][1]) if ranges else ("block_id", 0, 0)
        apart = _rows_apart(connection, _COLUMNS, f"{_SCHEMA}.wide", part.path, within) if part else 0
        compared = [(found, apart)]
    except UnreadableRowsError:
        compared = []
    finally:
        connection.execute(f"DROP SCHEMA {_SCHEMA} CASCADE")
    if compared or not group:
        yield from compared
    elif len(group) == 1:
        yield list(sealing.kept_digests(transaction, ranges)), group[0].probe_count if part else 0
    else:
        half = len(group) // 2
        yield from _compared(connection, transaction, part, group[:half])
        yield from _compared(connection, transaction, part, group[half:])


def _rows_apart(
    connection: duckdb.DuckDBPyConnection, names: Sequence[str], mine: str, path: Path, within: tuple[str, int, int]
) -> int:
    listed, (column, low, high) = ", ".join(names), within
    here = f"SELECT {listed} FROM {mine}"  # noqa: S608 - our names
    laid = f"SELECT {listed} FROM read_parquet({sealing.quoted(path)}) WHERE {column} BETWEEN {low:d} AND {high:d}"  # noqa: S608
    row = connection.execute(
        f"SELECT COUNT(*) FROM ((({here}) EXCEPT ALL ({laid})) UNION ALL (({laid}) EXCEPT ALL ({here})))"  # noqa: S608
    ).fetchone()
    return int(row[0]) if row else 0
