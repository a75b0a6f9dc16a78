"""Brings blocks that no snapshot holds from the store into DuckDB, as the same wide rows a snapshot has.

Not here: which blocks are covered (store.sealing.snapshots)."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from store.errors import UnreadableRowsError
from store.reading import ReadTransaction
from store.schema.joins import BLOCK_TABLES
from store.schema.probe_columns import MEASURE_COLUMNS, NAMED_COLUMNS, PROBE_COLUMNS
from store.sealing.into_duckdb import create_table, insert_rows
from store.sealing.ranges import Ranges, ranges_of

if TYPE_CHECKING:
    import duckdb

_NAMED = [(column.name, column.type) for column in NAMED_COLUMNS]
_MEASURES = [("block_id", "BIGINT"), *((column.name, column.type) for column in MEASURE_COLUMNS)]


class UnsealedBlock(NamedTuple):
    """A block by its id and size."""

    id: int
    probe_count: int


def as_parameter(ranges: Ranges, part: int = 0) -> str:
    """Write ranges as the JSON parameter of ReadTransaction.ranges."""
    return json.dumps([[part, low, high] for low, high in ranges])


def blocks_within(transaction: ReadTransaction, ranges: Ranges) -> list[UnsealedBlock]:
    """List the committed blocks whose ids lie within ranges, by id."""
    statement = (
        f"SELECT b.id, b.probe_count FROM {transaction.ranges} CROSS JOIN block b"  # noqa: S608 - our text
        " WHERE b.id BETWEEN r.lo AND r.hi ORDER BY b.id"
    )
    return list(transaction.rows(UnsealedBlock, statement, (as_parameter(ranges),)))


def blocks_of(transaction: ReadTransaction, scenario_keys: Collection[str]) -> Ranges:
    """Return the blocks of scenarios, by content key, as ranges of ids."""
    ids = transaction.keys("scenario")
    keys = set(scenario_keys)
    wanted = ranges_of(id_ for id_, key in ids.items() if key in keys)
    statement = (
        f"SELECT b.id FROM {transaction.ranges} CROSS JOIN block b"  # noqa: S608 - our text
        " WHERE b.scenario_id BETWEEN r.lo AND r.hi"
    )
    return ranges_of(transaction.values(int, statement, (as_parameter(wanted),)))


def load_unsealed(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, ranges: Ranges, *, schema: str = "main"
) -> int:
    """Create `unsealed_block` and `unsealed_probe` from the blocks within ranges; return the number of probes."""
    import duckdb

    try:
        return _loaded(connection, transaction, ranges, schema)
    except (ValueError, TypeError, OverflowError, duckdb.ConversionException, duckdb.InvalidInputException) as error:
        first_line = str(error).partition("\n")[0]
        raise UnreadableRowsError(
            f"The store holds a number that is none ({first_line}): something else than this program wrote to it.",
            hint="Find it with: sweepdb db check",
        ) from error


def _loaded(connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, ranges: Ranges, schema: str) -> int:
    named = ", ".join(f"{column.source} AS {column.name}" for column in NAMED_COLUMNS)
    measures = ", ".join(column.source for column in MEASURE_COLUMNS)
    within = "b.id BETWEEN r.lo AND r.hi"
    parameter = (as_parameter(ranges),)
    create_table(connection, f"{schema}.unsealed_block", _NAMED)
    create_table(connection, f"{schema}.unsealed_probe", _MEASURES)
    blocks = transaction.cells(
        f"SELECT {named} FROM {transaction.ranges} CROSS JOIN {BLOCK_TABLES} WHERE {within}",  # noqa: S608 - our text
        parameter,
    )
    insert_rows(connection, f"{schema}.unsealed_block", _NAMED, blocks)
    probes = transaction.cells(
        f"SELECT b.id, {measures} FROM {transaction.ranges} CROSS JOIN block b CROSS JOIN probe pb WHERE {within}"  # noqa: S608 - our text
        " AND pb.scenario_id = b.scenario_id AND pb.batch_size BETWEEN b.first_batch_size AND b.last_batch_size",
        parameter,
    )
    return insert_rows(connection, f"{schema}.unsealed_probe", _MEASURES, probes, arrays=True)


def unsealed_select(schema: str = "main") -> str:
    """Return the SELECT that joins `unsealed_block` and `unsealed_probe` to rows as a snapshot has them."""
    measures = {column.name for column in MEASURE_COLUMNS}
    columns = ", ".join(f"{'p' if column.name in measures else 'b'}.{column.name}" for column in PROBE_COLUMNS)
    return f"SELECT {columns} FROM {schema}.unsealed_probe p JOIN {schema}.unsealed_block b ON b.block_id = p.block_id"  # noqa: S608 - our names
