"""Moves a block's arrays into the database with the driver itself: executemany on SQLite, COPY on PostgreSQL.

Not here: which part of a block is new (store.writing). The SQLAlchemy layer would cost four times the time here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
from sqlalchemy import Connection

from store.errors import InputError, StoreError
from store.records import BlockRecord
from store.schema.declaring import LONG, Column
from store.schema.measures import MEASURES


def check_block(record: BlockRecord) -> tuple[int, int]:
    """Return the batch interval of a block after checking that its arrays fit together."""
    sizes = np.asarray(record.batch_sizes)
    if (
        sizes.ndim != 1
        or len(sizes) == 0
        or sizes[0] < 1
        or not np.array_equal(np.diff(sizes), np.ones(len(sizes) - 1))
    ):
        raise InputError("A block needs at least one batch size, from 1 on, each the one before plus one.")
    unknown = set(record.columns) - {column.name for column in MEASURES}
    if unknown:
        raise InputError(f"A block has columns that are not stored: {', '.join(sorted(unknown))}.")
    for column in MEASURES:
        _check_column(column, record.columns.get(column.name), len(sizes))
    if record.composition is not None:
        _check_composition(sizes, *record.composition)
    return int(sizes[0]), int(sizes[-1])


def _check_column(column: Column, values: np.ndarray | None, length: int) -> None:
    if values is None:
        if not column.nullable:
            raise InputError(f"A block lacks the column {column.name}, which is never missing.")
        return
    if values.shape != (length,):
        raise InputError(f"The column {column.name} has shape {values.shape} in a block of {length} batch sizes.")
    if values.dtype.kind != "f":
        return
    if np.isinf(values).any():
        raise InputError(f"The column {column.name} of a block holds an infinite number.")
    if not column.nullable and np.isnan(values).any():
        raise InputError(f"The column {column.name} of a block has gaps; it is never missing.")


def _check_composition(sizes: np.ndarray, batch: np.ndarray, bins: np.ndarray, samples: np.ndarray) -> None:
    totals = np.bincount(batch, weights=samples, minlength=sizes[-1] + 1)[sizes[0] :]
    wrong = np.flatnonzero(totals[: len(sizes)] != sizes)
    if len(wrong) or len(totals) > len(sizes) or (batch < sizes[0]).any():
        at = int(sizes[0]) + (int(wrong[0]) if len(wrong) else len(sizes))
        raise InputError(f"The composition of a block does not add up to its batches: see batch size {at}.")
    if len(np.unique(np.stack([batch, bins]), axis=1).T) != len(batch):
        raise InputError("The composition of a block names a bin of a batch twice.")


def insert_block_arrays(
    connection: Connection, scenario_id: int, record: BlockRecord, intervals: Sequence[tuple[int, int]]
) -> None:
    """Insert the probes and compositions of a block that lie within intervals of batch sizes."""
    sizes = np.asarray(record.batch_sizes)
    whole = (int(sizes[0]), int(sizes[-1])) == intervals[0]
    rows = slice(None) if whole else _within(sizes, intervals)
    columns = [column for column in MEASURES if record.columns.get(column.name) is not None]
    names = ["scenario_id", "batch_size", *(column.name for column in columns)]
    values = [sizes[rows].tolist(), *(_values(column, record, rows) for column in columns)]
    _insert(connection, "probe", names, values, scenario_id)
    if record.composition is not None:
        batches, bins, samples = (np.asarray(part) for part in record.composition)
        chosen = (samples > 0) & _within(batches, intervals)
        names = ["scenario_id", "batch_size", "bin_index", "samples"]
        _insert(
            connection, "composition", names, [part[chosen].tolist() for part in (batches, bins, samples)], scenario_id
        )


def _within(sizes: np.ndarray, intervals: Sequence[tuple[int, int]]) -> np.ndarray:
    """Mark the batch sizes that lie within an interval."""
    marks: np.ndarray = np.logical_or.reduce([(sizes >= first) & (sizes <= last) for first, last in intervals])
    return marks


def _values(column: Column, record: BlockRecord, rows: slice | np.ndarray) -> list[Any]:
    """Return a column as Python values, None where it is missing."""
    values = record.columns[column.name]
    if values is None:  # the caller chose columns that are there
        return []
    part = values[rows]
    listed: list[Any] = part.tolist()  # a masked array lists None for what is masked
    if part.dtype.kind != "f":
        return listed
    if column.type is LONG:
        return [None if value is None or math.isnan(value) else round(value) for value in listed]
    if np.isnan(part).any():
        return [None if value is None or math.isnan(value) else value for value in listed]
    return listed


def _insert(connection: Connection, table: str, names: list[str], values: list[list[Any]], scenario_id: int) -> None:
    """Insert columns of values. There is no conflict: the caller holds the lock under which it found them missing."""
    count = len(values[0])
    rows: Any = zip(repeat(scenario_id, count), *values, strict=True)  # the driver takes any iterable
    listed = ", ".join(names)
    cursor = connection.connection.cursor()
    try:
        if connection.dialect.name == "sqlite":
            marks = ", ".join("?" * len(names))
            cursor.executemany(f"INSERT INTO {table} ({listed}) VALUES ({marks})", rows)  # noqa: S608 - our own names
        elif _copy(cursor, table, listed, rows) != count:
            raise StoreError(f"Some rows of {table} were there although no block holds them: run `sweepdb db check`.")
    finally:
        cursor.close()


def _copy(cursor: Any, table: str, names: str, rows: Iterable[tuple[Any, ...]]) -> int:  # noqa: ANN401 - optional driver
    staging = f"{table}_staging"
    # One COPY a transaction and table; at its end the server empties the staging table.
    cursor.execute(f"CREATE TEMP TABLE IF NOT EXISTS {staging} (LIKE {table}) ON COMMIT DELETE ROWS")
    with cursor.copy(f"COPY {staging} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    cursor.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM {staging} ON CONFLICT DO NOTHING")  # noqa: S608
    return int(cursor.rowcount)
