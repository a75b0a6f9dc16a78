"""Writes tables that reports read, so that a browser judges no rows first."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from queries.asking import limit_table
from queries.replaying import STORED_TABLES, Recorded, asked_sql, limit_variables, parted
from store.reading import duckdb
from store.sealing import quoted

_FORM = "STORAGE_VERSION 'v1.2.0', BLOCK_SIZE 16384"  # small blocks: a table has a hundred short columns
# A scope takes of a scenario the batch sizes between two: each such piece is judged by itself.
_PIECES = """
CREATE OR REPLACE TEMP TABLE scope AS
SELECT
    scenario_id, first_batch_size, last_batch_size,
    (row_number() OVER (PARTITION BY scenario_id ORDER BY first_batch_size, last_batch_size) - 1)::INTEGER
        AS question_group
FROM (SELECT DISTINCT scenario_id, first_batch_size, last_batch_size FROM whole)"""


class WantedTable(NamedTuple):
    """A scope, as statements."""

    scope: str
    variables: Sequence[str]


@contextmanager
def rows_of_choice(connection: duckdb.DuckDBPyConnection, ids: Collection[int]) -> Iterator[duckdb.DuckDBPyConnection]:
    """As `main.probe`, with devices."""
    numbers = ", ".join(map(str, sorted(ids))) or "NULL"
    cursor = connection.cursor()
    cursor.execute("ATTACH ':memory:' AS choice; USE choice")
    try:
        cursor.execute(
            f"CREATE TABLE probe AS FROM memory.main.probe WHERE scenario_id IN ({numbers})"
            " ORDER BY scenario_id, batch_size"
        )
        cursor.execute("CREATE TABLE device AS FROM memory.main.device")
        yield cursor
    finally:
        cursor.execute("USE memory; DETACH choice")
        cursor.close()


def write_tables(
    choice: duckdb.DuckDBPyConnection, recorded: Recorded, wanted: Sequence[WantedTable], path: Path
) -> None:
    """Over all scopes asked about."""
    with choice.cursor() as run:
        run.execute(f"USE choice; ATTACH {quoted(path)} AS site ({_FORM})")
        try:
            _make(run, recorded, wanted)
            for table in parted(recorded).tables:
                of = f"choice.{table}" if table in STORED_TABLES else f"temp.{table}"
                run.execute(f"CREATE TABLE site.{table} AS SELECT DISTINCT * FROM {of} ORDER BY ALL")  # noqa: S608  our names
            run.execute("CREATE TABLE site.pieces AS FROM temp.scope")
        finally:
            run.execute("DETACH site")


def _make(run: duckdb.DuckDBPyConnection, recorded: Recorded, wanted: Sequence[WantedTable]) -> None:
    reserve = next(limit_variables()[one.keyword] for one in limit_table() if one.is_reserve)
    run.execute(f"{asked_sql()}; UPDATE asked SET {reserve} = 0; SET VARIABLE {reserve} = 0")  # noqa: S608  our names
    for place, scope in enumerate(dict.fromkeys(one.scope for one in wanted)):
        run.execute(scope)
        run.execute(f"{'INSERT INTO whole' if place else 'CREATE TEMP TABLE whole AS'} FROM scope")
    for statement in (*wanted[0].variables, _PIECES, *recorded.statements):
        run.execute(statement)
