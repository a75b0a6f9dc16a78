"""Compares loads with what was committed: of the database with digests of blocks, of parts with the database.

Not here: probes (store.upkeep.rows)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import StoreError
from store.location import StoreLocation
from store.reading import ReadTransaction
from store.reading.load_blocks import stored_loads
from store.sealing import LOAD_RELATIONS, Ranges, columns_of, create_table, insert_from_store, parts_of_loads, quoted

if TYPE_CHECKING:
    import duckdb

_LOADS_AT_ONCE = 2_000
_TABLE = "checked_loads"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadBlockDigest:
    """A block of loads that is not what was committed."""

    block_id: int
    scenario: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadFindings:
    """The blocks of loads that changed, and the parts that say something else than the database."""

    blocks: int = 0
    changed: tuple[LoadBlockDigest, ...] = ()
    differing: tuple[tuple[Path, int], ...] = ()


def compare_loads(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, location: StoreLocation
) -> LoadFindings:
    """Read every load of the database and of every part once; few are in memory at a time."""
    blocks, changed = 0, []
    for block in stored_loads(transaction):
        blocks += 1
        if not block.unchanged:
            changed.append(LoadBlockDigest(block_id=block.block_id, scenario=block.scenario))
    differing = []
    for relation in LOAD_RELATIONS:
        for path, loads in parts_of_loads(transaction, location, relation):
            if rows := sum(_differing(connection, transaction, relation, path, some) for some in _cut(loads)):
                differing.append((path, rows))
    return LoadFindings(blocks=blocks, changed=tuple(changed), differing=tuple(differing))


def _cut(loads: Ranges) -> Iterator[tuple[int, int]]:
    """Ranges of ids of bounded length."""
    for low, high in loads:
        for start in range(low, high + 1, _LOADS_AT_ONCE):
            yield start, min(high, start + _LOADS_AT_ONCE - 1)


def _differing(
    connection: duckdb.DuckDBPyConnection,
    transaction: ReadTransaction,
    relation: str,
    path: Path,
    within: tuple[int, int],
) -> int:
    """Rows that either has alone. Those of loads that cannot be read are in the part alone."""
    create_table(connection, _TABLE, columns_of(relation))
    try:
        try:
            insert_from_store(connection, transaction, _TABLE, relation, (within,))
        except StoreError:
            connection.execute(f"DELETE FROM {_TABLE}")  # noqa: S608 - our name
        names = ", ".join(name for name, _ in columns_of(relation))
        number = "id" if relation == "load" else "load_id"
        laid = (
            f"SELECT {names} FROM read_parquet({quoted(path)}) WHERE {number} BETWEEN {within[0]:d} AND {within[1]:d}"  # noqa: S608
        )
        mine = f"SELECT {names} FROM {_TABLE}"  # noqa: S608
        row = connection.execute(
            f"SELECT COUNT(*) FROM ((({mine}) EXCEPT ALL ({laid})) UNION ALL (({laid}) EXCEPT ALL ({mine})))"  # noqa: S608
        ).fetchone()
        return int(row[0]) if row else 0
    finally:
        connection.execute(f"DROP TABLE {_TABLE}")
