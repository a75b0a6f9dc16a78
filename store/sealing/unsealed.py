"""Brings blocks that no snapshot holds from the store into DuckDB, as the same wide rows a snapshot has.

Which snapshots hold rows of some scenarios is told by the store's own blocks: a wrong manifest can make a question
slower, never leave a row out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import UnreadableRowsError
from store.light_dataclass import NamedTuple
from store.placing import Place, has_parts, paths_of, places_of
from store.reading import ReadTransaction
from store.schema.probe_columns import MEASURE_COLUMNS, NAMED_COLUMNS, PROBE_COLUMNS
from store.schema.tables import BLOCKS_FIRST
from store.sealing.held import MEASURED, HeldBlock, insert_held
from store.sealing.into_duckdb import create_table, insert_rows
from store.sealing.part_files import quoted
from store.sealing.ranges import Ranges, as_parameter, meets, ranges_of, within, without

if TYPE_CHECKING:
    import duckdb

    from store.sealing.snapshots import Part

_NAMED = [(column.name, column.type) for column in NAMED_COLUMNS]
_PLACE = [
    ("block_id", "BIGINT"),
    ("scenario_id", "BIGINT"),
    ("first_batch_size", "INTEGER"),
    ("last_batch_size", "INTEGER"),
    ("file", "VARCHAR"),
]

FEW_PARTS = 16  # opening as many takes 20 ms; a session that has them all never reads the store twice
MOST_SCENARIOS = 20_000  # looking their blocks up takes as long as opening a few hundred parts


class UnsealedBlock(NamedTuple):
    id: int
    probe_count: int


def blocks_within(transaction: ReadTransaction, ranges: Ranges) -> list[UnsealedBlock]:
    statement = (
        f"SELECT b.id, b.probe_count FROM {transaction.ranges} CROSS JOIN block b"  # noqa: S608 - our text
        " WHERE b.id BETWEEN r.lo AND r.hi ORDER BY b.id"
    )
    return list(transaction.rows(UnsealedBlock, statement, (as_parameter(ranges),)))


def blocks_of(transaction: ReadTransaction, scenario_keys: Collection[str]) -> Ranges:
    ids = transaction.keys("scenario")
    keys = set(scenario_keys)
    wanted = ranges_of(id_ for id_, key in ids.items() if key in keys)
    statement = (
        f"SELECT b.id FROM {transaction.ranges} CROSS JOIN block b"  # noqa: S608 - our text
        " WHERE b.scenario_id BETWEEN r.lo AND r.hi"
    )
    return ranges_of(transaction.values(int, statement, (as_parameter(wanted),)))


def worth_pruning(transaction: ReadTransaction, parts: Sequence[Part], scenario_ids: Collection[int]) -> bool:
    """Whether leaving parts aside saves more than finding out which.

    Where parts stand in place of rows it always does: names are joined to every block of them that is read."""
    if len(scenario_ids) > MOST_SCENARIOS:
        return False
    return len(parts) > FEW_PARTS or has_parts(transaction)


def blocks_of_scenarios(transaction: ReadTransaction, scenario_ids: Iterable[int]) -> list[UnsealedBlock]:
    statement = (
        f"SELECT b.id, b.probe_count FROM {transaction.ranges} JOIN block b"  # noqa: S608 - our text
        " ON b.scenario_id BETWEEN r.lo AND r.hi ORDER BY b.id"
    )
    return list(transaction.rows(UnsealedBlock, statement, (as_parameter(ranges_of(scenario_ids)),)))


def parts_with(parts: Sequence[Part], blocks: Sequence[UnsealedBlock]) -> tuple[Part, ...]:
    wanted = ranges_of(block.id for block in blocks)
    return tuple(part for part in parts if meets(part.contents.blocks, wanted))


def not_within(blocks: Sequence[UnsealedBlock], covered: Ranges) -> Ranges:
    return ranges_of(block.id for block in blocks if not within(block.id, covered))


def load_unsealed(
    connection: duckdb.DuckDBPyConnection,
    transaction: ReadTransaction,
    ranges: Ranges,
    *,
    schema: str = "main",
    held: Mapping[int, HeldBlock] | None = None,
    placed: Callable[[Sequence[Place]], Sequence[Place]] = tuple,
) -> tuple[Path, ...]:
    """Create `unsealed_block` and `unsealed_probe` from the blocks within ranges; return the files that are read.

    Probes that are rows come into memory, but for blocks that are `held` there already, by id, which come first; those
    of parts that stand in place of rows stay in their files: `placed` may name others for them."""
    from store.reading.silent_duckdb import duckdb

    try:
        places = placed(places_of(transaction, ranges))
        return _loaded(connection, transaction, ranges, schema, held=held or {}, places=places)
    except (ValueError, TypeError, OverflowError, duckdb.ConversionException, duckdb.InvalidInputException) as error:
        first_line = str(error).partition("\n")[0]
        raise UnreadableRowsError(
            f"The store holds a number that is none ({first_line}): something else than this program wrote to it.",
            hint="Find it with: sweepdb db check",
        ) from error


def _loaded(
    connection: duckdb.DuckDBPyConnection,
    transaction: ReadTransaction,
    ranges: Ranges,
    schema: str,
    *,
    held: Mapping[int, HeldBlock],
    places: Sequence[Place],
) -> tuple[Path, ...]:
    named = ", ".join(f"{column.source} AS {column.name}" for column in NAMED_COLUMNS)
    measures = ", ".join(column.source for column in MEASURE_COLUMNS)
    inside = "b.id BETWEEN r.lo AND r.hi"
    parameter = (as_parameter(ranges),)
    rows = f"{schema}.unsealed_row" if places else f"{schema}.unsealed_probe"
    create_table(connection, f"{schema}.unsealed_block", _NAMED)
    create_table(connection, rows, MEASURED)
    blocks = transaction.cells(
        f"SELECT {named} FROM {transaction.ranges} CROSS JOIN {BLOCKS_FIRST} WHERE {inside}",  # noqa: S608 - our text
        parameter,
    )
    insert_rows(connection, f"{schema}.unsealed_block", _NAMED, blocks)
    if held:
        insert_held(connection, held, rows, f"{schema}.unsealed_block")
    elsewhere = ranges_of((*(place.block_id for place in places), *held))
    probes = transaction.cells(
        f"SELECT b.id, {measures} FROM {transaction.ranges} CROSS JOIN block b CROSS JOIN probe pb WHERE {inside}"  # noqa: S608 - our text
        " AND pb.scenario_id = b.scenario_id AND pb.batch_size BETWEEN b.first_batch_size AND b.last_batch_size",
        (as_parameter(without(ranges, elsewhere)),),
    )
    insert_rows(connection, rows, MEASURED, probes, arrays=True)
    return _with_parts(connection, transaction, places, schema) if places else ()


def _with_parts(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, places: Sequence[Place], schema: str
) -> tuple[Path, ...]:
    from store.reading.silent_duckdb import duckdb

    paths = paths_of(transaction, places)
    create_table(connection, f"{schema}.unsealed_place", _PLACE)
    handed = ((*place[:4], str(paths[place.name])) for place in places)
    insert_rows(connection, f"{schema}.unsealed_place", _PLACE, handed)
    files = ", ".join(quoted(path) for path in paths.values())
    names = ", ".join(f"f.{column.name}" for column in MEASURE_COLUMNS)
    view = (
        f"CREATE OR REPLACE VIEW {schema}.unsealed_probe AS SELECT * FROM {schema}.unsealed_row"  # noqa: S608 - ours
        f" UNION ALL SELECT pl.block_id, {names} FROM {{rows}} f JOIN {schema}.unsealed_place pl"
        " ON pl.scenario_id = f.scenario_id AND pl.file = f.filename"
        " AND f.batch_size BETWEEN pl.first_batch_size AND pl.last_batch_size"
    )
    read = f"read_parquet([{files}], filename = true, union_by_name = true)"
    try:
        connection.execute(view.format(rows=read))
    except duckdb.BinderException:  # parts of before a measure was added lack it: it is missing there
        shape = ", ".join(f"NULL::{column.type} AS {column.name}" for column in MEASURE_COLUMNS)
        connection.execute(
            view.format(rows=f"(SELECT {shape} WHERE false UNION ALL BY NAME SELECT * FROM {read})")  # noqa: S608
        )
    return tuple(paths.values())


def unsealed_select(schema: str = "main", named: str = "unsealed_block") -> str:
    measures = {column.name for column in MEASURE_COLUMNS}
    columns = ", ".join(f"{'p' if column.name in measures else 'b'}.{column.name}" for column in PROBE_COLUMNS)
    return f"SELECT {columns} FROM {schema}.unsealed_probe p JOIN {schema}.{named} b ON b.block_id = p.block_id"  # noqa: S608 - our names
