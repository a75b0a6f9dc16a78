"""Stores dated device prices and power, which answers join when they are asked; no probe ever holds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date

from sqlalchemy import select

from store.errors import InputError
from store.opening import Store
from store.records import PriceRecord
from store.schema.sql_tables import PRICE
from store.schema.tables import TABLES
from store.writing.statements import insert_or_update


def put_prices(store: Store, records: Sequence[PriceRecord]) -> None:
    """Store prices; one of the same device and date is corrected."""
    for record in records:
        _check(record)
    with store.writing() as connection:
        for record in records:
            row = TABLES["price"].row_of(record)
            key = ("device_name", "effective_from")
            insert_or_update(connection, PRICE, row, key=key, update=sorted(set(row) - set(key)))


def get_prices(store: Store) -> list[PriceRecord]:
    """Return every price by device and date."""
    query = select(PRICE).order_by(PRICE.c.device_name, PRICE.c.effective_from)
    with store.reading() as connection:
        return [PriceRecord(**row) for row in connection.execute(query).mappings()]


def _check(record: PriceRecord) -> None:
    try:
        date.fromisoformat(record.effective_from)
    except ValueError:
        raise InputError(
            f"The price of {record.device_name}: {record.effective_from!r} is no date.", hint="Write it as 2026-01-31."
        ) from None
    for name in ("usd_per_device_hour", "watts_per_device"):
        value = getattr(record, name)
        if value is not None and not (math.isfinite(value) and value >= 0):
            raise InputError(f"The price of {record.device_name}: {name} is {value}, not a number from 0 on.")
