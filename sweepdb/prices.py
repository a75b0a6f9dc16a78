"""Dated prices and power of devices; questions join them."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from sqlalchemy import select

from evaluator.inputs import resolve, shortened
from store.errors import InputError
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import Store, open_store
from store.records import PriceRecord
from store.schema import DEVICE
from store.texts import from_text
from store.writing import get_prices, put_prices

COLUMNS = ("device", "effective_from", "usd_per_device_hour", "watts_per_device", "source")


def listed_prices(store_url: str | None) -> list[list[object]]:
    with open_store(store_url, read_only=True) as store:
        return [
            [item.device_name, item.effective_from, item.usd_per_device_hour, item.watts_per_device, item.source]
            for item in get_prices(store)
        ]


def check_priced(devices: Collection[str], store_url: str | None) -> None:
    """Refuse a ranking by cost of devices without any price."""
    listed = [] if parse_url(store_url).is_to_be_made else listed_prices(store_url)
    if not {device for device, _, usd, *_ in listed if usd is not None} & set(devices):
        raise InputError(
            f"`rank_by=cost` needs a price, and none of {' or '.join(devices)} is stored",
            hint=f"type the USD an hour first: sweepdb prices set {' '.join(f'{device} USD' for device in devices)}",
        )


def enter(records: list[PriceRecord], store_url: str | None) -> list[PriceRecord]:
    create_if_missing(parse_url(store_url))
    with open_store(store_url) as store:
        named = [_named(record, store) for record in records]
        put_prices(store, named)
    return named


def _named(record: PriceRecord, store: Store) -> PriceRecord:
    """Under the profile's own name, or one that rows are of."""
    if record.usd_per_device_hour is None and record.watts_per_device is None:
        raise InputError(f"the price of {record.device_name} has neither dollars an hour nor watts")
    with store.reading() as connection:
        is_stored = (
            connection.scalar(select(DEVICE.c.id).where(DEVICE.c.name == record.device_name).limit(1)) is not None
        )
    name = record.device_name if is_stored else resolve(record.device_name)
    return PriceRecord(
        device_name=name,
        effective_from=record.effective_from,
        usd_per_device_hour=record.usd_per_device_hour,
        watts_per_device=record.watts_per_device,
        source=record.source,
    )


def read_prices(path: Path) -> list[PriceRecord]:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            return list(_records(csv.DictReader(file), path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a CSV file: {error}") from error


def _records(rows: csv.DictReader[str], path: Path) -> Iterator[PriceRecord]:
    missing = [name for name in COLUMNS[:2] if name not in (rows.fieldnames or ())]
    unknown = [name for name in rows.fieldnames or () if name not in COLUMNS]
    if missing or unknown:
        what = f"{', '.join(missing)} missing" if missing else f"unknown column {shortened(unknown[0])}"
        raise InputError(f"{path}: {what}", hint=f"columns: {', '.join(COLUMNS)}")
    for line in rows:
        row = {name: cell if cell is None else from_text(cell) for name, cell in line.items()}
        where = f"{path}, line {rows.line_num}"
        yield PriceRecord(
            device_name=row["device"] or "",
            effective_from=row["effective_from"] or "",
            usd_per_device_hour=_number(row, "usd_per_device_hour", where),
            watts_per_device=_number(row, "watts_per_device", where),
            source=row.get("source") or "",
        )


def _number(row: Mapping[str, str | None], name: str, where: str) -> float | None:
    text = row.get(name)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where}: {name} must be a number, not {shortened(text)}") from None
