"""The raw relations public views are built on, and the views of stores themselves, for programs that open a store.

All follow from the declared tables."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from store.light_dataclass import dataclass
from store.schema.declaring import FLAG, Column, Table
from store.schema.probe_columns import NAMED_COLUMNS, PROBE_COLUMNS, ReadColumn, read_column, view_sql
from store.schema.tables import BLOCK_TABLES, MADE_OF_TABLES, SCENARIO_TABLES, TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class RawTable:
    """A relation of schema `raw` that is copied from the store when a statement needs it."""

    name: str
    meaning: str
    columns: tuple[ReadColumn, ...]
    tables: str  # FROM clause over the store

    @property
    def statement(self) -> str:
        return f"SELECT {', '.join(column.source for column in self.columns)} FROM {self.tables}"  # noqa: S608 - our text

    @property
    def typed_names(self) -> list[tuple[str, str]]:
        return [(column.name, column.type) for column in self.columns]


_OF_BLOCKS = {"block_id", "first_sweep", "stored_at"}
_OF_OUTCOMES = ("status", "reason", "assumptions", "created_at")
_SCENARIO = TABLES["scenario"]


def _voided(meaning: str, source: str) -> ReadColumn:
    return read_column(Column("voided", FLAG, "none", meaning), source)


SCENARIO = RawTable(
    name="scenario",
    meaning="subject + device profile + formula version, names joined, with status and reason",
    columns=(
        *(column for column in NAMED_COLUMNS if column.name not in _OF_BLOCKS),
        *(read_column(_SCENARIO.column(name), f"sc.{name}") for name in _OF_OUTCOMES),
        _voided("it, or every sweep that asked for it, is voided", "sc.id IN (SELECT scenario_id FROM joining.voided)"),
    ),
    tables=SCENARIO_TABLES,
)

# Parts of the joined relations `scenario` and `stored_probe`, and what only the program itself needs.
_NOT_AS_THEY_ARE = {"scenario", "measurement_facts", "subject", "precision", "plan", "block", "probe", "store_identity",
                    "operator_set", "part", "part_block", "part_subject", "part_thinned", "part_file", "part_claim",
                    "shard"}  # fmt: skip
_OF_THE_STORE = {"load_request": {"kept_requests", "digest"}}  # columns that no question reads
_ADDED = {
    "sweep": (
        _voided(
            "it is voided",
            "CASE WHEN id IN (SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)"
            " THEN 1 ELSE 0 END",
        ),
    )
}


def as_it_is(table: Table) -> RawTable:
    left_out = _OF_THE_STORE.get(table.name, set[str]())
    copied = (
        read_column(column, table.place_of(column), meaning=column.meaning)
        for column in table.read_as
        if column.type.kind != "bytes" and column.name not in left_out
    )
    unpacked = (read_column(column, column.name) for column in table.unpacked)
    columns = (*copied, *unpacked, *_ADDED.get(table.name, ()))
    return RawTable(name=table.name, meaning=table.meaning, columns=columns, tables=table.rows)


_BY_NAME = {
    table.name: table
    for table in (*(one for one in TABLES.values() if one.name not in _NOT_AS_THEY_ARE), *MADE_OF_TABLES)
}
STORED_PROBE = "stored_probe"
RAW_NAMES = frozenset({STORED_PROBE, SCENARIO.name, *_BY_NAME})


@cache  # a question reads two or three
def raw_table(name: str) -> RawTable:
    return SCENARIO if name == SCENARIO.name else as_it_is(_BY_NAME[name])


def raw_tables() -> tuple[RawTable, ...]:
    return SCENARIO, *map(raw_table, _BY_NAME)


_COPIED = {"models": "model", "devices": "device", "prices": "price", "sweeps": "sweep", "measurements": "measurement"}
_VOIDED = "(SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL)"
_ASKED = "EXISTS (SELECT 1 FROM sweep_interval i WHERE i.scenario_id = sc.id AND i.sweep_id {kind} {voided}{more})"
_INSIDE = " AND {batch} BETWEEN i.first_batch_size AND i.last_batch_size"


def store_views() -> Mapping[str, str]:
    """The SELECT of each view by its name, in a dialect that SQLite and PostgreSQL share."""
    views = {"probes": _probes(), "scenarios": _scenarios()}
    for name, table in _COPIED.items():
        columns = ", ".join(f"{column.source} AS {column.name}" for column in as_it_is(TABLES[table]).columns)
        views[name] = f"SELECT {columns} FROM {TABLES[table].rows}"  # noqa: S608 - our names
    views["sweep_intervals"] = (
        "SELECT sw.key AS sweep, i.scenario_id, i.first_batch_size, i.last_batch_size"
        " FROM sweep_interval i JOIN sweep sw ON sw.id = i.sweep_id"
    )
    return views


def _probes() -> str:
    stored = ", ".join(f"{column.source} AS {column.name}" for column in PROBE_COLUMNS)
    block = "pb.scenario_id = b.scenario_id AND pb.batch_size BETWEEN b.first_batch_size AND b.last_batch_size"
    return view_sql(
        f"(SELECT {stored} FROM {BLOCK_TABLES} JOIN probe pb ON {block}"  # noqa: S608 - our text
        f" WHERE NOT {_hidden('pb.batch_size')}) AS stored"
    )


def _scenarios() -> str:
    known = {column.name for column in NAMED_COLUMNS}
    columns = ", ".join(
        f"{column.source if column.name in known or column.name != 'voided' else _hidden(None)} AS {column.name}"
        for column in SCENARIO.columns
    )
    return f"SELECT {columns} FROM {SCENARIO_TABLES}"  # noqa: S608 - our names


def _hidden(batch: str | None) -> str:
    """Whether voiding hides a scenario, or a probe of it: as queries/scoping/voided.py works it out."""

    def asked(kind: str, more: str = "") -> str:
        return _ASKED.format(kind=kind, voided=_VOIDED, more=more)

    inside = "" if batch is None else _INSIDE.format(batch=batch)
    whole = "EXISTS (SELECT 1 FROM tombstone t WHERE t.lifted_at IS NULL AND t.scenario_id = sc.id)"
    by_all = f"({asked('IN')} AND NOT {asked('NOT IN')})"
    of_some = f" OR ({asked('IN', inside)} AND NOT {asked('NOT IN', inside)})" if inside else ""
    return f"({whole} OR {by_all}{of_some})"
