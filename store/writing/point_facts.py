"""Facts that many points of one import have in common: one row each, which points refer to."""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, and_, delete, exists, func, select

from store.records import MeasurementRecord, RunRecord, SideRecord
from store.schema.sql_tables import MEASUREMENT, MEASUREMENT_FACTS
from store.schema.tables import TABLES
from store.writing.statements import chunks, insert_columns

Facts = tuple[Any, ...]  # in the order of FACTS, but without the time of the import

SIDES = ("prefill", "decode")
_OF_OTHER_FORM = {*SIDES, "metrics", "definitions", "measured_at", "run"}
IN_RECORDS = {  # where records have what columns hold as it is
    **{name: name for name in MeasurementRecord.__slots__ if name not in _OF_OTHER_FORM},
    **{name: f"run.{name}" for name in RunRecord.__slots__},
    **{f"{side}_{name}": f"{side}.{name}" for side in SIDES for name in SideRecord.__slots__},
}
_FACTS = TABLES["measurement_facts"]
_SAME = tuple(name for name in _FACTS.names if name in IN_RECORDS)
FACTS = (*_SAME, "definitions")
_said = operator.attrgetter(*map(IN_RECORDS.__getitem__, _SAME))
_TEXTS = tuple((place, name) for place, name in enumerate(_SAME) if _FACTS.column(name).type.kind == "text")


def facts_of(record: MeasurementRecord) -> Facts:
    return (*_said(record), _pairs_written(tuple(record.definitions.items())))


@functools.lru_cache(maxsize=65_536)
def _check_once(name: str, value: str) -> None:
    _FACTS.check(name, value)


@functools.lru_cache(maxsize=4_096)
def _pairs_written(pairs: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(pairs), sort_keys=True)


def insert_facts(connection: Connection, facts: Collection[Facts], imported_at: datetime) -> dict[Facts, int]:
    """New rows, and their numbers; raises where a text may not be stored."""
    for one in facts:
        for place, name in _TEXTS:
            if one[place] is not None:
                _check_once(name, one[place])
    numbers = dict(zip(facts, _free(connection, len(facts)), strict=True))
    if facts:
        told = dict(zip(FACTS, zip(*facts, strict=True), strict=True))
        at = [imported_at] * len(facts)
        insert_columns(connection, MEASUREMENT_FACTS, {"id": list(numbers.values()), "imported_at": at, **told})
    return numbers


def _free(connection: Connection, count: int) -> Sequence[int]:
    if connection.dialect.name == "postgresql":
        drawn = "SELECT nextval(pg_get_serial_sequence('measurement_facts', 'id')) FROM generate_series(1, %s)"
        return connection.exec_driver_sql(drawn, (count,)).scalars().all()
    first = 1 + (connection.execute(select(func.max(MEASUREMENT_FACTS.c.id))).scalar() or 0)  # nobody else writes
    return range(first, first + count)


def facts_from(connection: Connection, files: Iterable[str]) -> set[int]:
    """Of points that were read from these files, by their digests."""
    found: set[int] = set()
    for chunk in chunks(sorted(files)):
        found |= set(connection.scalars(select(MEASUREMENT_FACTS.c.id).where(MEASUREMENT_FACTS.c.file.in_(chunk))))
    return found


def stored_facts(connection: Connection, numbers: Iterable[int]) -> dict[int, Mapping[str, Any]]:
    found: dict[int, Mapping[str, Any]] = {}
    for chunk in chunks(sorted({*numbers})):
        rows = connection.execute(select(MEASUREMENT_FACTS).where(MEASUREMENT_FACTS.c.id.in_(chunk)))
        found |= {row["id"]: row for row in rows.mappings()}
    return found


def with_changes(connection: Connection, stored: Mapping[str, Any], changes: Mapping[str, Any]) -> int:
    """The row of these facts as changed: new, or one that says the same."""
    facts = tuple(changes.get(name, stored[name]) for name in FACTS)
    if all(stored[name] == value for name, value in zip(FACTS, facts, strict=True)):
        return int(stored["id"])
    said = {"imported_at": stored["imported_at"], **dict(zip(FACTS, facts, strict=True))}
    same = and_(*(MEASUREMENT_FACTS.c[name].is_not_distinct_from(value) for name, value in said.items()))
    found = connection.execute(select(func.min(MEASUREMENT_FACTS.c.id)).where(same)).scalar()
    return insert_facts(connection, [facts], stored["imported_at"])[facts] if found is None else int(found)


def drop_unused(connection: Connection, numbers: Iterable[int]) -> None:
    for chunk in chunks(sorted({*numbers})):
        used = exists().where(MEASUREMENT.c.facts_id == MEASUREMENT_FACTS.c.id)
        connection.execute(delete(MEASUREMENT_FACTS).where(MEASUREMENT_FACTS.c.id.in_(chunk), ~used))
