"""Columns for PostgreSQL's binary COPY, by numpy: Python rows cost four times as much.

https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format": each row has its number of fields (int16), each
field its length (int32, -1 for NULL) and value, big-endian."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from store.schema.declaring import Column, Kind

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
