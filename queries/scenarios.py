"""Brings scenarios into DuckDB with their names: the narrow tables as the store has them, joined there.

Handing 60,000 joined rows over takes 3 s, the narrow ones a fraction. Not here: which statement needs them."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from queries.scoping.voided import read_hidden
from store.reading import ReadTransaction
from store.schema import ALIASES, SCENARIO, SCENARIO_REFERENCES, scenario_tables
from store.sealing import create_table, insert_rows

if TYPE_CHECKING:
    import duckdb

_STORED_COLUMN = re.compile(r"\b([a-z]+)\.(\w+)")
_VOIDED = [("scenario_id", "BIGINT")]
_TABLES = {alias: ALIASES[alias] for alias in ("sc", *SCENARIO_REFERENCES)}


def load_scenarios(connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction) -> None:
    """Create the table raw.scenario."""
    connection.execute("DROP SCHEMA IF EXISTS joining CASCADE")
    connection.execute("CREATE SCHEMA joining")
    create_table(connection, "joining.voided", _VOIDED)
    insert_rows(connection, "joining.voided", _VOIDED, [(key,) for key in read_hidden(transaction).whole_scenarios])
    for alias, columns in _needed().items():
        table = f"joining.{_TABLES[alias]}"
        create_table(connection, table, list(columns.items()))
        rows = transaction.cells(f"SELECT {', '.join(columns)} FROM {_TABLES[alias]}")  # noqa: S608 - our names
        insert_rows(connection, table, list(columns.items()), rows)
    selected = ", ".join(f"{column.source} AS {column.name}" for column in SCENARIO.columns)
    connection.execute(
        f"CREATE TABLE raw.scenario AS SELECT {selected} FROM {scenario_tables(schema='joining.')}"  # noqa: S608 - our names
    )
    connection.execute("DROP SCHEMA joining CASCADE")


def _needed() -> dict[str, dict[str, str]]:
    """Return the columns that names and joins need, with their types, by alias."""
    needed: dict[str, dict[str, str]] = defaultdict(lambda: {"id": "BIGINT"})
    for column in SCENARIO.columns:
        for alias, name in _STORED_COLUMN.findall(column.source):
            if alias in _TABLES:
                needed[alias].setdefault(name, column.type)
    for reference in SCENARIO_REFERENCES.values():
        alias, name = reference.split(".")
        needed[alias][name] = "BIGINT"
    return needed
