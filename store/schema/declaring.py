"""The words that tables and columns are declared in, and those that a column may hold and no others: no SQLAlchemy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Literal, get_args

from store.errors import InputError
from store.light_dataclass import dataclass
from store.texts import checked_name, checked_text

Phase = Literal["prefill", "decode", "aggregated"]
Convention = Literal["physical", "upstream"]
USUAL_CONVENTION: Convention = "physical"
Status = Literal["ok", "illegal", "unsupported", "error"]
SweepKind = Literal["request", "validation", "import"]
ShardState = Literal["waiting", "stored", "failed"]
SweepOutcome = Literal["finished", "interrupted", "failed"]
LoadStatus = Literal["stable", "saturated"]
Family = Literal["theoretical", "calibrated"]
FormulaModel = Literal["waves", "seed002"]  # serving models that are formulas; every other name is an engine's
FORMULA_MODELS: tuple[FormulaModel, ...] = get_args(FormulaModel)
FORMULAS: FormulaModel = "waves"  # those that serve where no engine does, and whose errors are stated
TierName = Literal["host", "ssd", "remote"]  # where keys lie outside the devices, from the nearest on
TIER_PLACES: Mapping[TierName, str] = {
    "host": "the hosts' memory",
    "ssd": "the hosts' SSDs",
    "remote": "a remote store",
}
Kind = Literal["key", "integer", "long", "short", "double", "flag", "text", "moment", "bytes"]
Committed = Literal["block", "load"]
OnPairs = Literal["sides", "once", "alone", "hidden"]  # how a pair names a column of its sides
PHASES: tuple[Phase, ...] = get_args(Phase)
STEP_KINDS = ("matrix", "vector", "memory", "communication", "overhead")  # what a step of an engine takes its time for


@dataclass(frozen=True, slots=True)
class ColumnType:
    """The type of a column: how a database keeps it, its longest text, and what DuckDB and snapshots read it as."""

    kind: Kind
    read_as: str
    length: int | None = None


INTEGER = ColumnType("integer", "INTEGER")
LONG = ColumnType("long", "BIGINT")
DOUBLE = ColumnType("double", "DOUBLE")
FLAG = ColumnType("flag", "BOOLEAN")
TEXT = ColumnType("text", "VARCHAR")


def text(length: int) -> ColumnType:
    return ColumnType("text", "VARCHAR", length)


TYPES: Mapping[str, ColumnType] = {  # by the words that columns.csv has for them
    "key": ColumnType("key", "BIGINT"),  # integer keys, which count up, and references to them
    "integer": INTEGER,
    "integers": ColumnType("integer", "INTEGER[]"),
    "long": LONG,
    "short": ColumnType("short", "INTEGER"),
    "double": DOUBLE,
    "flag": FLAG,
    "text": TEXT,
    "name": text(200),
    "digest": text(64),
    "moment": ColumnType("moment", "TIMESTAMP"),
    "bytes": ColumnType("bytes", "BLOB"),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column. `refers_to` names a table and column, `one_of` lists what it may hold, `default` is for older rows.

    `told` is the meaning to readers of a probe, who do not see the table that the column stands in; rows of other
    `phases` have none. A pair shows it of the `sides` that have it, `once` where both agree, or under its own name
    where one side `alone` has it."""

    name: str
    type: ColumnType
    unit: str
    meaning: str
    nullable: bool = False
    primary: bool = False
    unique: bool = False
    index: bool = False
    refers_to: str | None = None
    one_of: tuple[str, ...] = ()
    default: str | None = None
    told: str | None = None
    phases: tuple[Phase, ...] = PHASES
    on_pairs: OnPairs | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """One table. `unique` lists columns that together are unique, `checks` conditions and `indexes` columns by name.

    `by_key` keeps rows in the order of the primary key, without row ids of SQLite's own. Triggers refuse to change rows
    that were `committed_with` a block or a load, and to delete them unless they are `removable`.
    What its bytes are `unpacked` to is for readers. A relation `made_of` a table's rows is none of the database.
    What many rows have in common stands in the table that it `shares`; readers see `whole` rows."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    unique: tuple[str, ...] = ()
    checks: tuple[tuple[str, str], ...] = ()
    indexes: tuple[tuple[str, str], ...] = ()
    by_key: bool = False
    committed_with: Committed | None = None
    removable: bool = False
    once: bool = False
    unpacked: tuple[Column, ...] = ()
    made_of: str | None = None
    shares: str | None = None
    whole: tuple[Column, ...] = ()

    @property
    def read_as(self) -> tuple[Column, ...]:
        return self.whole or self.columns

    @property
    def rows(self) -> str:
        """Readers select its columns from these."""
        if self.shares is None:
            return self.made_of or self.name
        (reference,) = (column.name for column in self.columns if column.refers_to == f"{self.shares}.id")
        return f"{self.name} JOIN {self.shares} ON {self.shares}.id = {self.name}.{reference}"

    def place_of(self, column: Column) -> str:
        """As `rows` call a column: of two tables, with the name of its own."""
        return f"{self.name if column in self.columns else self.shares}.{column.name}" if self.shares else column.name

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    @property
    def refusals(self) -> dict[str, str]:
        """The triggers that keep its rows as they were committed: the change that each refuses, by its name."""
        changes = () if self.committed_with is None else ("update",) if self.removable else ("update", "delete")
        return {f"{self.name}_refuses_{change}": change for change in changes}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def row_of(self, record: object, **more: object) -> dict[str, Any]:
        """Return the columns that a record has under the same names, and `more`.

        Raise where a value is missing, is none that its column may hold, or breaks the rule of names and texts."""
        row = {name: getattr(record, name) for name in self._read_of(record) if name not in more} | more
        for column in self._checked():
            if column.name in row:
                self._check(column, row[column.name])
        return row

    def check(self, name: str, value: object) -> None:
        """Raise where a column cannot hold a value, or a text breaks the rule of names and texts."""
        self._check(self.column(name), value)

    def _checked(self) -> tuple[Column, ...]:
        """Columns whose values are looked at: those that are never missing, and those of text."""
        kept = _CHECKED.get(id(self))
        if kept is None:
            found = tuple(one for one in self.columns if not one.nullable or one.one_of or one.type.kind == "text")
            kept = _CHECKED[id(self)] = (found, self)
        return kept[0]

    def _read_of(self, record: object) -> tuple[str, ...]:
        """Columns that a record has; all of a class have the same where its fields are declared."""
        kind = type(record)
        kept = _READ.get((id(self), kind))
        if kept is None:
            names = tuple(name for name in self.names if hasattr(record, name))
            if not is_dataclass(kind):
                return names
            kept = _READ[id(self), kind] = (names, self)
        return kept[0]

    def _check(self, column: Column, value: object) -> None:
        if value is None and not column.nullable:
            raise InputError(f"The column {column.name} of {self.name} is never missing.")
        if value is not None and column.one_of and value not in column.one_of:
            raise InputError(
                f"The column {column.name} of {self.name} is {value!r}, none of {', '.join(column.one_of)}."
            )
        if isinstance(value, str) and column.unit != "JSON":  # which is checked by whoever made it
            what = f"The {column.name} of a {self.name.partition('_')[0]}"
            if column.type.length is None:
                checked_text(value, what)
            else:
                checked_name(value, what, longest=column.type.length)


# The columns that records of a class have, by table: looking for them takes longer than reading them.
_READ: dict[tuple[int, type], tuple[tuple[str, ...], Table]] = {}
_CHECKED: dict[int, tuple[tuple[Column, ...], Table]] = {}
