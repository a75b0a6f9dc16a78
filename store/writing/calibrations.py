"""Stores fitted device profiles with the kernels they were fitted on.

Not here: fitting (evaluator.calibration)."""

from __future__ import annotations

from sqlalchemy import func, insert, select

from store.opening import Store
from store.records import CalibrationRecord
from store.schema.sql_tables import CALIBRATION
from store.schema.tables import TABLES
from store.writing.statements import utc_now

_LIGHT = [CALIBRATION.c[name] for name in CalibrationRecord.__slots__ if name != "kernels"]


def put_calibration(store: Store, record: CalibrationRecord) -> int:
    """Store a calibration and return its version: its device's next, or the one it is already stored under."""
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
    """Return every calibration by device and version, without the kernel tables."""
    query = select(*_LIGHT).order_by(CALIBRATION.c.device_name, CALIBRATION.c.version)
    with store.reading() as connection:
        return [CalibrationRecord(**row) for row in connection.execute(query).mappings()]
