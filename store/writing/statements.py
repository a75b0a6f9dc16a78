"""Statements that SQLite and PostgreSQL write differently, and stamps of rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, DateTime, Table

Item = TypeVar("Item")
_PARAMETERS_A_STATEMENT = 500  # well below SQLite's oldest limit of 999 for one statement


def utc_now() -> datetime:
    return datetime.now(UTC)


def as_utc(moment: datetime) -> datetime:
    """SQLite keeps no zone, so all is UTC, bare moments too."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def chunks(items: Iterable[Item], size: int = _PARAMETERS_A_STATEMENT) -> Iterator[list[Item]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk


def insert_missing(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    if not rows:
        return
    connection.execute(_insert_into(table, connection).on_conflict_do_nothing(), list(rows))


def insert_columns(connection: Connection, table: Table, columns: Mapping[str, Sequence[Any]]) -> None:
    """As `insert_missing`, without columns of which no row says anything: most of an insert is binding."""
    said = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    if connection.dialect.name != "sqlite":
        insert_missing(
            connection, table, [dict(zip(said, row, strict=True)) for row in zip(*said.values(), strict=True)]
        )
        return
    told = (_as_sqlite(one) if isinstance(table.c[name].type, DateTime) else one for name, one in said.items())
    places = ", ".join("?" * len(said))
    statement = f"INSERT OR IGNORE INTO {table.name} ({', '.join(said)}) VALUES ({places})"  # noqa: S608  the schema's
    connection.exec_driver_sql(statement, list(zip(*told, strict=True)))


def _as_sqlite(moments: Sequence[datetime | None]) -> Sequence[str | None]:
    written = {one: as_utc(one).strftime("%Y-%m-%d %H:%M:%S.%f") for one in {*moments} if one is not None}
    return [None if one is None else written[one] for one in moments]


def insert_or_update(
    connection: Connection, table: Table, row: Mapping[str, Any], *, key: Sequence[str], update: Sequence[str]
) -> None:
    statement = _insert_into(table, connection).values(**row)
    replaced = {name: statement.excluded[name] for name in update}
    connection.execute(statement.on_conflict_do_update(index_elements=list(key), set_=replaced))


def _insert_into(table: Table, connection: Connection) -> Any:  # noqa: ANN401  each database has its own class
    """May say what happens to present keys; imports one database's module."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects.postgresql import insert
    else:
        from sqlalchemy.dialects.sqlite import insert  # type: ignore[assignment]
    return insert(table)
