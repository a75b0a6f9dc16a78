"""Stores measured points, and the predictions they were compared with.

Not here: reading files of measurements and matching them (cli.flows)."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, select, update

from store.errors import InputError
from store.opening import Store
from store.records import MeasurementRecord, SideRecord, ValidationRecord
from store.schema import Measurement, Scenario, Validation
from store.statements import as_utc, chunks, insert_missing, insert_or_update, utc_now

_SIDES = ("prefill", "decode")
_SAME_NAME = (
    "key", "source", "source_format", "model", "device", "engine", "engine_version", "mode", "precision",
    "kv_precision", "num_devices", "input_length", "output_length", "concurrency", "request_rate", "extra",
)  # fmt: skip


def put_measurements(store: Store, records: Sequence[MeasurementRecord]) -> int:
    """Store measured points and return how many were new; importing a file twice adds nothing.

    What is kept beside the columns is what the reader of today makes of the file."""
    rows = {record.key: _row(record) for record in records}
    with store.writing() as connection:
        known: dict[str, str] = {}
        for chunk in chunks(rows):
            stored = select(Measurement.key, Measurement.extra).where(Measurement.key.in_(chunk))
            known |= {row.key: row.extra for row in connection.execute(stored)}
        for part in chunks(sorted(rows.keys() - known.keys()), 50):
            insert_missing(connection, Measurement, [rows[key] for key in part])
        for key in sorted(key for key, extra in known.items() if extra != rows[key]["extra"]):
            connection.execute(update(Measurement).where(Measurement.key == key).values(extra=rows[key]["extra"]))
    return len(rows.keys() - known.keys())


def get_measurements(
    store: Store, *, model: str | None = None, device: str | None = None, source_format: str | None = None
) -> list[MeasurementRecord]:
    """Return measured points in the order of their import, those of a model, device or format when given."""
    query = select(Measurement.__table__).order_by(Measurement.id)
    for column, value in (
        (Measurement.model, model),
        (Measurement.device, device),
        (Measurement.source_format, source_format),
    ):
        if value is not None:
            query = query.where(column == value)
    with store.reading() as connection:
        return [_record(row) for row in connection.execute(query).mappings()]


def put_validations(store: Store, records: Sequence[ValidationRecord]) -> None:
    """Store comparisons; one of the same point, metric and scenario is replaced, since it is derived data.

    All have one time, so that the newest comparison of a point can be told as a whole."""
    now = utc_now()
    with store.writing() as connection:
        measurements = _ids(connection, Measurement, {record.measurement_key for record in records})
        scenarios = _ids(connection, Scenario, {record.scenario_key for record in records})
        for record in records:
            row = {
                "measurement_id": measurements[record.measurement_key],
                "metric": record.metric,
                "scenario_id": scenarios[record.scenario_key],
                "batch_size": record.batch_size,
                "measured": record.measured,
                "predicted": record.predicted,
                "signed_error": record.signed_error,
                "region": record.region,
                "knowledge": record.knowledge,
                "created_at": now,
            }
            key = ("measurement_id", "metric", "scenario_id")
            insert_or_update(connection, Validation, row, key=key, update=sorted(set(row) - set(key)))


def forget_validations(store: Store, measurement_keys: Collection[str]) -> None:
    """Remove the comparisons of measured points that are compared no longer, since a rule takes them out."""
    with store.writing() as connection:
        for chunk in chunks(sorted(measurement_keys)):
            ids = select(Measurement.id).where(Measurement.key.in_(chunk))
            connection.execute(delete(Validation).where(Validation.measurement_id.in_(ids)))


def _ids(connection: Connection, model: type[Measurement | Scenario], keys: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for chunk in chunks(sorted(keys)):
        found.update(
            {row.key: row.id for row in connection.execute(select(model.key, model.id).where(model.key.in_(chunk)))}
        )
    if missing := keys - set(found):
        raise InputError(f"There is no {model.__tablename__} {min(missing)[:12]} in this store.")
    return found


def _row(record: MeasurementRecord) -> dict[str, Any]:
    row: dict[str, Any] = {name: getattr(record, name) for name in _SAME_NAME}
    row["metrics"] = json.dumps(dict(record.metrics), sort_keys=True)
    row["definitions"] = json.dumps(dict(record.definitions), sort_keys=True)
    row["measured_at"] = None if record.measured_at is None else as_utc(record.measured_at)
    row["imported_at"] = utc_now()
    for side in _SIDES:
        values = getattr(record, side)
        row.update({f"{side}_{name}": getattr(values, name) for name in SideRecord.__slots__})
    return row


def _record(row: RowMapping) -> MeasurementRecord:
    prefill, decode = (SideRecord(**{name: row[f"{side}_{name}"] for name in SideRecord.__slots__}) for side in _SIDES)
    return MeasurementRecord(
        **{name: row[name] for name in _SAME_NAME},
        prefill=prefill,
        decode=decode,
        metrics=json.loads(row["metrics"]),
        definitions=json.loads(row["definitions"]),
        measured_at=None if row["measured_at"] is None else as_utc(row["measured_at"]),
    )
