"""Public views and columns with units and meanings, as `sweepdb sql --schema` prints.

Columns come from DuckDB, meanings from headers and declarations, so none can be stale."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from queries.asking.headers import HeaderColumn, read_header
from queries.connect import create_shape
from queries.vocabulary import VocabularyFile, files_for, vocabulary
from store.reading import duckdb, in_memory
from store.schema import PROBE_COLUMNS, STORED_PROBE, VIEW_COLUMNS, ReadColumn, measured_select, raw_table, raw_tables

_REPEATED = "probe"
_STORED_MEANING = "every stored probe that is not voided, as snapshots hold it; `probe` adds what is derived"


@dataclass(frozen=True, slots=True, kw_only=True)
class DictionaryColumn:
    name: str
    type: str
    unit: str
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DictionaryRelation:
    """A macro is called with arguments, as `call` shows."""

    name: str
    kind: Literal["view", "macro", "raw"]
    call: str
    meaning: str
    columns: tuple[DictionaryColumn, ...]


def dictionary() -> tuple[DictionaryRelation, ...]:
    with in_memory() as connection:
        connection.execute("CREATE SCHEMA raw")
        for name in (STORED_PROBE, *(table.name for table in raw_tables())):
            create_shape(connection, name)
        for file in files_for(vocabulary()):
            connection.execute(file.sql)
        public = tuple(_public(connection, name, vocabulary()[name]) for name in sorted(vocabulary()))
    return public + _raw()


def _public(connection: duckdb.DuckDBPyConnection, name: str, file: VocabularyFile) -> DictionaryRelation:
    arguments = connection.execute(
        "SELECT parameters FROM duckdb_functions() WHERE function_name = $name AND function_type = 'table_macro'",
        {"name": name},
    ).fetchone()
    call = name if arguments is None else f"{name}({', '.join(arguments[0])})"
    asked = name if arguments is None else f"{name}({', '.join('NULL' for _ in arguments[0])})"
    described = connection.execute(f"DESCRIBE SELECT * FROM {asked}").fetchall()  # noqa: S608 - our names
    meanings = _meanings(file)
    return DictionaryRelation(
        name=name,
        kind="view" if arguments is None else "macro",
        call=call,
        meaning=read_header(file.path).summary,
        columns=tuple(_column(name, str(column), str(type_), meanings) for column, type_, *_ in described),
    )


def _column(relation: str, name: str, type_: str, meanings: dict[str, HeaderColumn | ReadColumn]) -> DictionaryColumn:
    if name not in meanings:
        raise ValueError(f"queries/views/{relation}.sql: no header line explains the column {name}")
    found = meanings[name]
    return DictionaryColumn(name=name, type=type_, unit=found.unit, meaning=found.meaning)


def _meanings(file: VocabularyFile) -> dict[str, HeaderColumn | ReadColumn]:
    """The nearest header first, then the store's declaration."""
    known: dict[str, HeaderColumn | ReadColumn] = {}
    if measured_select() in file.sql:  # in the columns of `probe`
        known.update({column.name: column for column in VIEW_COLUMNS})
    for source in sorted(file.raw):
        known.update(
            {column.name: column for column in (VIEW_COLUMNS if source == STORED_PROBE else _declared(source))}
        )
    for name in sorted(file.public):
        known.update(_meanings(vocabulary()[name]))
    known.update({column.name: column for column in read_header(file.path).columns})
    return known


def _declared(raw: str) -> tuple[ReadColumn, ...]:
    if raw == STORED_PROBE:
        return PROBE_COLUMNS
    return raw_table(raw).columns


def _raw() -> tuple[DictionaryRelation, ...]:
    meanings = {STORED_PROBE: _STORED_MEANING, **{table.name: table.meaning for table in raw_tables()}}
    return tuple(
        DictionaryRelation(
            name=f"raw.{name}",
            kind="raw",
            call=f"raw.{name}",
            meaning=meaning,
            columns=tuple(
                DictionaryColumn(name=column.name, type=column.type, unit=column.unit, meaning=column.meaning)
                for column in _declared(name)
            ),
        )
        for name, meaning in sorted(meanings.items())
    )


def schema_text() -> str:
    relations = dictionary()
    lines = []
    for relation in relations:
        lines.append(f"{relation.call}: {relation.meaning}")
        own, repeated = own_columns(relation, relations)
        if repeated:
            lines.append(f"  the columns of {repeated}{', and' if own else ''}")
        kinds = [_kind(column) for column in own]
        width = max((len(column.name) for column in own), default=0)
        kind_width = max(map(len, kinds), default=0)
        lines.extend(
            f"  {column.name:<{width}}  {kind:<{kind_width}}  {column.meaning}"
            for column, kind in zip(own, kinds, strict=True)
        )
        lines.append("")
    return "\n".join(lines)


def own_columns(
    relation: DictionaryRelation, relations: tuple[DictionaryRelation, ...]
) -> tuple[tuple[DictionaryColumn, ...], str | None]:
    """Only those beyond `probe`'s, where it has all of them."""
    repeated = next(other for other in relations if other.name == _REPEATED)
    if relation is repeated or not set(repeated.columns) <= set(relation.columns):
        return relation.columns, None
    return tuple(column for column in relation.columns if column not in repeated.columns), _REPEATED


def _kind(column: DictionaryColumn) -> str:
    return column.type if column.unit == "none" else f"{column.type} [{column.unit}]"


_PAGE_HEAD = """# Views and columns

`sweepdb sql --schema` prints the same. How to ask:
[SQL](../howto/ask-a-store.md). How it is read: [how a store is read](scale.md).

Missing is NULL, never 0. A unit in the name is the unit of the value.
"""
_RAW_HEAD = """
# Raw relations

What the views are built on: tables of the store as they are, and stored probes with their names joined. Ids are
integers that hold within one store only.
"""


def schema_markdown() -> str:
    parts = [_PAGE_HEAD]
    relations = dictionary()
    for relation in relations:
        if relation.kind == "raw" and _RAW_HEAD not in parts:
            parts.append(_RAW_HEAD)
        head = f"\n## {relation.name}\n\n" + (f"`{relation.call}`: " if relation.kind == "macro" else "")
        parts.append(f"{head}{relation.meaning}\n\n")
        own, repeated = own_columns(relation, relations)
        if repeated:
            parts.append(f"The columns of [{repeated}](#{repeated})" + (", and:\n\n" if own else ".\n"))
        if own:
            parts.append("| column | type | unit | meaning |\n|---|---|---|---|\n")
        parts.extend(
            f"| `{column.name}` | {column.type} | {'' if column.unit == 'none' else column.unit} | {column.meaning} |\n"
            for column in own
        )
    return "".join(parts)
