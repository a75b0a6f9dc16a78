"""Distributions of loads: stored bytes to numpy to DuckDB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from store.loads.measured_requests import KEPT_COLUMNS, unpack_kept
from store.loads.packed_rows import unpack_cells, unpack_rows, whole_counts
from store.schema import TABLES

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    from numpy.typing import NDArray

PAYLOADS = {"load_cell": "cells", "load_token": "gaps", "load_request": "requests"}  # table, and its column of bytes
DISTRIBUTIONS = {  # columns of the rows that these bytes hold, with their types
    name: [("load_id", "BIGINT"), *((column.name, column.type.read_as) for column in TABLES[name].unpacked)]
    for name in PAYLOADS
}
PART_ROWS = ("load_id", "metric", "part", "requests")  # as `load_cell` has them; `load_uneven` is made of them
_TOKEN_PARTS = 5
_LOADS_TOGETHER = {"load_cell": 2_000, "load_uneven": 2_000, "load_token": 2_000, "load_request": 50}


def insert_distributions(
    connection: duckdb.DuckDBPyConnection, table: str, name: str, rows: Iterable[Sequence[object]]
) -> int:
    iterator, count = iter(rows), 0
    columns = PART_ROWS if name == "load_uneven" else [column for column, _ in DISTRIBUTIONS[name]]
    while some := list(islice(iterator, _LOADS_TOGETHER[name])):
        arrays = dict(zip(columns, _unpacked(name, iter(some)), strict=True))
        connection.register("handed_loads", arrays)
        try:
            connection.execute(f"INSERT INTO {table} SELECT {', '.join(arrays)} FROM handed_loads")  # noqa: S608 - ours
        finally:
            connection.unregister("handed_loads")
        count += arrays["load_id"].size
    return count


def _unpacked(name: str, rows: Iterator[Sequence[object]]) -> list[NDArray[np.int64]]:
    import numpy as np

    found, ids = [], []
    for load_id, payload in rows:
        packed = bytes(payload)  # type: ignore[call-overload]
        if name == "load_request":
            kept = unpack_kept(packed)
            numbers = np.arange(kept.ttft_us.size)
            found.append(np.column_stack((numbers, *(getattr(kept, column) for column in KEPT_COLUMNS))))
        elif name == "load_cell":
            found.append(unpack_cells(packed)[0])
        elif name == "load_uneven":
            found.append(unpack_cells(packed)[1])
        else:
            found.append(whole_counts(unpack_rows(packed, _TOKEN_PARTS)))
        ids.append(np.full(found[-1].shape[0], load_id, dtype=np.int64))
    whole = np.concatenate(found)
    return [np.concatenate(ids), *(np.ascontiguousarray(column) for column in whole.T)]
