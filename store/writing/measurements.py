"""Stores measured points, and the predictions they were compared with.

Not here: reading files of measurements and matching them (sweepdb.measuring)."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, Table, delete, select, update

from store.errors import InputError
from store.loads import MeasuredRequests, pack_requests, unpack_requests
from store.opening import Store
from store.records import MeasurementRecord, RunRecord, SideRecord, ValidationRecord
from store.schema.sql_tables import MEASURED_REQUESTS, MEASUREMENT, SCENARIO, VALIDATION
from store.schema.tables import TABLES
from store.texts import checked_text
from store.writing.point_table import PointTable, keys_of, read_as
from store.writing.statements import as_utc, chunks, insert_missing, insert_or_update, utc_now

CORRECTED = "corrected"  # of `extra`: what a person has corrected, as it was before
_SIDES = ("prefill", "decode")
_WRITTEN = json.JSONEncoder(sort_keys=True).encode
_OF_SIDES = tuple((f"{side}_{name}", side, name) for side in _SIDES for name in SideRecord.__slots__)
_OF_RUN = tuple(RunRecord.__slots__)
_MADE = {"prefill", "decode", "metrics", "definitions", "measured_at", "run"}  # of other form in the record
_SAME_NAME = tuple(name for name in MeasurementRecord.__slots__ if name not in _MADE)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementsPut:
    added: int
    replaced: int  # points that these files held when they were read before, and hold no more
    corrected: int  # points that a person knows more of, and that stay as they are


def put_measurements(store: Store, records: Sequence[MeasurementRecord]) -> int:
    """Store measured points and return how many were new; storing them twice adds nothing."""
    return put_files(store, records, files=()).added


def put_files(
    store: Store,
    records: Sequence[MeasurementRecord],
    *,
    files: Collection[str],
    requests: Mapping[str, MeasuredRequests] | None = None,
) -> MeasurementsPut:
    """Store the points of files, in place of those that these files held before. `requests` are logs by key of a point.

    `files` are the digests of those that were read as a whole. A stored point that a person corrected stays, and so
    does one of which more was stated before. What is kept beside the columns is as the reader of today has it."""
    coming = {key: place for place, key in enumerate(keys_of(records))}
    by_file = read_as(records)
    with store.writing() as connection:
        known: set[str] = set()
        gone: set[str] = set()
        kept = 0
        for row in _stored(connection, coming, by_file, files):
            said, now = row.read_as or row.key, by_file.get(row.read_as or row.key)
            corrected = f'"{CORRECTED}"' in row.extra
            if row.key in coming:
                known.add(row.key)
                _refresh(connection, row, records[coming[row.key]], only=_TAGS if corrected else None)
            elif now is None:
                if row.file in files:
                    gone.add(row.key)
            elif corrected or now == said:  # the file says as much as before, and a person said more
                if (known_less := coming.pop(now, None)) is not None:
                    _refresh(connection, row, records[known_less], only=_TAGS)
                kept += 1
            else:
                gone.add(row.key)
        new = [coming[key] for key in sorted(coming) if key not in known]
        _insert(connection, records, new)
        _delete(connection, gone)
        _put_requests(connection, {key: log for key, log in (requests or {}).items() if key in coming})
    return MeasurementsPut(added=len(new), replaced=len(gone), corrected=kept)


_COMPARED = ("id", "key", "read_as", "file", "extra", *_OF_RUN)
_MANY = 20_000  # points, from which on all that is stored is looked at in one reading


def _stored(
    connection: Connection, keys: Collection[str], read_as: Collection[str], files: Collection[str]
) -> list[Any]:
    """Stored points that are of these keys or files, with what decides whether they stay."""
    query = select(*(MEASUREMENT.c[name] for name in _COMPARED))
    if connection.execute(select(MEASUREMENT.c.id).limit(1)).first() is None:
        return []
    if len(keys) > _MANY:
        wanted = {*keys, *read_as}
        return [row for row in connection.execute(query)
                if row.key in wanted or row.read_as in wanted or row.file in files]  # fmt: skip
    found: dict[int, Any] = {}
    of_keys = {*keys, *read_as}
    for column, values in ((MEASUREMENT.c.key, of_keys), (MEASUREMENT.c.read_as, read_as), (MEASUREMENT.c.file, files)):
        for chunk in chunks(sorted(values)):
            found |= {row.id: row for row in connection.execute(query.where(column.in_(chunk)))}
    return list(found.values())


_TAGS = ("tags",)


def _refresh(
    connection: Connection,
    stored: Any,  # noqa: ANN401  a row has no type
    record: MeasurementRecord,
    *,
    only: Collection[str] | None,
) -> None:
    """Bring what is in no key up to date: fields that no column has, and what is now said of the run."""
    values = {name: value for name in _OF_RUN if (value := getattr(record.run, name)) is not None}
    if values.get("tags") and stored.tags:
        values["tags"] = ",".join(sorted({*str(values["tags"]).split(","), *stored.tags.split(",")}))
    values |= {name: value for name in ("extra", "file", "read_as") if (value := getattr(record, name)) is not None}
    changed = {
        name: value
        for name, value in values.items()
        if getattr(stored, name) != value and (only is None or name in only)
    }
    if changed:
        connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.id == stored.id).values(**changed))


_LEAST_AT_ONCE = 100  # points, from which on rows go to the driver as they are


def _insert(connection: Connection, records: Sequence[MeasurementRecord], places: Sequence[int]) -> None:
    """Store the records at these places, in this order."""
    if connection.dialect.name != "sqlite" or len(places) < _LEAST_AT_ONCE:
        insert_missing(connection, MEASUREMENT, [_row(records[place]) for place in places])
        return
    now = _as_sqlite(utc_now())
    if isinstance(records, PointTable):
        names, rows = _rows_of_table(records, now)
        for chunk in chunks(places, _AT_ONCE):
            _insert_rows(connection, names, rows(chunk))
        return
    for chunk in chunks(places, _AT_ONCE):
        names, said = _said(_ALL_COLUMNS, [_tuple(records[place], now) for place in chunk])
        _insert_rows(connection, names, said)


Row = tuple[Any, ...]


def _insert_rows(connection: Connection, names: Sequence[str], rows: Sequence[Row]) -> None:
    columns, places = ", ".join(names), ", ".join("?" * len(names))
    statement = f"INSERT OR IGNORE INTO measurement ({columns}) VALUES ({places})"  # noqa: S608  the schema's names
    connection.exec_driver_sql(statement, list(rows))


def _said(names: Sequence[str], rows: Sequence[Row]) -> tuple[list[str], list[Row]]:
    """Columns that any row fills, and these: most of an insert is binding its values."""
    said = [
        (name, values)
        for name, values in zip(names, zip(*rows, strict=True), strict=True)
        if values.count(None) < len(values)
    ]
    return [name for name, _ in said], list(zip(*(values for _, values in said), strict=True))


_OF_A_POINT = ("key", "source", "extra", "metrics", "measured_at")  # what points of one setting do not share


def _rows_of_table(table: PointTable, now: str) -> tuple[list[str], Callable[[Sequence[int]], list[Row]]]:
    """The columns of a table's rows, and the rows of points by their places."""
    shared = [
        tuple(value for name, value in zip(_ALL_COLUMNS, _tuple(one, now), strict=True) if name not in _OF_A_POINT)
        for one in table.shared
    ]
    names, facts = _said([name for name in _ALL_COLUMNS if name not in _OF_A_POINT], shared)
    moments = {at: None if at is None else _as_sqlite(as_utc(at)) for at in {*table.measured_at}}
    name, setting, lines, keys, metrics, measured_at, extra = (
        table.name, table.setting, table.lines, table.keys, table.metrics, table.measured_at, table.extra,
    )  # fmt: skip

    def rows(places: Sequence[int]) -> list[Row]:
        own = zip(
            [keys[place] for place in places],
            [f"{name}:{lines[place]}" for place in places],
            [extra[place] for place in places],
            [metrics[place] for place in places],
            [moments[measured_at[place]] for place in places],
            strict=True,
        )
        return [of_point + facts[setting[place]] for of_point, place in zip(own, places, strict=True)]

    return [*_OF_A_POINT, *names], rows


