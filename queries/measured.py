"""Measured points beside predictions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from queries.connect import StoreConnection
from store.location import StoreLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoints:
    """Comparisons, and the statement that found them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    sql: str


def measured_points(location: StoreLocation) -> MeasuredPoints:
    with StoreConnection(location) as connection:
        cursor = connection.execute(_statement())
        columns = tuple(str(item[0]) for item in cursor.description or ())
        return MeasuredPoints(columns=columns, rows=tuple(cursor.fetchall()), sql=_statement())


@cache
def _statement() -> str:
    return Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")
