"""Hands rows of a database driver to DuckDB: as JSON where they are few, as numpy arrays where they are many.

DuckDB's own INSERT of Python rows takes 0.5-2 ms a row; JSON 10 us, arrays 2 us."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from itertools import chain, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb
    import numpy as np

Row = Sequence[object]
Columns = Sequence[tuple[str, str]]  # name and DuckDB type

_FEW_ROWS = 4_000  # importing numpy costs as much as handing over this many rows as JSON; also the rows of one document
_MANY_ROWS = 50_000
_COMBINATION = ("combination", "BIGINT")
_LEAST_ROWS = 4  # DuckDB plans a document in as long as it takes as many rows of parameters
_NUMERIC = {"INTEGER": "int64", "BIGINT": "int64", "DOUBLE": "float64", "FLOAT": "float64"}


def create_table(connection: duckdb.DuckDBPyConnection, table: str, columns: Columns) -> None:
    declared = ", ".join(f"{name} {type_}" for name, type_ in columns)
    connection.execute(f"CREATE TABLE {table} ({declared})")


def put_temporary(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Columns, rows: Iterable[Row], *, arrays: bool = False
) -> None:
    declared = ", ".join(f"{name} {type_}" for name, type_ in columns)
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} ({declared})")
    insert_rows(connection, table, columns, rows, arrays=arrays)


def insert_rows(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Columns, rows: Iterable[Row], *, arrays: bool = False
) -> int:
    iterator = iter(rows)
    first = list(islice(iterator, _FEW_ROWS + 1))
    if 0 < len(first) <= _LEAST_ROWS:
        return _insert_values(connection, table, columns, first)
    many = arrays and len(first) > _FEW_ROWS
    insert, size = (_insert_arrays, _MANY_ROWS) if many else (_insert_columns, _FEW_ROWS)
    count = 0
    for chunk in chain([first] if first else [], _chunks(iterator, size)):
        insert(connection, table, columns, list(zip(*chunk, strict=True)))
        count += len(chunk)
    return count


def put_repeating(
    connection: duckdb.DuckDBPyConnection, name: str, own: Columns, repeating: Columns, rows: Iterable[Row]
) -> str:
    """Put rows of `own` values and a JSON list of `repeating` ones into two tables; what to select both from.

    Each list is read once."""
    numbers: dict[object, int] = {}
    handed = {f"{name}_{part}": [_COMBINATION, *typed] for part, typed in (("own", own), ("rest", repeating))}
    for table, typed in handed.items():
        connection.execute(f"DROP TABLE IF EXISTS {table}")
        create_table(connection, table, typed)
    mine, rest = handed
    done = 0
    for chunk in _chunks(iter(rows), _FEW_ROWS):
        *values, lists = zip(*chunk, strict=True)
        coded = tuple(map(numbers.setdefault, lists, range(done, done + len(chunk))))
        (_insert_arrays if done else _insert_columns)(connection, mine, handed[mine], [coded, *values])
        done += len(chunk)
    combinations = ((number, *json.loads(str(listed))) for listed, number in numbers.items())
    insert_rows(connection, rest, handed[rest], combinations)
    return f"{mine} JOIN {rest} USING (combination)"


def fetched_arrays(cursor: duckdb.DuckDBPyConnection) -> dict[str, np.ndarray]:
    """Every row of a cursor as one array a column, masked where values are missing."""
    import numpy as np

    return {name: np.ma.asarray(values) for name, values in cursor.fetchnumpy().items()}


def _chunks(rows: Iterator[Row], size: int) -> Iterator[list[Row]]:
    while chunk := list(islice(rows, size)):
        yield chunk


def _insert_values(connection: duckdb.DuckDBPyConnection, table: str, columns: Columns, rows: Sequence[Row]) -> int:
    marks = f"({', '.join(f'?::{type_}' for _, type_ in columns)})"
    turned = zip(columns, zip(*rows, strict=True), strict=True)
    values = zip(*(_plain(given, type_) for (_, type_), given in turned), strict=True)
    statement = f"INSERT INTO {table} VALUES {', '.join([marks] * len(rows))}"  # noqa: S608 - our names
    connection.execute(statement, list(chain.from_iterable(values)))
    return len(rows)


def _insert_columns(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Columns, given: Sequence[tuple[object, ...]]
) -> None:
    count = len(given[0])
    said = {name: values for (name, _), values in zip(columns, given, strict=True) if values.count(None) < count}
    said = said or {columns[0][0]: (None,) * count}  # one column says how many rows there are
    values = {name: _plain(said[name], type_) for name, type_ in columns if name in said}
    structure = {name: [_json_type(type_)] for name, type_ in columns if name in said}
    selected = ", ".join(
        f"unnest(handed.{name})::{type_}" if name in said else f"NULL::{type_}" for name, type_ in columns
    )
    connection.execute(
        f"INSERT INTO {table} SELECT {selected} FROM (SELECT from_json($values, $structure) AS handed)",  # noqa: S608 - our names
        {"values": json.dumps(values), "structure": json.dumps(structure)},
    )


def _insert_arrays(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Columns, given: Sequence[tuple[object, ...]]
) -> None:
    import numpy as np

    arrays = {"row": np.zeros(len(given[0]), dtype=np.int8)}  # which says how many rows there are
    selected = []
    for (name, type_), values in zip(columns, given, strict=True):
        if values.count(None) == len(values):
            selected.append(f"NULL::{type_}")
        elif type_ not in _NUMERIC:
            arrays[name] = np.array(_plain(values, type_), dtype=object)
            selected.append(f"{name}::{type_}")
        elif None in values:  # masks of masked arrays are not read by every version of DuckDB, so they travel apart
            missing = f"{name}_is_missing"
            arrays[missing] = np.array([value is None for value in values])
            arrays[name] = np.array([0 if value is None else value for value in values], dtype=_NUMERIC[type_])
            selected.append(f"CASE WHEN {missing} THEN NULL ELSE {name} END")
        else:
            arrays[name] = np.array(values, dtype=_NUMERIC[type_])
            selected.append(name)
    _insert_handed(connection, table, arrays, selected)


def insert_arrays(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Columns, arrays: Mapping[str, np.ndarray | None]
) -> None:
    _insert_handed(connection, table, *handed_columns(columns, arrays))


def handed_columns(
    columns: Columns, arrays: Mapping[str, np.ndarray | None]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """Arrays as DuckDB reads them, and what to select of them; a number that is none is missing there."""
    import numpy as np

    handed: dict[str, np.ndarray] = {}
    selected = []
    for name, type_ in columns:
        values = arrays[name]
        if values is None:
            selected.append(f"NULL::{type_} AS {name}")
            continue
        missing = np.isnan(values)
        gaps = bool(missing.any())
        if _NUMERIC[type_] == "int64":
            values = np.rint(np.where(missing, 0.0, values) if gaps else values).astype(np.int64)
        handed[name] = values
        if gaps:
            handed[f"{name}_is_missing"] = missing
        selected.append(
            f"CASE WHEN {name}_is_missing THEN NULL ELSE {name}::{type_} END AS {name}"
            if gaps
            else f"{name}::{type_} AS {name}"
        )
    return handed, selected


def _insert_handed(
    connection: duckdb.DuckDBPyConnection, table: str, arrays: Mapping[str, np.ndarray], selected: Sequence[str]
) -> None:
    connection.register("handed_arrays", arrays)
    try:
        connection.execute(f"INSERT INTO {table} SELECT {', '.join(selected)} FROM handed_arrays")  # noqa: S608 - ours
    finally:
        connection.unregister("handed_arrays")


def _json_type(type_: str) -> str:
    return "VARCHAR" if type_ in {"TIMESTAMP", "DATE"} else type_


def _plain(values: Sequence[object], type_: str) -> Sequence[object]:
    """Give a driver's values the form JSON has for them; SQLite has no booleans and no times of its own."""
    if type_ == "BOOLEAN":
        return [None if value is None else bool(value) for value in values]
    if type_ in {"TIMESTAMP", "DATE"}:
        return [value if type(value) is str else _moment(value) for value in values]
    return values


def _moment(value: object) -> object:
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).strftime("%Y-%m-%d %H:%M:%S.%f")
    return value.isoformat() if isinstance(value, date) else value
