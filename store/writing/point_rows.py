"""Points as rows, many at once, and back."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import repeat
from typing import Any

from sqlalchemy import Connection, RowMapping, func, select

from store.records import MeasurementRecord, RunRecord, SideRecord
from store.schema.sql_tables import MEASUREMENT
from store.schema.tables import TABLES
from store.texts import checked_text
from store.writing.point_table import PointTable
from store.writing.statements import as_utc, chunks, insert_missing, utc_now

_SIDES = ("prefill", "decode")
_WRITTEN = json.JSONEncoder(sort_keys=True).encode
_OF_SIDES = tuple((f"{side}_{name}", side, name) for side in _SIDES for name in SideRecord.__slots__)
OF_RUN = tuple(RunRecord.__slots__)
_MADE = {"prefill", "decode", "metrics", "definitions", "measured_at", "run"}  # of other form in the record
_SAME_NAME = tuple(name for name in MeasurementRecord.__slots__ if name not in _MADE)


_LEAST_AT_ONCE = 100  # points, from which on rows go to the driver as they are


def insert_points(connection: Connection, records: Sequence[MeasurementRecord], places: Sequence[int]) -> None:
    if connection.dialect.name != "sqlite" or len(places) < _LEAST_AT_ONCE:
        insert_missing(connection, MEASUREMENT, [row_of_point(records[place]) for place in places])
        return
    now = _as_sqlite(utc_now())
    with _indexed_after(connection, len(places)):
        if isinstance(records, PointTable):
            names, rows = _rows_of_table(records, now)
            for chunk in chunks(places, _AT_ONCE):
                _insert_rows(connection, names, rows(chunk))
            return
        for chunk in chunks(places, _AT_ONCE):
            names, said = _said(_ALL_COLUMNS, [_tuple(records[place], now) for place in chunk])
            _insert_rows(connection, names, said)


@contextmanager
def _indexed_after(connection: Connection, count: int) -> Iterator[None]:
    """Sorting indexes once after a large insert takes half the time."""
    stored = connection.execute(select(func.max(MEASUREMENT.c.id))).scalar() or 0
    indexes = sorted(MEASUREMENT.indexes, key=lambda index: str(index.name)) if count > max(stored, _AT_ONCE) else []
    for index in indexes:
        index.drop(connection)
    yield
    for index in indexes:
        index.create(connection)


Row = tuple[Any, ...]


def _insert_rows(connection: Connection, names: Sequence[str], rows: Iterable[Row]) -> None:
    columns, places = ", ".join(names), ", ".join("?" * len(names))
    statement = f"INSERT OR IGNORE INTO measurement ({columns}) VALUES ({places})"  # noqa: S608  the schema's names
    connection.exec_driver_sql(statement, list(rows))


def _said(names: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[Row]]:
    """Only filled columns: most of an insert is binding."""
    said = [
        (name, values)
        for name, values in zip(names, zip(*rows, strict=True), strict=True)
        if values.count(None) < len(values)
    ]
    return [name for name, _ in said], list(zip(*(values for _, values in said), strict=True))


_OF_A_POINT = ("key", "source", "extra", "metrics", "measured_at")  # what points of one setting do not share


def _rows_of_table(table: PointTable, now: str) -> tuple[list[str], Callable[[Sequence[int]], Iterable[Row]]]:
    shared = [
        tuple(value for name, value in zip(_ALL_COLUMNS, _tuple(one, now), strict=True) if name not in _OF_A_POINT)
        for one in table.shared
    ]
    names, facts = _said([name for name in _ALL_COLUMNS if name not in _OF_A_POINT], shared)
    moments = {at: None if at is None else _as_sqlite(as_utc(at)) for at in {*table.measured_at}}

    def rows(places: Sequence[int]) -> Iterable[Row]:
        chosen = operator.itemgetter(*places, places[0])  # of one place, too, it gives a tuple
        own = zip(
            chosen(table.keys),
            map(operator.concat, repeat(f"{table.name}:"), map(str, chosen(table.lines))),
            chosen(table.extra),
            chosen(table.metrics),
            map(moments.__getitem__, chosen(table.measured_at)),
            strict=False,
        )
        return list(map(operator.add, own, map(facts.__getitem__, chosen(table.setting))))[:-1]

    return [*_OF_A_POINT, *names], rows


_AT_ONCE = 20_000
_ALL_COLUMNS = (*_SAME_NAME, "metrics", "definitions", "measured_at", "imported_at", *OF_RUN,
                *(column for column, *_ in _OF_SIDES))  # fmt: skip
_same = operator.attrgetter(*_SAME_NAME)
_run = operator.attrgetter(*OF_RUN)
_sides = operator.attrgetter(*(f"{side}.{name}" for _, side, name in _OF_SIDES))
_PLAIN = tuple(
    column.name
    for column in TABLES["measurement"].columns
    if column.type.kind == "text"
    and column.name in {*_SAME_NAME, *OF_RUN} - {"key", "read_as", "file", "source", "extra"}
)
_plain = operator.attrgetter(*(name if name in _SAME_NAME else f"run.{name}" for name in _PLAIN))


def _tuple(record: MeasurementRecord, now: str) -> tuple[Any, ...]:
    for name, value in zip(_PLAIN, _plain(record), strict=True):
        if value is not None:
            _check_once(name, value)
    checked_text(record.source, "The source of a measurement")
    at = None if record.measured_at is None else _as_sqlite(as_utc(record.measured_at))
    definitions = _pairs_written(tuple(record.definitions.items()))
    return (*_same(record), _metrics_written(record.metrics), definitions, at, now, *_run(record.run), *_sides(record))


def _metrics_written(metrics: Mapping[str, float]) -> str:
    """As the encoder; metrics' names need no escape."""
    if any(type(value) is not float for value in metrics.values()):
        return _WRITTEN(dict(metrics))
    return "{" + ", ".join(f'"{name}": {value!r}' for name, value in sorted(metrics.items())) + "}"


@functools.lru_cache(maxsize=65_536)
def _check_once(name: str, value: str) -> None:
    TABLES["measurement"].check(name, value)


@functools.lru_cache(maxsize=4_096)
def _pairs_written(pairs: tuple[tuple[str, str], ...]) -> str:
    return _WRITTEN(dict(pairs))


def _as_sqlite(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%d %H:%M:%S.%f")


def row_of_point(record: MeasurementRecord) -> dict[str, Any]:
    sides = {column: getattr(getattr(record, side), name) for column, side, name in _OF_SIDES}
    return TABLES["measurement"].row_of(
        record,
        metrics=_WRITTEN(dict(record.metrics)),
        definitions=_WRITTEN(dict(record.definitions)),
        measured_at=None if record.measured_at is None else as_utc(record.measured_at),
        imported_at=utc_now(),
        **{name: getattr(record.run, name) for name in OF_RUN},
        **sides,
    )


def point_of_row(row: RowMapping) -> MeasurementRecord:
    prefill, decode = (SideRecord(**{name: row[f"{side}_{name}"] for name in SideRecord.__slots__}) for side in _SIDES)
    return MeasurementRecord(
        **{name: row[name] for name in _SAME_NAME},
        prefill=prefill,
        decode=decode,
        run=RunRecord(**{name: row[name] for name in OF_RUN}),
        metrics=json.loads(row["metrics"]),
        definitions=json.loads(row["definitions"]),
        measured_at=None if row["measured_at"] is None else as_utc(row["measured_at"]),
    )
