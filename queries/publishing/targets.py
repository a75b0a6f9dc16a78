"""Abilities of every target, and public views under plural names, which no table of a store has."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from queries.dictionary import DictionaryColumn, dictionary
from store.errors import InputError

if TYPE_CHECKING:
    import duckdb


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


Block = tuple[int, int]  # scenario and block
BLOCK_COLUMNS = (("scenario_id", "BIGINT"), ("block_id", "BIGINT"))
Blocks = Mapping[Block, tuple[int, ...]]  # with figures that change when a row is hidden or shown again
Typed = Sequence[tuple[str, str]]
STAMP = "publication"
STAMP_COLUMNS = (("store_id", "VARCHAR"), ("layout", "VARCHAR"), ("published_at", "VARCHAR"), ("probes", "BIGINT"))
BLOCKS = (
    "SELECT scenario_id, block_id, count(*), CAST(min(batch_size) AS BIGINT), CAST(max(batch_size) AS BIGINT),"
    " CAST(sum(batch_size) AS BIGINT) FROM {probes} GROUP BY scenario_id, block_id"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """The store published, and the layout."""

    store_id: str
    layout: str


class Target(ABC):
    """Everything within `opened` comes at once or not at all."""

    display: str

    @contextmanager
    @abstractmethod
    def opened(self, duckdb: duckdb.DuckDBPyConnection) -> Iterator[None]:
        """`duckdb` has the views, and keeps them while it is open."""
        yield

    @abstractmethod
    def published_of(self) -> Published | None:
        """None: empty. Refuses anything else."""

    @abstractmethod
    def begin_anew(self, probes: PublishedRelation) -> None:
        """With an empty table of probes."""

    @abstractmethod
    def blocks(self) -> Blocks: ...

    @abstractmethod
    def remove(self, blocks: Sequence[Block]) -> None: ...

    @abstractmethod
    def append(self, columns: Typed, select: str) -> None: ...

    @abstractmethod
    def replace(self, name: str, columns: Typed, select: str) -> None: ...

    @abstractmethod
    def stamp(self, store_id: str, layout: str, moment: str, probes: int) -> None:
        """Whose tables, and of when."""

    @abstractmethod
    def comment(self, relations: Sequence[PublishedRelation]) -> None:
        """Meanings of columns, where a database keeps comments."""


def not_ours(display: str) -> InputError:
    return InputError(
        f"{display} holds something that `sweepdb publish` did not write, which is never replaced",
        hint="name a place that is not there yet",
    )
