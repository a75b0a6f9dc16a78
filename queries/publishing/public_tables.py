"""Public views under plural names, which no table of a store has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from queries.dictionary import DictionaryColumn, dictionary

PROBES = "probes"  # refreshed block by block; the others are small and written anew
DICTIONARY = "dictionary"
DICTIONARY_COLUMNS = (
    ("relation", "VARCHAR"), ("column_name", "VARCHAR"), ("type", "VARCHAR"), ("unit", "VARCHAR"),
    ("meaning", "VARCHAR"),
)  # fmt: skip
_VIEWS = {
    PROBES: "probe",
    "scenarios": "scenario",
    "sweeps": "sweep",
    "models": "model",
    "devices": "device",
    "prices": "price",
    "measurements": "measurement",
    "validations": "validation",
}
_INTERVALS = "sweep_intervals"
_OF_INTERVALS = (
    DictionaryColumn(name="sweep", type="VARCHAR", unit="none", meaning="content key of the sweep"),
    DictionaryColumn(name="scenario_id", type="BIGINT", unit="none", meaning="scenario that it asked for"),
    DictionaryColumn(name="first_batch_size", type="INTEGER", unit="requests", meaning="of the interval it asked for"),
    DictionaryColumn(name="last_batch_size", type="INTEGER", unit="requests", meaning="of the interval it asked for"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedRelation:
    """Columns, and the SELECT that fills it."""

    name: str
    meaning: str
    columns: tuple[DictionaryColumn, ...]
    select: str


@cache
def published_relations() -> tuple[PublishedRelation, ...]:
    known = {relation.name: relation for relation in dictionary()}
    views = [
        PublishedRelation(
            name=name,
            meaning=known[view].meaning,
            columns=known[view].columns,
            select=_select(known[view].columns, view),
        )
        for name, view in _VIEWS.items()
    ]
    intervals = PublishedRelation(
        name=_INTERVALS,
        meaning="the batch sizes of each scenario that each sweep asked for, also where they were stored before",
        columns=_OF_INTERVALS,
        select="SELECT sw.key AS sweep, i.scenario_id, i.first_batch_size, i.last_batch_size"
        " FROM raw.sweep_interval AS i JOIN raw.sweep AS sw ON sw.id = i.sweep_id",
    )
    return (*views, intervals)


def _select(columns: Sequence[DictionaryColumn], view: str) -> str:
    return f"SELECT {', '.join(quoted(column.name) for column in columns)} FROM {view}"


def quoted(name: str) -> str:
    return f'"{name}"'


def dictionary_rows() -> list[tuple[str, ...]]:
    return [
        (relation.name, column.name, column.type, column.unit, column.meaning)
        for relation in published_relations()
        for column in relation.columns
    ]


def commented(column: DictionaryColumn) -> str:
    return column.meaning if column.unit == "none" else f"{column.meaning} [{column.unit}]"
