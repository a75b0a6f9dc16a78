"""Rows that this process has just committed, kept until they are laid down: reading them back costs more than that.

A block that is kept stands for one of the store only where the store says the same digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from store.light_dataclass import NamedTuple, dataclass
from store.reading import ReadTransaction
from store.schema.probe_columns import MEASURE_COLUMNS, NAMED_COLUMNS, SORT_ORDER
from store.schema.tables import MEASURES
from store.sealing.into_duckdb import insert_arrays
from store.sealing.part_files import ROWS_AT_ONCE
from store.sealing.ranges import Ranges, as_parameter

if TYPE_CHECKING:
    import duckdb
    import numpy as np

    from store.records import BlockRecord

_BLOCK_ORDER = SORT_ORDER.replace("batch_size, ", "")
MEASURED = [("block_id", "BIGINT"), *((column.name, column.type) for column in MEASURE_COLUMNS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBlock:
    """The rows of one block, and the digest that it was committed with."""

    scenario_id: int
    first: int
    last: int
    digest: str
    batch_sizes: np.ndarray
    columns: Mapping[str, np.ndarray | None]


def held_block(scenario_id: int, interval: tuple[int, int], digest: str, record: BlockRecord) -> HeldBlock:
    first, last = interval
    start = int(record.batch_sizes[0])  # batch sizes are consecutive
    rows = slice(first - start, last - start + 1)
    return HeldBlock(
        scenario_id=scenario_id,
        first=first,
        last=last,
        digest=digest,
        batch_sizes=record.batch_sizes[rows],
        columns={name: None if values is None else values[rows] for name, values in record.columns.items()},
    )


class HeldRows:
    """Blocks of one writer that are not laid down yet, up to `most_rows` of them: the rest is read from the store."""

    def __init__(self, most_rows: int = 1_000_000) -> None:
        self._most_rows = most_rows
        self._blocks: dict[tuple[int, int], HeldBlock] = {}
        self.rows = 0

    @property
    def full(self) -> bool:
        return self.rows >= self._most_rows

    def keep(self, block: HeldBlock) -> None:
        if not self.full:
            self._blocks[block.scenario_id, block.first] = block
            self.rows += len(block.batch_sizes)

    def clear(self) -> None:
        self._blocks.clear()
        self.rows = 0

    def of(self, transaction: ReadTransaction, blocks: Ranges) -> dict[int, HeldBlock]:
        if not self._blocks:
            return {}
        stored = transaction.rows(
            _Stored,
            "SELECT b.id, b.scenario_id, b.first_batch_size, b.last_batch_size, COALESCE(b.digest, '')"  # noqa: S608 - our text
            f" FROM {transaction.ranges} CROSS JOIN block b WHERE b.id BETWEEN r.lo AND r.hi ORDER BY b.id",
            (as_parameter(blocks),),
        )
        found = {}
        for one in stored:
            held = self._blocks.get((one.scenario_id, one.first))
            if held is not None and (held.last, held.digest) == (one.last, one.digest):
                found[one.id] = held
        return found


class _Stored(NamedTuple):
    id: int
    scenario_id: int
    first: int
    last: int
    digest: str


def with_repeated_texts(connection: duckdb.DuckDBPyConnection, schema: str) -> str:
    """Make a table of `unsealed_block` whose texts are enums, and return its name.

    A file gets a text of every row by its number then, which halves the cost of writing one. The columns that parts are
    sorted by stay texts: what a row group says of an enum is not of that row group alone."""
    sorted_by = set(SORT_ORDER.split(", "))
    texts = [column.name for column in NAMED_COLUMNS if column.type == "VARCHAR" and column.name not in sorted_by]
    counted = ", ".join(f"count({name})" for name in texts)
    found = connection.execute(f"SELECT {counted} FROM {schema}.unsealed_block").fetchone() or ()  # noqa: S608 - ours
    replaced = []
    for name, count in zip(texts, found, strict=True):
        if count:
            values = f"SELECT DISTINCT {name} FROM {schema}.unsealed_block WHERE {name} IS NOT NULL"  # noqa: S608 - ours
            connection.execute(f"CREATE TYPE {schema}.text_of_{name} AS ENUM ({values})")
            replaced.append(f"{name}::{schema}.text_of_{name} AS {name}")
    listed = f" REPLACE ({', '.join(replaced)})" if replaced else ""
    connection.execute(
        f"CREATE TABLE {schema}.repeated_block AS SELECT *{listed} FROM {schema}.unsealed_block"  # noqa: S608 - ours
    )
    return "repeated_block"


def insert_held(connection: duckdb.DuckDBPyConnection, blocks: Mapping[int, HeldBlock], table: str, named: str) -> None:
    """Insert blocks by id into a table of measures, in the order of parts.

    `named` is the table of their names."""
    rows = connection.execute(f"SELECT block_id, scenario_id FROM {named} ORDER BY {_BLOCK_ORDER}").fetchall()  # noqa: S608 - our names
    places: dict[int, int] = {}
    for _, scenario_id in rows:
        places.setdefault(scenario_id, len(places))
    ordered = sorted(blocks, key=lambda id_: (places[blocks[id_].scenario_id], blocks[id_].first))
    run: list[int] = []
    for id_ in ordered:
        run.append(id_)
        if sum(len(blocks[one].batch_sizes) for one in run) >= ROWS_AT_ONCE:
            _insert(connection, table, run, blocks)
            run = []
    if run:
        _insert(connection, table, run, blocks)


def _insert(
    connection: duckdb.DuckDBPyConnection, table: str, ids: Sequence[int], blocks: Mapping[int, HeldBlock]
) -> None:
    import numpy as np

    lengths = [len(blocks[id_].batch_sizes) for id_ in ids]
    arrays: dict[str, np.ndarray | None] = {
        "block_id": np.repeat(np.array(ids, dtype=np.int64), lengths),
        "batch_size": np.concatenate([blocks[id_].batch_sizes for id_ in ids]),
    }
    for measure in MEASURES:
        arrays[measure.name] = joined([blocks[id_].columns.get(measure.name) for id_ in ids], lengths)
    insert_arrays(connection, table, MEASURED, arrays)


def joined(given: Sequence[np.ndarray | None], lengths: Sequence[int]) -> np.ndarray | None:
    import numpy as np

    from store.digests import as_floats

    if all(values is None for values in given):
        return None
    return np.concatenate(
        [
            np.full(length, np.nan) if values is None else as_floats(values)
            for values, length in zip(given, lengths, strict=True)
        ]
    )
