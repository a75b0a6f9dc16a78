"""Scenarios of a store as one relation, joined from its tables in DuckDB."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

from queries.scoping.voided import read_hidden
from store.schema import ALIASES, SCENARIO, SCENARIO_REFERENCES, scenario_tables
from store.sealing import create_table, insert_rows

if TYPE_CHECKING:
    import duckdb

    from store.reading import ReadTransaction

_STORED_COLUMN = r"\b([a-z]+)\.(\w+)"
_VOIDED = [("scenario_id", "BIGINT")]
_JOINED_TABLES = {alias: ALIASES[alias] for alias in ("sc", *SCENARIO_REFERENCES)}


def load_scenarios(connection: duckdb.DuckDBPyConnection, transaction: ReadTransaction) -> None:
    connection.execute("DROP SCHEMA IF EXISTS joining CASCADE")
    connection.execute("CREATE SCHEMA joining")
    create_table(connection, "joining.voided", _VOIDED)
    insert_rows(connection, "joining.voided", _VOIDED, [(key,) for key in read_hidden(transaction).whole_scenarios])
    for alias, columns in _needed().items():
        table = f"joining.{_JOINED_TABLES[alias]}"
        create_table(connection, table, list(columns.items()))
        rows = transaction.cells(f"SELECT {', '.join(columns)} FROM {_JOINED_TABLES[alias]}")  # noqa: S608 - our names
        insert_rows(connection, table, list(columns.items()), rows)
    selected = ", ".join(f"{column.source} AS {column.name}" for column in SCENARIO.columns)
    connection.execute(
        f"CREATE TABLE raw.scenario AS SELECT {selected} FROM {scenario_tables(schema='joining.')}"  # noqa: S608 - our names
    )
    connection.execute("DROP SCHEMA joining CASCADE")


def _needed() -> dict[str, dict[str, str]]:
    needed: dict[str, dict[str, str]] = defaultdict(lambda: {"id": "BIGINT"})
    for column in SCENARIO.columns:
        for alias, name in re.findall(_STORED_COLUMN, column.source):
            if alias in _JOINED_TABLES:
                needed[alias].setdefault(name, column.type)
    for reference in SCENARIO_REFERENCES.values():
        alias, name = reference.split(".")
        needed[alias][name] = "BIGINT"
    return needed
