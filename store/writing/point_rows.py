"""Points as rows, many at once, and back."""

from __future__ import annotations

import json
import operator
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, RowMapping, func, select

from store.records import MeasurementRecord, RunRecord, SideRecord
from store.schema.sql_tables import MEASUREMENT, METADATA
from store.schema.tables import TABLES
from store.writing.point_facts import IN_RECORDS, SIDES, Facts, drop_unused, facts_of, insert_facts
from store.writing.point_table import PointTable
from store.writing.statements import as_utc, insert_columns, utc_now

_WRITTEN = json.JSONEncoder(sort_keys=True).encode
_TABLE = TABLES["measurement"]
_CHECKED = ("key", "source", "read_as")
_VALUES_OF = {name: operator.attrgetter(IN_RECORDS[name]) for name in _TABLE.names if name in IN_RECORDS}
_OF_SETTINGS = tuple((name, value_of) for name, value_of in _VALUES_OF.items() if name not in {*_CHECKED, "extra"})
_PLACES = (_TABLE.place_of(column).split(".") for column in _TABLE.read_as)
SELECT_POINTS = select(*(METADATA.tables[table].c[name] for table, name in _PLACES)).select_from(
    MEASUREMENT.join(METADATA.tables[str(_TABLE.shares)])
)
_AT_ONCE = 20_000

Columns = dict[str, Sequence[Any]]


def insert_points(connection: Connection, records: Sequence[MeasurementRecord], places: Sequence[int]) -> None:
    settings, known = _settings(records, places)
    stored = insert_facts(connection, dict.fromkeys(known.values()), utc_now())
    numbers = {setting: stored[facts] for setting, facts in known.items()}
    with _indexed_after(connection, len(places)):
        for start in range(0, len(places), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            facts_id = list(map(numbers.__getitem__, settings[some]))
            insert_columns(connection, MEASUREMENT, {**_columns_at(records, places[some]), "facts_id": facts_id})
    if connection.dialect.name != "sqlite":  # another may have been faster with the same points
        drop_unused(connection, stored.values())


def _settings(
    records: Sequence[MeasurementRecord], places: Sequence[int]
) -> tuple[Sequence[Hashable], Mapping[Hashable, Facts]]:
    """Of each point, and what is shared by those of a setting."""
    if isinstance(records, PointTable):
        settings = list(map(records.setting.__getitem__, places))
        return settings, {setting: facts_of(records.shared[setting]) for setting in {*settings}}
    found = [facts_of(records[place]) for place in places]
    return found, {facts: facts for facts in found}


@contextmanager
def _indexed_after(connection: Connection, count: int) -> Iterator[None]:
    """Sorting indexes once after a large insert takes half the time."""
    large = connection.dialect.name == "sqlite" and count > _AT_ONCE
    stored = connection.execute(select(func.max(MEASUREMENT.c.id))).scalar() or 0 if large else count
    indexes = sorted(MEASUREMENT.indexes, key=lambda index: str(index.name)) if count > stored else []
    for index in indexes:
        index.drop(connection)
    yield
    for index in indexes:
        index.create(connection)


def _columns_at(records: Sequence[MeasurementRecord], places: Sequence[int]) -> Columns:
    if not isinstance(records, PointTable):
        return cells_of([records[place] for place in places])

    def chosen(column: Sequence[Any]) -> list[Any]:
        return list(map(column.__getitem__, places))

    _TABLE.check("source", records.name)
    settings = chosen(records.setting)
    shared = {setting: records.shared[setting] for setting in {*settings}}
    told = {name: dict(zip(shared, map(value_of, shared.values()), strict=True)) for name, value_of in _OF_SETTINGS}
    return {
        **{
            name: list(map(values.__getitem__, settings))
            for name, values in told.items()
            if {*values.values()} != {None}
        },
        "key": chosen(records.keys),
        "source": records.sources(places),
        "metrics": chosen(records.metrics),
        "extra": chosen(records.extra),
        "measured_at": chosen(records.measured_at),
    }


def cells_of(records: Sequence[MeasurementRecord]) -> Columns:
    """All that points share with none; raises where a text may not be stored."""
    columns: Columns = {name: list(map(value_of, records)) for name, value_of in _VALUES_OF.items()}
    for name in _CHECKED:
        for value in columns[name]:
            _TABLE.check(name, value)
    moments = (one.measured_at for one in records)
    return {
        **columns,
        "metrics": [_WRITTEN(dict(one.metrics)) for one in records],
        "measured_at": [None if at is None else as_utc(at) for at in moments],
    }


def point_of_row(row: RowMapping) -> MeasurementRecord:
    prefill, decode = (SideRecord(**{name: row[f"{side}_{name}"] for name in SideRecord.__slots__}) for side in SIDES)
    return MeasurementRecord(
        **{name: row[name] for name, place in IN_RECORDS.items() if name == place},
        prefill=prefill,
        decode=decode,
        run=RunRecord(**{name: row[name] for name in RunRecord.__slots__}),
        metrics=json.loads(row["metrics"]),
        definitions=json.loads(row["definitions"]),
        measured_at=None if row["measured_at"] is None else as_utc(row["measured_at"]),
    )
