"""Named workloads, stored and found."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from sqlalchemy import Connection, RowMapping, func, select

from store.errors import InputError
from store.opening import Store
from store.records import WorkloadBinRecord, WorkloadRecord
from store.schema.sql_tables import SUBJECT, WORKLOAD, WORKLOAD_BIN, WORKLOAD_NAME
from store.writing.scenarios import Dimensions, put_workload_rows

_COLUMNS = tuple(item.name for item in fields(WorkloadRecord) if item.name not in {"name", "bins"})
_BIN_COLUMNS = tuple(item.name for item in fields(WorkloadBinRecord))


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedWorkload:
    """`bins` is 0 for fixed lengths; `subjects` counts references."""

    name: str | None
    key: str
    label: str
    input_length_mean: float
    output_length: float
    bins: int
    subjects: int


def put_workload(store: Store, record: WorkloadRecord) -> None:
    with store.writing() as connection:
        dimensions = Dimensions(store, connection)
        put_workload_rows(dimensions, connection, [record])
    dimensions.keep()


def get_workload(store: Store, name: str) -> WorkloadRecord:
    query = (
        select(WORKLOAD)
        .join(WORKLOAD_NAME, WORKLOAD_NAME.c.workload_id == WORKLOAD.c.id)
        .where(WORKLOAD_NAME.c.name == name)
    )
    with store.reading() as connection:
        row = connection.execute(query).mappings().first()
        if row is None:
            raise InputError(
                f"This store has no workload named {name!r}.",
                hint="`sweepdb workloads list` shows the names; `sweepdb workloads add` stores one.",
            )
        return replace(_record(connection, row), name=name)


def list_workloads(store: Store) -> list[NamedWorkload]:
    bins = select(func.count()).where(WORKLOAD_BIN.c.workload_id == WORKLOAD.c.id).scalar_subquery()
    subjects = select(func.count()).where(SUBJECT.c.workload_id == WORKLOAD.c.id).scalar_subquery()
    query = (
        select(
            WORKLOAD_NAME.c.name,
            WORKLOAD.c.key,
            WORKLOAD.c.label,
            WORKLOAD.c.input_length_mean,
            WORKLOAD.c.output_length,
            bins.label("bins"),
            subjects.label("subjects"),
        )
        .select_from(WORKLOAD)
        .outerjoin(WORKLOAD_NAME, WORKLOAD_NAME.c.workload_id == WORKLOAD.c.id)
        .order_by(WORKLOAD_NAME.c.name.is_(None), WORKLOAD_NAME.c.name, WORKLOAD.c.id)
    )
    with store.reading() as connection:
        return [NamedWorkload(**row) for row in connection.execute(query).mappings()]


def _record(connection: Connection, row: RowMapping) -> WorkloadRecord:
    query = select(WORKLOAD_BIN).where(WORKLOAD_BIN.c.workload_id == row["id"]).order_by(WORKLOAD_BIN.c.bin_index)
    bins = tuple(
        WorkloadBinRecord(**{name: item[name] for name in _BIN_COLUMNS})
        for item in connection.execute(query).mappings()
    )
    return WorkloadRecord(**{name: row[name] for name in _COLUMNS}, name=row["name"], bins=bins)
