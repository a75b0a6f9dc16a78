"""Stores fitted device profiles with the kernels they were fitted on.

Not here: fitting (evaluator.calibration)."""

from __future__ import annotations

from sqlalchemy import func, insert, select

from store.opening import Store
from store.records import CalibrationRecord
from store.schema import Calibration
from store.statements import utc_now

_COLUMNS = (
    Calibration.key, Calibration.device_name, Calibration.version, Calibration.spec, Calibration.errors,
    Calibration.kernels, Calibration.source,
)  # fmt: skip


def put_calibration(store: Store, record: CalibrationRecord) -> int:
    """Store a calibration and return its version: its device's next, or the one it is already stored under."""
    with store.writing() as connection:
        stored = connection.scalar(select(Calibration.version).where(Calibration.key == record.key))
        if stored is not None:
            return int(stored)
        newest = connection.scalar(
            select(func.max(Calibration.version)).where(Calibration.device_name == record.device_name)
        )
        version = 1 if newest is None else int(newest) + 1
        row = {
            "key": record.key,
            "device_name": record.device_name,
            "version": version,
            "spec": record.spec,
            "errors": record.errors,
            "kernels": record.kernels,
            "source": record.source,
            "created_at": utc_now(),
        }
        connection.execute(insert(Calibration).values(row))
    return version


def list_calibrations(store: Store) -> list[CalibrationRecord]:
    """Return every calibration by device and version, without the kernel tables."""
    light = [column for column in _COLUMNS if column is not Calibration.kernels]
    query = select(*light).order_by(Calibration.device_name, Calibration.version)
    with store.reading() as connection:
        return [CalibrationRecord(**row) for row in connection.execute(query).mappings()]
