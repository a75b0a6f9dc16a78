"""Digests of blocks made again from rows that DuckDB has: from the store or from a part, whichever the relation is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from store.reading import ReadTransaction
from store.schema.tables import MEASURES
from store.sealing.part_files import ROWS_AT_ONCE
from store.sealing.ranges import Ranges, as_parameter, ranges_of
from store.sealing.unsealed import blocks_within

if TYPE_CHECKING:
    import duckdb
    import numpy as np

    from store.digests import Composition


class KeptDigest(NamedTuple):
    block_id: int
    scenario_key: str
    digest: str  # empty where none is stored


class _Counted(Protocol):
    @property
    def probe_count(self) -> int: ...


_Block = TypeVar("_Block", bound=_Counted)


def groups_of(blocks: Sequence[_Block], most_rows: int = ROWS_AT_ONCE) -> Iterator[list[_Block]]:
    group: list[_Block] = []
    rows = 0
    for block in blocks:
        if group and rows + block.probe_count > most_rows:
            yield group
            group, rows = [], 0
        group.append(block)
        rows += block.probe_count
    if group:
        yield group


def changed_blocks(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, relation: str, blocks: Ranges
) -> list[KeptDigest]:
    """Blocks whose rows in a relation of wide rows are not those that their stored digests are of."""
    changed: list[KeptDigest] = []
    for group in groups_of(blocks_within(transaction, blocks)):
        changed += _changed(connection, transaction, relation, ranges_of(block.id for block in group))
    return changed


def _changed(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, relation: str, blocks: Ranges
) -> list[KeptDigest]:
    made = dict(_digests(connection, transaction, relation, blocks))
    return [item for item in kept_digests(transaction, blocks) if made.get(item.block_id) != item.digest]


def kept_digests(transaction: ReadTransaction, blocks: Ranges) -> Iterator[KeptDigest]:
    return transaction.rows(
        KeptDigest,
        "SELECT b.id, s.key, COALESCE(b.digest, '')"  # noqa: S608 - our text
        f" FROM {transaction.ranges} CROSS JOIN block b LEFT JOIN scenario s ON s.id = b.scenario_id"
        " WHERE b.id BETWEEN r.lo AND r.hi ORDER BY b.id",
        (as_parameter(blocks),),
    )


def _digests(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, relation: str, blocks: Ranges
) -> Iterator[tuple[int, str]]:
    import numpy as np

    from store.digests import DigestedRows, rows_digest

    within = f"FROM {relation} WHERE block_id BETWEEN {blocks[0][0]:d} AND {blocks[-1][1]:d}"
    numbers = ", ".join(f"COALESCE({column.name}::DOUBLE, 'nan') AS {column.name}" for column in MEASURES)
    selected = connection.execute(f"SELECT block_id, batch_size, {numbers} {within} ORDER BY block_id, batch_size")
    found = selected.fetchnumpy()
    if not len(found["block_id"]):
        return
    # Apart, since a text a row costs more than all numbers of the row. Blocks are of one scenario each.
    keys = connection.execute(f"SELECT block_id, min(scenario), max(scenario) {within} GROUP BY block_id").fetchall()
    scenarios = {block: str(first) if first == last else "" for block, first, last in keys}
    compositions = _compositions(transaction, blocks)
    arrays = {name: np.asarray(values) for name, values in found.items()}
    rows = DigestedRows.of_columns(arrays["batch_size"], arrays)
    ids = arrays["block_id"]
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    for start, stop in zip(starts, [*starts[1:], len(ids)], strict=True):
        block = int(ids[start])
        yield block, rows_digest(scenarios[block], rows.part(slice(start, stop)), compositions.get(block))


class _Composed(NamedTuple):
    block_id: int
    batch_size: int
    bin_index: int
    samples: int


def _compositions(transaction: ReadTransaction, blocks: Ranges) -> dict[int, Composition]:
    import numpy as np

    lines = transaction.rows(
        _Composed,
        "SELECT b.id, c.batch_size, c.bin_index, c.samples"  # noqa: S608 - our text
        f" FROM {transaction.ranges} CROSS JOIN block b JOIN composition c ON c.scenario_id = b.scenario_id"
        " AND c.batch_size BETWEEN b.first_batch_size AND b.last_batch_size"
        " WHERE b.id BETWEEN r.lo AND r.hi ORDER BY b.id",
        (as_parameter(blocks),),
    )
    made: dict[int, Composition] = {}
    for block, group in groupby(lines, key=itemgetter(0)):
        table: np.ndarray = np.array([tuple(line[1:]) for line in group], dtype=np.int64)
        made[block] = (table[:, 0], table[:, 1], table[:, 2])
    return made
