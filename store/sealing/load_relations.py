"""Loads in DuckDB: rows, distributions, and tables for looking limits up.

`load_margin`: for each bin of TTFT and TPOT, how many requests lie below and in it; `load_span`: which bins.
`load_uneven`: for uneven bins, how many lie below each part, and in all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.loads import DISTRIBUTIONS, PART_ROWS, PARTS_OF_A_BIN, PAYLOADS, insert_distributions
from store.schema import MADE_OF_TABLES, TABLES
from store.sealing.into_duckdb import create_table, insert_rows
from store.sealing.ranges import Ranges, as_parameter

if TYPE_CHECKING:
    import duckdb

    from store.reading import ReadTransaction

LOAD_RELATIONS = ("load", *DISTRIBUTIONS, "load_margin", "load_span", "load_uneven")
TTFT, TPOT = 0, 1  # metrics of a margin
_DERIVED = {table.name: [(one.name, one.type.read_as) for one in table.columns] for table in MADE_OF_TABLES}
HOLDERS = {"load_request": ("load_request", "load_id")}  # which loads have rows, and their ids; else all of `load`
_FEW, _MANY = 20_480, 122_880  # rows of a group: a question reads few bins of margins, and cells of few loads
ROWS_OF_A_GROUP = {"load_margin": _FEW, "load_cell": _FEW}
_MARGINS = """
    WITH counted AS (
        SELECT {ttft} AS metric, ttft_bin AS bin, load_id,
            sum(requests_1 + requests_2 + requests_3 + requests_4 + requests_5)::BIGINT AS requests
        FROM {cells} GROUP BY load_id, ttft_bin
        UNION ALL
        SELECT {tpot}, tpot_bin, load_id,
            sum(requests_1 + requests_2 + requests_3 + requests_4 + requests_5)::BIGINT
        FROM {cells} GROUP BY load_id, tpot_bin
    ),
    every AS (
        SELECT metric, load_id, unnest(range(min(bin), max(bin) + 2))::INTEGER AS bin
        FROM counted GROUP BY metric, load_id
    )
    SELECT metric, bin, load_id,
        (sum(coalesce(requests, 0)) OVER (PARTITION BY metric, load_id ORDER BY bin) - coalesce(requests, 0))::BIGINT
            AS below,
        coalesce(requests, 0) AS within
    FROM every LEFT JOIN counted USING (metric, load_id, bin)
"""
_SPANS = """
    SELECT load_id, min(ttft_bin) AS ttft_first, max(ttft_bin) + 1 AS ttft_end, min(tpot_bin) AS tpot_first,
        max(tpot_bin) + 1 AS tpot_end
    FROM {cells} GROUP BY load_id
"""
_PARTS_BELOW = """
    SELECT metric, part // {parts} AS bin, load_id,
        list_transform(range({parts} + 1), lambda k: coalesce(list_sum(list_filter(
            list(requests ORDER BY part), lambda one, place: list(part % {parts} ORDER BY part)[place] < k
        )), 0))::INTEGER[] AS below
    FROM {cells} GROUP BY metric, part // {parts}, load_id
"""
_MADE_OF = {  # a derived relation: the rows that it is made of, their columns, and how
    "load_margin": ("load_cell", DISTRIBUTIONS["load_cell"], _MARGINS),
    "load_span": ("load_cell", DISTRIBUTIONS["load_cell"], _SPANS),
    "load_uneven": ("load_uneven", [(name, "BIGINT") for name in PART_ROWS], _PARTS_BELOW),
}


def columns_of(relation: str) -> list[tuple[str, str]]:
    """With DuckDB types, in sorting order."""
    if relation in _DERIVED:
        return _DERIVED[relation]
    if relation in DISTRIBUTIONS:
        return DISTRIBUTIONS[relation]
    return [(column.name, column.type.read_as) for column in TABLES[relation].columns]


def holder_of(relation: str) -> tuple[str, str]:
    return HOLDERS.get(relation, ("load", "id"))


def rows_of_a_group(relation: str) -> int:
    return ROWS_OF_A_GROUP.get(relation, _MANY)


def insert_from_store(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, table: str, relation: str, within: Ranges
) -> int:
    if relation in DISTRIBUTIONS:
        return _insert_packed(connection, transaction, table, relation, within)
    if relation not in _DERIVED:
        columns = columns_of(relation)
        names = ", ".join(f"l.{name}" for name, _ in columns)
        statement = f"SELECT {names} FROM {transaction.ranges} CROSS JOIN load l WHERE l.id BETWEEN r.lo AND r.hi"  # noqa: S608
        return insert_rows(connection, table, columns, transaction.cells(statement, (as_parameter(within),)))
    cells = f"{table}_cells"
    rows, row_columns, derived = _MADE_OF[relation]
    create_table(connection, cells, row_columns)
    count = 0
    try:
        if _insert_packed(connection, transaction, cells, rows, within):
            select = derived.format(cells=cells, ttft=TTFT, tpot=TPOT, parts=PARTS_OF_A_BIN)
            ((count,),) = connection.execute(f"INSERT INTO {table} {select}").fetchall()
    finally:
        connection.execute(f"DROP TABLE {cells}")
    return int(count)


def _insert_packed(
    connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction, table: str, relation: str, within: Ranges
) -> int:
    holder = "load_cell" if relation == "load_uneven" else relation
    statement = (
        f"SELECT d.load_id, d.{PAYLOADS[holder]} FROM {transaction.ranges} CROSS JOIN {holder} d"  # noqa: S608 - our names
        " WHERE d.load_id BETWEEN r.lo AND r.hi ORDER BY d.load_id"
    )
    return insert_distributions(connection, table, relation, transaction.cells(statement, (as_parameter(within),)))
