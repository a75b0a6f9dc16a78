"""Keeps captured operators by content key, so that torch is needed once.

Not here: what the payload means (evaluator)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import select

from store.opening import Store
from store.records import OperatorSetRecord
from store.schema.sql_tables import OPERATOR_SET
from store.schema.tables import TABLES
from store.writing.statements import chunks, insert_missing, utc_now


def get_operators(store: Store, keys: Iterable[str]) -> dict[str, str]:
    """Return the payloads that are stored, by key; a key that is not stored is left out."""
    found: dict[str, str] = {}
    with store.reading() as connection:
        for chunk in chunks(dict.fromkeys(keys)):
            query = select(OPERATOR_SET.c.key, OPERATOR_SET.c.payload).where(OPERATOR_SET.c.key.in_(chunk))
            found.update({row.key: row.payload for row in connection.execute(query)})
    return found


def put_operators(store: Store, records: Sequence[OperatorSetRecord]) -> None:
    """Store captured operators; those already stored are left as they are."""
    rows = [
        TABLES["operator_set"].row_of(record, created_at=utc_now())
        for record in sorted(records, key=lambda record: record.key)
    ]
    if rows:
        with store.writing() as connection:
            insert_missing(connection, OPERATOR_SET, rows)
