"""Every table of the store, from `columns.csv`: databases, raw relations, stored rows and the reference page follow.

A line without a column is of the table itself. New stores are laid down from here; a migration repeats what it adds to
those that are there, and a test compares the two. Meanings end up as comments of the database."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, starmap
from operator import attrgetter
from pathlib import Path
from typing import cast, get_args

from store.light_dataclass import NamedTuple
from store.schema import declaring
from store.schema.declaring import PHASES, TYPES, Column, Committed, OnPairs, Table, text
from store.schema.plan_columns import MEASURED_SHARES, OF_DEVICES, OF_SHARES
from store.schema.service_columns import OF_SERVICE

Rules = Mapping[str, str]  # by name; those without a value hold an empty text
_FILE = Path(__file__).with_name("columns.csv")


class Line(NamedTuple):
    """A line of the file, by its columns."""

    table: str
    column: str
    type: str
    unit: str
    meaning: str
    rules: Rules
    told: str


def _line(table: str, column: str, type_: str, unit: str, meaning: str, told_rules: str, told: str) -> Line:  # noqa: PLR0917  a cell each
    rules = {name: value for name, _, value in (rule.partition("=") for rule in told_rules.split())}
    return Line(table, column, type_, unit, meaning, rules, told)


def _column(line: Line) -> Column:
    rules = line.rules
    return Column(
        name=line.column,
        type=text(int(line.type[5:])) if line.type.startswith("text ") else TYPES[line.type],
        unit=line.unit,
        meaning=line.meaning,
        nullable="null" in rules,
        primary="primary" in rules,
        unique="unique" in rules,
        index="index" in rules,
        refers_to=f"{rules['of']}.id" if "of" in rules else None,
        one_of=tuple(_closed(rules["one_of"])) if "one_of" in rules else (),
        default=rules.get("default"),
        told=line.told or None,
        phases=tuple(phase for phase in PHASES if phase in rules["phases"].split("+")) if "phases" in rules else PHASES,
        on_pairs=cast("OnPairs | None", rules.get("pairs")),
    )


def _closed(words: str) -> Iterator[str]:
    """The values that a column may hold; a word with a capital letter names a closed set."""
    for word in words.split("+"):
        yield from get_args(getattr(declaring, word)) if word[0].isupper() else (word,)


def _sides() -> Iterator[Column]:
    """The columns of both sides of a measured deployment; an aggregated one has the same on both."""
    of_side = (
        Column("instances", TYPES["integer"], "instances", "instances of this side"),
        *OF_DEVICES,
        Column("batch_size", TYPES["double"], "requests", "batch size"),
    )
    for part in (of_side, MEASURED_SHARES):
        for side in ("prefill", "decode"):
            for column in part:
                shared = "" if column.name == "batch_size" else " (aggregated: the same on both)"
                meaning = f"{side} side{shared}: {column.meaning}"
                yield Column(f"{side}_{column.name}", column.type, column.unit, meaning, nullable=True)


_ELSEWHERE = {"{devices}": OF_DEVICES, "{shares}": OF_SHARES, "{service}": OF_SERVICE, "{sides}": tuple(_sides())}


def _names(listed: str) -> Iterator[str]:
    for name in listed.split("+"):
        yield from (column.name for column in _ELSEWHERE[name]) if name in _ELSEWHERE else (name,)


def _pairs(told: str, between: str) -> tuple[tuple[str, str], ...]:
    """Names with what stands behind them."""
    return tuple((name, rest) for name, _, rest in (one.partition(between) for one in told.split("; ") if one))


def _columns(lines: Iterable[Line]) -> tuple[Column, ...]:
    return tuple(one for line in lines for one in _ELSEWHERE.get(line.column) or (_column(line),))


def _table(own: Line, lines: Sequence[Line], shared: Sequence[Line] = ()) -> Table:
    """With columns that are `shared` by rows of another table, if any."""
    rules = own.rules
    shares = rules.get("shares")
    stored, unpacked = ([line for line in lines if ("unpacked" in line.rules) is said] for said in (False, True))
    whole = [line for line in stored if line.rules.get("of") != shares] if shares else []
    stored = [*(line for line in stored if "shared" not in line.rules), *shared]
    return Table(
        name=own.table,
        meaning=own.meaning,
        columns=_columns(stored),
        unique=tuple(_names(rules["unique"])) if "unique" in rules else (),
        checks=_pairs(own.told, ": "),
        indexes=_pairs(rules.get("index", ""), "+"),
        by_key="by_key" in rules,
        committed_with=cast("Committed | None", rules.get("with")),
        removable="removable" in rules,
        once="once" in rules,
        unpacked=tuple(map(_column, unpacked)),
        made_of=rules.get("of"),
        shares=shares,
        whole=_columns(whole),
    )


def _declared() -> Iterator[Table]:
    with _FILE.open(encoding="utf-8", newline="") as file:
        _, *cells = csv.reader(file)
        groups = [list(one) for _, one in groupby(starmap(_line, cells), attrgetter("table"))]
    shared = {
        shares: [line for line in lines if "shared" in line.rules]
        for own, *lines in groups
        if (shares := own.rules.get("shares")) is not None
    }
    for own, *lines in groups:
        yield _table(own, lines, shared.get(own.table, ()))


_ALL = tuple(_declared())
TABLES: dict[str, Table] = {table.name: table for table in _ALL if table.made_of is None}
MADE_OF_TABLES = tuple(table for table in _ALL if table.made_of is not None)  # when they are sealed or read
MEASURES = tuple(column for column in TABLES["probe"].columns if not column.primary)


ALIASES = {
    "b": "block",
    "sw": "sweep",
    "pb": "probe",
    "sc": "scenario",
    "sj": "subject",
    "m": "model",
    "d": "device",
    "p": "plan",
    "pr": "precision",
    "w": "workload",
}
SCENARIO_REFERENCES = {  # table by alias, and the column of an earlier table that refers to it
    "sj": "sc.subject_id",
    "m": "sj.model_id",
    "d": "sc.device_id",
    "p": "sj.plan_id",
    "pr": "sj.precision_id",
    "w": "sj.workload_id",
}


def scenario_tables(*aliases: str, schema: str = "") -> str:
    return f"{schema}scenario sc{_joined(aliases, schema)}"


def with_scenarios(table: str, reference: str, *aliases: str) -> str:
    return f"{table} JOIN scenario sc ON sc.id = {reference}{_joined(aliases, '')}"


def _joined(aliases: tuple[str, ...], schema: str) -> str:
    wanted = {"sj", *aliases} if aliases else set(SCENARIO_REFERENCES)
    return "".join(
        f" JOIN {schema}{ALIASES[alias]} {alias} ON {alias}.id = {reference}"
        for alias, reference in SCENARIO_REFERENCES.items()
        if alias in wanted
    )


SCENARIO_TABLES = scenario_tables()
VOIDED_SWEEPS = "SELECT sweep_id FROM tombstone WHERE lifted_at IS NULL AND sweep_id IS NOT NULL"
BLOCK_TABLES = with_scenarios("block b JOIN sweep sw ON sw.id = b.sweep_id", "b.scenario_id")
# Left joins keep SQLite, which ANALYZE tells how small other tables are, from beginning with these: minutes instead of
# milliseconds in a store of a million scenarios. A reference is never NULL, so rows are the same.
BLOCKS_FIRST = BLOCK_TABLES.replace(" JOIN ", " LEFT JOIN ")
