"""Stores measured points, and their comparisons."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, delete, select, update

from store.errors import InputError
from store.loads import MeasuredRequests, pack_requests, unpack_requests
from store.opening import Store
from store.records import MeasurementRecord, RunRecord, ValidationRecord
from store.schema.sql_tables import MEASURED_REQUESTS, MEASUREMENT, MEASUREMENT_FACTS, SCENARIO, VALIDATION
from store.schema.tables import TABLES
from store.writing.point_facts import FACTS, drop_unused, facts_from, facts_of, stored_facts, with_changes
from store.writing.point_rows import SELECT_POINTS, cells_of, insert_points, point_of_row
from store.writing.point_table import PointTable, beside_key, in_order_of_keys, keys_of, read_as
from store.writing.statements import chunks, insert_missing, insert_or_update, utc_now

CORRECTED = "corrected"  # of `extra`: what a person has corrected, as it was before


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementsPut:
    added: int
    replaced: int  # points that these files held when they were read before, and hold no more
    corrected: int  # points that a person knows more of, and that stay as they are


def put_measurements(store: Store, records: Sequence[MeasurementRecord]) -> int:
    return put_files(store, records, files=()).added


def put_files(
    store: Store,
    records: Sequence[MeasurementRecord],
    *,
    files: Collection[str],
    requests: Mapping[str, MeasuredRequests] | None = None,
) -> MeasurementsPut:
    """In place of what these files held. `requests` are logs by point.

    `files` are digests of files read whole. Corrected points stay, and those of which more was stated. Uninterpreted
    fields are as today's reader has them."""
    coming = {key: place for place, key in enumerate(keys_of(records))}
    by_file = read_as(records)
    with store.writing() as connection:
        rows = _stored(connection, coming, by_file, files)
        refresh = _Refreshing(connection, records, rows)
        known: set[str] = set()
        gone: set[str] = set()
        kept = 0
        for row in rows:
            if refresh.says_nothing(row, coming.get(row[_KEY])):
                known.add(row[_KEY])
                continue
            said, now = row.read_as or row.key, by_file.get(row.read_as or row.key)
            corrected = f'"{CORRECTED}"' in row.extra
            if row.key in coming:
                known.add(row.key)
                refresh(row, coming[row.key], only=_TAGS if corrected else None)
            elif now is None:
                if refresh.facts[row.facts_id]["file"] in files:
                    gone.add(row.key)
            elif corrected or now == said:  # the file says as much as before, and a person said more
                if (known_less := coming.pop(now, None)) is not None:
                    refresh(row, known_less, only=_TAGS)
                kept += 1
            else:
                gone.add(row.key)
        new = in_order_of_keys({key: place for key, place in coming.items() if key not in known} if known else coming)
        insert_points(connection, records, new)
        drop_unused(connection, refresh.left)
        _delete(connection, gone)
        _put_requests(connection, {key: log for key, log in (requests or {}).items() if key in coming})
    return MeasurementsPut(added=len(new), replaced=len(gone), corrected=kept)


_OF_RUN = tuple(RunRecord.__slots__)
_BESIDE_FACTS = ("read_as", *(name for name in _OF_RUN if name in TABLES["measurement"].names))
_COMPARED = ("id", "key", "extra", *_BESIDE_FACTS, "facts_id")
_KEY, _EXTRA = _COMPARED.index("key"), _COMPARED.index("extra")  # a place is found ten times as fast as a name
_BESIDE = _COMPARED.index("read_as")  # points of one setting share what follows
_MANY = 20_000  # points, from which on all that is stored is looked at in one reading


def _stored(
    connection: Connection, keys: Collection[str], read_as: Collection[str], files: Collection[str]
) -> list[Any]:
    query = select(*(MEASUREMENT.c[name] for name in _COMPARED))
    if connection.execute(select(MEASUREMENT.c.id).limit(1)).first() is None:
        return []
    from_files = facts_from(connection, files)
    if len(keys) > _MANY:
        wanted = {*keys, *read_as}
        return [row for row in connection.execute(query).all()
                if row[_KEY] in wanted or row.read_as in wanted or row.facts_id in from_files]  # fmt: skip
    found: dict[int, Any] = {}
    of_keys = {*keys, *read_as}
    for name, values in (("key", of_keys), ("read_as", read_as), ("facts_id", from_files)):
        for chunk in chunks(values):
            found |= {row.id: row for row in connection.execute(query.where(MEASUREMENT.c[name].in_(chunk)))}
    return list(found.values())


_TAGS = ("tags",)


