"""A stored probe by reference, with every column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from queries.connect import StoreConnection
from store.errors import InputError
from store.location import StoreLocation
from store.reading import read_transaction

_REFERENCE = re.compile(r"([0-9a-f]{6,64}):([1-9][0-9]*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReference:
    """The start of a scenario's key, and a batch size."""

    scenario: str
    batch_size: int


def parse_reference(text: str) -> ProbeReference:
    """`a1b2c3d4:175`."""
    match = _REFERENCE.fullmatch(text.strip().lower())
    if match is None:
        raise InputError(
            f"{text!r} is not a probe",
            hint="take one from the column probe of an answer; it looks like a1b2c3d4:175",
        )
    return ProbeReference(scenario=match[1], batch_size=int(match[2]))


def find_probe(location: StoreLocation, text: str) -> tuple[tuple[str, ...], tuple[object, ...]]:
    reference = parse_reference(text)
    scenario_id = find_scenario(location, reference.scenario)
    with StoreConnection(location) as connection:
        connection.narrow_to([scenario_id])
        cursor = connection.execute(
            "SELECT * FROM probe WHERE scenario_id = $scenario_id AND batch_size = $batch_size",
            {"scenario_id": scenario_id, "batch_size": reference.batch_size},
        )
        columns = tuple(str(item[0]) for item in cursor.description or ())
        row = cursor.fetchone()
    if row is None:
        raise InputError(
            f"no probe {text!r} in this store, or sweepdb void has hidden it", hint="its scenario has other batch sizes"
        )
    return columns, tuple(row)


def find_scenario(location: StoreLocation, start: str) -> int:
    with read_transaction(location) as transaction:
        statement = "SELECT id, key FROM scenario WHERE key LIKE ? LIMIT 3"
        found = transaction.named(statement, (f"{start}%",))
    if not found:
        raise InputError(f"no scenario {start!r} in this store", hint="take a row of an answer: sweepdb query best")
    first, *others = found.values()
    if others:
        raise InputError(f"{start!r} is the start of several scenarios; give more digits: {first}, {others[0]}")
    return next(iter(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredPoints:
    """Comparisons, and the statement that found them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    sql: str


def measured_points(location: StoreLocation) -> MeasuredPoints:
    with StoreConnection(location) as connection:
        cursor = connection.execute(_statement())
        columns = tuple(str(item[0]) for item in cursor.description or ())
        return MeasuredPoints(columns=columns, rows=tuple(cursor.fetchall()), sql=_statement())


@cache
def _statement() -> str:
    return Path(__file__).with_name("measured.sql").read_text(encoding="utf-8")
