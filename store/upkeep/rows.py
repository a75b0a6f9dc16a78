"""Compares every row with what was committed: of the database with digests of blocks, of parts with the database.

Not here: whole files, references and schema (store.upkeep.checking)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from store.errors import UnreadableRowsError
from store.location import StoreLocation
from store.reading import ReadTransaction
from store.schema import PROBE_COLUMNS
from store.sealing import (
    KeptDigest,
    Part,
    Snapshot,
    UnsealedBlock,
    blocks_within,
    changed_blocks,
    complement,
    groups_of,
    kept_digests,
    load_snapshot,
    load_unsealed,
    quoted,
    ranges_of,
    unsealed_select,
)
from store.upkeep.load_rows import LoadFindings, compare_loads

if TYPE_CHECKING:
    import duckdb

_SCHEMA = "checking"
_COLUMNS = ", ".join(column.name for column in PROBE_COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFindings:
    """The blocks of the database that changed, and the parts that say something else than it."""

    snapshot: Snapshot
    changed: tuple[KeptDigest, ...] = ()
    differing: tuple[tuple[Part, int], ...] = ()  # part, and how many rows only one of the two has
    loads: LoadFindings


def compare_rows(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, location: StoreLocation
) -> RowFindings:
    """Read every row of the database and of every part once; few are in memory at a time."""
    snapshot = load_snapshot(connection, transaction, location, transaction.store_id, full_hash=lambda _: True)
    changed: list[KeptDigest] = []
    differing: list[tuple[Part, int]] = []
    for part in (*snapshot.parts, None):
        rows = 0
        for group in groups_of(
            blocks_within(transaction, part.contents.blocks if part else complement(snapshot.blocks))
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
    part: Part | None,
    group: Sequence[UnsealedBlock],
) -> Iterator[tuple[list[KeptDigest], int]]:
    """Compare a group of blocks; one that cannot be read is found by halving it."""
    ranges = ranges_of(block.id for block in group)
    connection.execute(f"CREATE SCHEMA {_SCHEMA}")
    try:
        load_unsealed(connection, transaction, ranges, schema=_SCHEMA)
        connection.execute(f"CREATE VIEW {_SCHEMA}.wide AS {unsealed_select(_SCHEMA)}")
        found = changed_blocks(connection, transaction, f"{_SCHEMA}.wide", ranges)
        compared = [(found, _differing(connection, part, ranges) if part else 0)]
    except UnreadableRowsError:
        compared = []
    finally:
        connection.execute(f"DROP SCHEMA {_SCHEMA} CASCADE")
    if compared or not group:
        yield from compared
    elif len(group) == 1:
        yield list(kept_digests(transaction, ranges)), group[0].probe_count if part else 0
    else:
        half = len(group) // 2
        yield from _compared(connection, transaction, part, group[:half])
        yield from _compared(connection, transaction, part, group[half:])


def _differing(connection: duckdb.DuckDBPyConnection, part: Part, ranges: tuple[tuple[int, int], ...]) -> int:
    """Rows, in all columns, that either the part or the database has alone."""
    low, high = ranges[0][0], ranges[-1][1]
    mine = f"SELECT {_COLUMNS} FROM {_SCHEMA}.wide"  # noqa: S608 - our names
    laid = f"SELECT {_COLUMNS} FROM read_parquet({quoted(part.path)}) WHERE block_id BETWEEN {low:d} AND {high:d}"  # noqa: S608
    row = connection.execute(
        f"SELECT COUNT(*) FROM ((({mine}) EXCEPT ALL ({laid})) UNION ALL (({laid}) EXCEPT ALL ({mine})))"  # noqa: S608
    ).fetchone()
    return int(row[0]) if row else 0