_AT_ONCE = 20_000
_ALL_COLUMNS = (*_SAME_NAME, "metrics", "definitions", "measured_at", "imported_at", *_OF_RUN,
                *(column for column, *_ in _OF_SIDES))  # fmt: skip
_same = operator.attrgetter(*_SAME_NAME)
_run = operator.attrgetter(*_OF_RUN)
_sides = operator.attrgetter(*(f"{side}.{name}" for _, side, name in _OF_SIDES))
_PLAIN = tuple(
    column.name
    for column in TABLES["measurement"].columns
    if column.type.kind == "text"
    and column.name in {*_SAME_NAME, *_OF_RUN} - {"key", "read_as", "file", "source", "extra"}
)
_plain = operator.attrgetter(*(name if name in _SAME_NAME else f"run.{name}" for name in _PLAIN))


def _tuple(record: MeasurementRecord, now: str) -> tuple[Any, ...]:
    """The row of a point as SQLite's driver takes it, in the order of the columns."""
    for name, value in zip(_PLAIN, _plain(record), strict=True):
        if value is not None:
            _check_once(name, value)
    checked_text(record.source, "The source of a measurement")
    at = None if record.measured_at is None else _as_sqlite(as_utc(record.measured_at))
    definitions = _pairs_written(tuple(record.definitions.items()))
    return (*_same(record), _metrics_written(record.metrics), definitions, at, now, *_run(record.run), *_sides(record))


