"""Moves arrays of blocks into the database with the driver itself: executemany on SQLite, binary COPY on PostgreSQL.

Binary COPY is made by numpy, since Python rows cost four times as much
(https://www.postgresql.org/docs/current/sql-copy.html): each row has its number of fields (int16), each field its
length (int32, -1 for NULL) and value, big-endian."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection

from store.digests import as_floats
from store.errors import InputError, StoreError
from store.light_dataclass import dataclass
from store.records import BlockRecord
from store.schema.declaring import DOUBLE, LONG, Column, Kind, Table
from store.schema.tables import MEASURES, TABLES

HEADER = b"PGCOPY\n\xff\r\n\0" + bytes(8)
TRAILER = b"\xff\xff"
_VALUES: dict[Kind, str] = {"key": ">i8", "integer": ">i4", "long": ">i8", "double": ">f8"}
_NULL = -1


def packed(columns: Sequence[Column], arrays: Sequence[np.ndarray | None]) -> Iterator[bytes]:
    """Without header and trailer; None, masked or NaN is NULL.

    Rows with the same gaps go together, so order is lost."""
    count = next(len(values) for values in arrays if values is not None)
    missing = np.stack([_missing(values, count) for values in arrays], axis=1)
    for chosen in _alike(missing):
        yield _records(columns, arrays, chosen, missing[chosen[0]]).tobytes()


def _alike(missing: np.ndarray) -> list[np.ndarray]:
    if (missing == missing[:1]).all():
        return [np.arange(len(missing))]
    patterns, groups = np.unique(np.packbits(missing, axis=1), axis=0, return_inverse=True)
    return [np.flatnonzero(groups.reshape(-1) == group) for group in range(len(patterns))]


def _missing(values: np.ndarray | None, count: int) -> np.ndarray:
    if values is None:
        return np.ones(count, dtype=bool)
    gaps: np.ndarray = np.ma.getmaskarray(values) if np.ma.isMaskedArray(values) else np.zeros(count, dtype=bool)
    return gaps | np.isnan(np.ma.getdata(values)) if values.dtype.kind == "f" else gaps


def _records(
    columns: Sequence[Column], arrays: Sequence[np.ndarray | None], chosen: np.ndarray, missing: np.ndarray
) -> np.ndarray:
    there: dict[int, np.ndarray] = {}
    fields: list[tuple[str, str]] = [("fields", ">i2")]
    for at, (column, values) in enumerate(zip(columns, arrays, strict=True)):
        fields.append((f"length{at}", ">i4"))
        if values is not None and not missing[at]:
            there[at] = _of_kind(column, np.ma.getdata(values)[chosen])
            fields.append((f"value{at}", _VALUES[column.type.kind]))
    rows = np.empty(len(chosen), dtype=fields)
    rows["fields"] = len(columns)
    for at in range(len(columns)):
        rows[f"length{at}"] = there[at].dtype.itemsize if at in there else _NULL
    for at, found in there.items():
        rows[f"value{at}"] = found
    return rows


def _of_kind(column: Column, values: np.ndarray) -> np.ndarray:
    """numpy itself would wrap what is out of range."""
    kind = np.dtype(_VALUES[column.type.kind])
    if kind.kind == "f":
        return values.astype(kind)
    whole = np.rint(values) if values.dtype.kind == "f" else values
    limit = 2 ** (8 * kind.itemsize - 1)
    if len(whole) and not (-limit <= whole.min() and whole.max() < limit):
        raise OverflowError(f"a value of {column.name} is out of range")
    return whole.astype(kind)


_UNIQUE_VIOLATION = "23505"  # an SQLSTATE of PostgreSQL
_MOST_PARAMETERS = 999  # of a statement, in a SQLite of before 3.32
_LARGEST_EXACT = 2.0**53  # whole numbers up to this are floats without a loss


def check_block(record: BlockRecord) -> tuple[int, int]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRows:
    """The parts of a block that a scenario has no rows of yet."""

    scenario_id: int
    record: BlockRecord
    intervals: Sequence[tuple[int, int]]


_Arrays = dict[str, np.ndarray | None]  # of one table, by the names of its columns


def insert_block_arrays(connection: Connection, parts: Sequence[MissingRows]) -> None:
    """Insert probes and compositions. There is no conflict: the caller holds the lock under which they were missing."""
    composed = [part for part in parts if part.record.composition is not None]
    insert = _insert_rows if connection.dialect.name == "sqlite" else _copy
    insert(connection, TABLES["probe"], [_probes(part) for part in parts])
    insert(connection, TABLES["composition"], [_composition(part) for part in composed])


def _probes(part: MissingRows) -> _Arrays:
    sizes = np.asarray(part.record.batch_sizes)
    whole = (int(sizes[0]), int(sizes[-1])) == part.intervals[0]
    rows = slice(None) if whole else _within(sizes, part.intervals)
    measured = {name: values[rows] for name, values in part.record.columns.items() if values is not None}
    return {**_keys(part, sizes[rows]), **measured}


def _composition(part: MissingRows) -> _Arrays:
    batches, bins, samples = (np.asarray(item) for item in part.record.composition or ())
    chosen = (samples > 0) & _within(batches, part.intervals)
    return {**_keys(part, batches[chosen]), "bin_index": bins[chosen], "samples": samples[chosen]}


def _keys(part: MissingRows, sizes: np.ndarray) -> _Arrays:
    return {"scenario_id": np.full(len(sizes), part.scenario_id), "batch_size": sizes}


def _within(sizes: np.ndarray, intervals: Sequence[tuple[int, int]]) -> np.ndarray:
    marks: np.ndarray = np.logical_or.reduce([(sizes >= first) & (sizes <= last) for first, last in intervals])
    return marks


def _insert_rows(connection: Connection, table: Table, parts: Sequence[_Arrays]) -> None:
    cursor = connection.connection.cursor()
    try:
        for arrays in parts:
            there = [(column, values) for column in table.columns if (values := arrays.get(column.name)) is not None]
            statement = f"INSERT INTO {table.name} ({', '.join(column.name for column, _ in there)}) VALUES "  # noqa: S608 - our own names
            marks = f"({', '.join('?' * len(there))})"
            if (numbers := _as_numbers(there)) is None:
                rows: Any = zip(*(_listed(column, values) for column, values in there), strict=True)  # iterable enough
                cursor.executemany(f"{statement}{marks}", rows)
                continue
            # By the dozen: the driver lets other threads run after each statement, which costs as much as a row.
            at_once = max(1, _MOST_PARAMETERS // len(there))
            even = len(numbers) - len(numbers) % at_once
            if even:
                runs = numbers[:even].reshape(-1, at_once * len(there)).tolist()
                cursor.executemany(f"{statement}{', '.join([marks] * at_once)}", runs)
            cursor.executemany(f"{statement}{marks}", numbers[even:].tolist())
    finally:
        cursor.close()


def _as_numbers(columns: Sequence[tuple[Column, np.ndarray]]) -> np.ndarray | None:
    """Rows as float64, NaN where a value is missing; None where a whole number is too large to be one.

    SQLite keeps NaN as NULL, and in a column of whole numbers a float that is whole as the whole number."""
    table = np.empty((len(columns[0][1]), len(columns)))
    for number, (column, values) in enumerate(columns):
        found = table[:, number]
        if values.dtype.kind in "iu" and not hasattr(values, "mask"):
            if len(values) and max(int(values.max()), -int(values.min())) > _LARGEST_EXACT:
                return None
            found[:] = values
            continue
        found[:] = as_floats(values)
        if column.type is not DOUBLE:
            np.rint(found, out=found)
            if len(found) and np.nanmax(np.abs(found), initial=0.0) > _LARGEST_EXACT:
                return None
    return table


def _listed(column: Column, values: np.ndarray) -> list[Any]:
    listed: list[Any] = values.tolist()  # a masked array lists None for what is masked
    if values.dtype.kind != "f":
        return listed
    if column.type is LONG:
        return [None if value is None or math.isnan(value) else round(value) for value in listed]
    if np.isnan(values).any():
        return [None if value is None or math.isnan(value) else value for value in listed]
    return listed


def _copy(connection: Connection, table: Table, parts: Sequence[_Arrays]) -> None:
    if not parts:
        return
    names = ", ".join(column.name for column in table.columns)
    cursor: Any = connection.connection.cursor()  # the driver is optional
    try:
        with cursor.copy(f"COPY {table.name} ({names}) FROM STDIN (FORMAT binary)") as copy:
            copy.write(HEADER)
            for arrays in parts:
                for rows in packed(table.columns, [arrays.get(column.name) for column in table.columns]):
                    copy.write(rows)
            copy.write(TRAILER)
    except Exception as error:
        if getattr(error, "sqlstate", None) != _UNIQUE_VIOLATION:
            raise
        raise StoreError(
            f"Some rows of {table.name} were there although no block holds them: run `sweepdb db check`."
        ) from error
    finally:
        cursor.close()
