"""Stores dated device prices and power, which answers join when they are asked; no probe ever holds them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import date

from sqlalchemy import select

from store.errors import InputError
from store.opening import Store
from store.records import PriceRecord
from store.schema import Price
from store.statements import insert_or_update


def put_prices(store: Store, records: Sequence[PriceRecord]) -> None:
    """Store prices; one of the same device and date is corrected."""
    for record in records:
        _check(record)
    with store.writing() as connection:
        for record in records:
            row = {name: getattr(record, name) for name in PriceRecord.__slots__}
            key = ("device_name", "effective_from")
            insert_or_update(connection, Price, row, key=key, update=sorted(set(row) - set(key)))


def get_prices(store: Store) -> list[PriceRecord]:
    """Return every price by device and date."""
    query = select(Price.__table__).order_by(Price.device_name, Price.effective_from)
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