def _metrics_written(metrics: Mapping[str, float]) -> str:
    """As the encoder has it; names of metrics are our own, and need no escape."""
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


def corrected_of(store: Store, files: Collection[str]) -> list[MeasurementRecord]:
    """Stored points of these files that a person has corrected."""
    found: list[MeasurementRecord] = []
    with store.reading() as connection:
        for chunk in chunks(sorted(files)):
            query = select(MEASUREMENT).where(
                MEASUREMENT.c.file.in_(chunk), MEASUREMENT.c.extra.contains(f'"{CORRECTED}"')
            )
            found += [_record(row) for row in connection.execute(query).mappings()]
    return found


def _put_requests(connection: Connection, requests: Mapping[str, MeasuredRequests]) -> None:
    """Keep the logs of stored points; one that is there stays: it is of the same content."""
    for chunk in chunks(sorted(requests)):
        stored = select(MEASUREMENT.c.key, MEASUREMENT.c.id).where(MEASUREMENT.c.key.in_(chunk))
        rows = [
            {
                "measurement_id": found.id,
                "asked_requests": requests[found.key].sent_us.size,
                "failed_requests": int((~requests[found.key].completed).sum()),
                "requests": pack_requests(requests[found.key]),
            }
            for found in connection.execute(stored)
        ]
        if rows:
            insert_missing(connection, MEASURED_REQUESTS, rows)


def get_requests(store: Store, keys: Collection[str]) -> dict[str, MeasuredRequests]:
    """The logs of these measured points, by key, of those that have one."""
    found: dict[str, MeasuredRequests] = {}
    joined = select(MEASUREMENT.c.key, MEASURED_REQUESTS.c.requests).join(
        MEASURED_REQUESTS, MEASURED_REQUESTS.c.measurement_id == MEASUREMENT.c.id
    )
    with store.reading() as connection:
        for chunk in chunks(sorted(keys)):
            rows = connection.execute(joined.where(MEASUREMENT.c.key.in_(chunk)))
            found |= {row.key: unpack_requests(row.requests) for row in rows}
    return found


def delete_measurements(store: Store, keys: Collection[str]) -> None:
    """Remove measured points, and the comparisons that were made with them."""
    with store.writing() as connection:
        _delete(connection, keys)


