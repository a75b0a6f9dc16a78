"""Captured operators, fitted profiles and dated prices, written and read.

Operators stay as evaluated; prices are joined when asked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import date

from sqlalchemy import func, insert, select

from store.errors import InputError
from store.opening import Store
from store.records import CalibrationRecord, OperatorSetRecord, PriceRecord
from store.schema.sql_tables import CALIBRATION, OPERATOR_SET, PRICE
from store.schema.tables import TABLES
from store.writing.statements import chunks, insert_missing, insert_or_update, utc_now

_LIGHT = [CALIBRATION.c[name] for name in CalibrationRecord.__slots__ if name != "kernels"]


def get_operators(store: Store, keys: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    with store.reading() as connection:
        for chunk in chunks(dict.fromkeys(keys)):
            query = select(OPERATOR_SET.c.key, OPERATOR_SET.c.payload).where(OPERATOR_SET.c.key.in_(chunk))
            found.update({row.key: row.payload for row in connection.execute(query)})
    return found


def put_operators(store: Store, records: Sequence[OperatorSetRecord]) -> None:
    rows = [
        TABLES["operator_set"].row_of(record, created_at=utc_now())
        for record in sorted(records, key=lambda record: record.key)
    ]
    if rows:
        with store.writing() as connection:
            insert_missing(connection, OPERATOR_SET, rows)


def put_calibration(store: Store, record: CalibrationRecord) -> int:
    """Returns its version: the device's next, or the stored one."""
    with store.writing() as connection:
        stored = connection.scalar(select(CALIBRATION.c.version).where(CALIBRATION.c.key == record.key))
        if stored is not None:
            return int(stored)
        newest = connection.scalar(
            select(func.max(CALIBRATION.c.version)).where(CALIBRATION.c.device_name == record.device_name)
        )
        version = 1 if newest is None else int(newest) + 1
        row = TABLES["calibration"].row_of(record, version=version, created_at=utc_now())
        connection.execute(insert(CALIBRATION).values(row))
    return version


def list_calibrations(store: Store) -> list[CalibrationRecord]:
    query = select(*_LIGHT).order_by(CALIBRATION.c.device_name, CALIBRATION.c.version)
    with store.reading() as connection:
        return [CalibrationRecord(**row) for row in connection.execute(query).mappings()]


def put_prices(store: Store, records: Sequence[PriceRecord]) -> None:
    """The same device and date is corrected."""
    for record in records:
        _check(record)
    with store.writing() as connection:
        for record in records:
            row = TABLES["price"].row_of(record)
            key = ("device_name", "effective_from")
            insert_or_update(connection, PRICE, row, key=key, update=sorted(set(row) - set(key)))


def get_prices(store: Store) -> list[PriceRecord]:
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