class _Refreshing:
    """Updates what is in no key: uninterpreted fields, and facts of the run."""

    def __init__(self, connection: Connection, records: Sequence[MeasurementRecord], stored: Sequence[Any]) -> None:
        self._connection, self._records = connection, records
        self._table = records if isinstance(records, PointTable) else None
        self._same: set[object] = set()  # settings of a table with stored facts that say as much
        self._moved: dict[object, int] = {}  # facts by those that they were and what changed
        self.facts = stored_facts(connection, (row.facts_id for row in stored))
        self.left: set[int] = set()  # facts of points that have others now

    def says_nothing(self, stored: Any, place: int | None) -> bool:  # noqa: ANN401  a row
        """The line says as much as the stored row, as most of a table read again."""
        return (
            self._table is not None
            and place is not None
            and self._table.extra[place] == stored[_EXTRA]
            and (self._table.setting[place], stored[_BESIDE:]) in self._same
        )

    def __call__(self, stored: Any, place: int, *, only: Collection[str] | None) -> None:  # noqa: ANN401  a row
        """Only differences, or `only` these fields."""
        told = beside_key(self._records, place)
        facts = self.facts[stored.facts_id]
        values = {name: value for name in _OF_RUN if (value := getattr(told.record.run, name)) is not None}
        if values.get("tags") and facts["tags"]:
            values["tags"] = ",".join(sorted({*str(values["tags"]).split(","), *facts["tags"].split(",")}))
        beside = (("extra", told.extra), ("file", told.record.file), ("read_as", told.record.read_as))
        values |= {name: value for name, value in beside if value is not None}
        changed = {
            name: value
            for name, value in values.items()
            if (getattr(stored, name) if name in _COMPARED else facts[name]) != value and (only is None or name in only)
        }
        if changed:
            own = {name: value for name, value in changed.items() if name in _COMPARED}
            own["facts_id"] = self._facts_with(stored.facts_id, {k: v for k, v in changed.items() if k not in own})
            self._connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.id == stored.id).values(**own))
        elif told.extra == stored.extra and only is None:
            self._same.add((told.setting, stored[_BESIDE:]))

    def _facts_with(self, number: int, changes: Mapping[str, object]) -> int:
        move = (number, tuple(changes.items()))
        if move not in self._moved:
            self._moved[move] = with_changes(self._connection, self.facts[number], changes)
            self.left.add(number)
        return self._moved[move]


def corrected_of(store: Store, files: Collection[str]) -> list[MeasurementRecord]:
    found: list[MeasurementRecord] = []
    with store.reading() as connection:
        for chunk in chunks(sorted(files)):
            query = SELECT_POINTS.where(
                MEASUREMENT_FACTS.c.file.in_(chunk), MEASUREMENT.c.extra.contains(f'"{CORRECTED}"')
            )
            found += [point_of_row(row) for row in connection.execute(query).mappings()]
    return found


def _put_requests(connection: Connection, requests: Mapping[str, MeasuredRequests]) -> None:
    """A log that is there has the same content."""
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
    """With their comparisons."""
    with store.writing() as connection:
        _delete(connection, keys)


def replace_measurement(store: Store, key: str, record: MeasurementRecord) -> None:
    """Its comparisons were with something else and go.

    If stored already, one of the two remains."""
    own = {name: value for name, (value,) in cells_of([record]).items()}
    told = dict(zip(FACTS, facts_of(record), strict=True))
    with store.writing() as connection:
        if record.key != key:
            _forget(connection, [key])
        there = connection.execute(select(MEASUREMENT.c.id).where(MEASUREMENT.c.key == record.key)).first()
        if there is not None and record.key != key:
            _delete(connection, [key])
            return
        for before in _facts_of_points(connection, [key]):
            own["facts_id"] = with_changes(connection, stored_facts(connection, [before])[before], told)
            connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.key == key).values(**own))
            drop_unused(connection, [before])


def _facts_of_points(connection: Connection, keys: Collection[str]) -> set[int]:
    found: set[int] = set()
    for chunk in chunks(sorted(keys)):
        found |= set(connection.scalars(select(MEASUREMENT.c.facts_id).where(MEASUREMENT.c.key.in_(chunk))))
    return found


def _delete(connection: Connection, keys: Collection[str]) -> None:
    _forget(connection, keys)
    facts = _facts_of_points(connection, keys)
    for chunk in chunks(sorted(keys)):
        ids = select(MEASUREMENT.c.id).where(MEASUREMENT.c.key.in_(chunk))
        connection.execute(delete(MEASURED_REQUESTS).where(MEASURED_REQUESTS.c.measurement_id.in_(ids)))
        connection.execute(delete(MEASUREMENT).where(MEASUREMENT.c.key.in_(chunk)))
    drop_unused(connection, facts)


def _forget(connection: Connection, keys: Collection[str]) -> None:
    for chunk in chunks(sorted(keys)):
        ids = select(MEASUREMENT.c.id).where(MEASUREMENT.c.key.in_(chunk))
        connection.execute(delete(VALIDATION).where(VALIDATION.c.measurement_id.in_(ids)))


def get_measurements(store: Store) -> list[MeasurementRecord]:
    with store.reading() as connection:
        rows = connection.execute(SELECT_POINTS.order_by(MEASUREMENT.c.id)).mappings()
        return [point_of_row(row) for row in rows]


def numbered_measurements(
    store: Store, model: str, device: str, *, after: int = 0
) -> Iterator[tuple[int, MeasurementRecord]]:
    """Of a model on a device, as sources name them. Numbers grow, and begin after `after`."""
    of = (MEASUREMENT_FACTS.c.model == model, MEASUREMENT_FACTS.c.device == device, MEASUREMENT.c.id > after)
    query = SELECT_POINTS.add_columns(MEASUREMENT.c.id).where(*of).order_by(MEASUREMENT.c.id)
    with store.reading() as connection:
        for row in connection.execute(query).mappings():
            yield row["id"], point_of_row(row)


def put_validations(store: Store, records: Sequence[ValidationRecord]) -> None:
    """Replaces those of the same point, metric and scenario.

    One time for all, so that the newest comparison is whole."""
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