def replace_measurement(store: Store, key: str, record: MeasurementRecord) -> None:
    """Put a corrected point in the place of a stored one, whose comparisons were with something else and go.

    Where the corrected point is stored already, one of the two remains."""
    row = _row(record)
    with store.writing() as connection:
        if record.key != key:
            _forget(connection, [key])
        there = connection.execute(select(MEASUREMENT.c.id).where(MEASUREMENT.c.key == record.key)).first()
        if there is not None and record.key != key:
            _delete(connection, [key])
            return
        kept = {name: value for name, value in row.items() if name != "imported_at"}
        connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.key == key).values(**kept))


def _delete(connection: Connection, keys: Collection[str]) -> None:
    _forget(connection, keys)
    for chunk in chunks(sorted(keys)):
        ids = select(MEASUREMENT.c.id).where(MEASUREMENT.c.key.in_(chunk))
        connection.execute(delete(MEASURED_REQUESTS).where(MEASURED_REQUESTS.c.measurement_id.in_(ids)))
        connection.execute(delete(MEASUREMENT).where(MEASUREMENT.c.key.in_(chunk)))


def _forget(connection: Connection, keys: Collection[str]) -> None:
    for chunk in chunks(sorted(keys)):
        ids = select(MEASUREMENT.c.id).where(MEASUREMENT.c.key.in_(chunk))
        connection.execute(delete(VALIDATION).where(VALIDATION.c.measurement_id.in_(ids)))


def get_measurements(store: Store, *, newest: int | None = None) -> list[MeasurementRecord]:
    """Return measured points in the order of their import."""
    query = select(MEASUREMENT).order_by(MEASUREMENT.c.id.desc()).limit(newest)
    with store.reading() as connection:
        return [_record(row) for row in connection.execute(query).mappings()][::-1]


def put_validations(store: Store, records: Sequence[ValidationRecord]) -> None:
    """Store comparisons; one of the same point, metric and scenario is replaced, since it is derived data.

    All have one time, so that the newest comparison of a point can be told as a whole."""
    now = utc_now()
    with store.writing() as connection:
        measurements = _ids(connection, MEASUREMENT, {record.measurement_key for record in records})
        scenarios = _ids(connection, SCENARIO, {record.scenario_key for record in records})
        for record in records:
            row = TABLES["validation"].row_of(
                record,
                measurement_id=measurements[record.measurement_key],
                scenario_id=scenarios[record.scenario_key],
                created_at=now,
            )
            key = ("measurement_id", "metric", "scenario_id")
            insert_or_update(connection, VALIDATION, row, key=key, update=sorted(set(row) - set(key)))


def forget_validations(store: Store, measurement_keys: Collection[str]) -> None:
    """Remove the comparisons of measured points that are compared no longer, since a rule takes them out."""
    with store.writing() as connection:
        _forget(connection, measurement_keys)


def _ids(connection: Connection, table: Table, keys: set[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for chunk in chunks(sorted(keys)):
        found.update(
            {
                row.key: row.id
                for row in connection.execute(select(table.c.key, table.c.id).where(table.c.key.in_(chunk)))
            }
        )
    if missing := keys - set(found):
        raise InputError(f"There is no {table.name} {min(missing)[:12]} in this store.")
    return found


def _row(record: MeasurementRecord) -> dict[str, Any]:
    sides = {column: getattr(getattr(record, side), name) for column, side, name in _OF_SIDES}
    return TABLES["measurement"].row_of(
        record,
        metrics=_WRITTEN(dict(record.metrics)),
        definitions=_WRITTEN(dict(record.definitions)),
        measured_at=None if record.measured_at is None else as_utc(record.measured_at),
        imported_at=utc_now(),
        **{name: getattr(record.run, name) for name in _OF_RUN},
        **sides,
    )


def _record(row: RowMapping) -> MeasurementRecord:
    prefill, decode = (SideRecord(**{name: row[f"{side}_{name}"] for name in SideRecord.__slots__}) for side in _SIDES)
    return MeasurementRecord(
        **{name: row[name] for name in _SAME_NAME},
        prefill=prefill,
        decode=decode,
        run=RunRecord(**{name: row[name] for name in _OF_RUN}),
        metrics=json.loads(row["metrics"]),
        definitions=json.loads(row["definitions"]),
        measured_at=None if row["measured_at"] is None else as_utc(row["measured_at"]),
    )
