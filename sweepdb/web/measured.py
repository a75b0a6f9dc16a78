"""Measured points of a store beside what was predicted of them. Not here: comparing them (sweepdb.measuring)."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from queries.connect import StoreConnection
from store.location import StoreLocation
from sweepdb.web.documents import table_document


@cache
def _statement() -> str:
    return Path(__file__).with_name("measured.sql").read_text(encoding="utf-8")


def measured_document(location: StoreLocation) -> dict[str, object]:
    """Every comparison of a measured value with a prediction, with its SQL."""
    with StoreConnection(location) as connection:
        cursor = connection.execute(_statement())
        columns = [str(item[0]) for item in cursor.description or ()]
        return {**table_document(columns, cursor.fetchall()), "sql": _statement()}
