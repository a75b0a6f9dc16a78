"""One read-only transaction over a store through its plain driver: everything read in it is of one moment."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Literal

from store.faults import store_faults
from store.light_dataclass import NamedTuple
from store.location import StoreLocation
from store.reading.connecting import IDENTITY, check_sqlite, connect_postgresql, connect_sqlite, identity_of
from store.reading.typed_rows import Cells, OtherT, RowT, ValueT, typed_pairs, typed_rows, typed_values

_FETCHED_AT_ONCE = 10_000
_KEPT: ContextVar[Mapping[StoreLocation, list[sqlite3.Connection]]] = ContextVar("kept", default={})  # noqa: B039  never changed
_NAMED_AT_ONCE = 450  # SQLite of before takes 999 parameters


class _Named(NamedTuple):
    id: int
    name: str


class _Numbers(NamedTuple):
    first: int
    second: int


class ReadTransaction(ABC):
    """The operations that reading needs of a driver. A `?` marks a parameter; a whole result is never in memory."""

    location: StoreLocation
    store_id: str
    """Identity of the store, read before the transaction: a list of parts read in between holds no later block."""
    ranges: str
    """A table `r (part, lo, hi)` made of one parameter, a JSON list of [part, lo, hi]."""
    json_list: str
    """The function that makes a JSON list of its parameters."""
    _schema = ""  # before the name of a table, where a statement calls something else so
    _before = ""  # of every statement

    def see_only(self, conditions: Mapping[str, str]) -> None:
        listed = (
            f"{name} AS (SELECT * FROM {self._schema}{name} WHERE {condition})"  # noqa: S608 - our names and numbers
            for name, condition in conditions.items()
        )
        self._before = f"WITH {', '.join(listed)} "

    def rows(self, row_type: type[RowT], statement: str, parameters: Sequence[object] = ()) -> Iterator[RowT]:
        """Yield the rows of a statement as NamedTuples, each column of the type that its field declares."""
        return typed_rows(row_type, self._chunks(self._before + statement, parameters))

    def rows_of(self, row_type: type[RowT], statement: str, names: Iterable[str]) -> Iterator[RowT]:
        """Yield the rows of a statement whose `{marks}` stand for names, however many these are."""
        wanted = sorted(set(names))
        for some in (wanted[start : start + _NAMED_AT_ONCE] for start in range(0, len(wanted), _NAMED_AT_ONCE)):
            asked = statement.format(marks=", ".join("?" * len(some)))
            yield from self.rows(row_type, asked, some * statement.count("{marks}"))

    def pairs(
        self, left: type[RowT], right: type[OtherT], statement: str, parameters: Sequence[object] = ()
    ) -> Iterator[tuple[RowT, OtherT]]:
        """Yield the rows of a statement as two NamedTuples each: one of the first columns, one of the others."""
        return typed_pairs(left, right, self._chunks(self._before + statement, parameters))

    def values(self, type_: type[ValueT], statement: str, parameters: Sequence[object] = ()) -> Iterator[ValueT]:
        return typed_values(type_, self._chunks(self._before + statement, parameters))

    def keys(self, table: Literal["scenario", "workload"]) -> dict[int, str]:
        return self.named(f"SELECT id, key FROM {table}")  # noqa: S608 - our names

    def named(self, statement: str, parameters: Sequence[object] = ()) -> dict[int, str]:
        """A text by integer key."""
        return dict(self.rows(_Named, statement, parameters))

    def numbers(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[tuple[int, int]]:
        return self.rows(_Numbers, statement, parameters)

    def cells(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Cells]:
        for chunk in self._chunks(self._before + statement, parameters):
            yield from chunk

    @abstractmethod
    def _chunks(self, statement: str, parameters: Sequence[object]) -> Iterator[Sequence[Cells]]: ...

    @abstractmethod
    def close(self) -> None: ...


class _Sqlite(ReadTransaction):
    ranges = (
        "(SELECT json_extract(value, '$[0]') AS part, json_extract(value, '$[1]') AS lo,"
        " json_extract(value, '$[2]') AS hi FROM json_each(?)) r"
    )
    json_list = "json_array"
    _schema = "main."

    def __init__(self, location: StoreLocation) -> None:
        self.location = location
        self._kept = _KEPT.get().get(location)
        self._connection = self._kept.pop() if self._kept else connect_sqlite(location)
        try:
            if self._kept is not None:
                check_sqlite(location, self._connection)
            self.store_id = identity_of(location, self._connection.execute(IDENTITY).fetchall())
        except BaseException:
            self._connection.close()
            raise
        self._connection.execute("BEGIN")  # deferred: its moment is that of the first rows read

    def _chunks(self, statement: str, parameters: Sequence[object]) -> Iterator[Sequence[Cells]]:
        cursor = self._connection.execute(statement, tuple(parameters))
        while chunk := cursor.fetchmany(_FETCHED_AT_ONCE):
            yield chunk

    def close(self) -> None:
        if self._kept is not None:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
                self._kept.append(self._connection)
                return
        self._connection.close()


class _Postgresql(ReadTransaction):
    ranges = (
        "(SELECT (value->>0)::bigint AS part, (value->>1)::bigint AS lo, (value->>2)::bigint AS hi"
        " FROM jsonb_array_elements(?::jsonb)) r"
    )
    json_list = "json_build_array"

    def __init__(self, location: StoreLocation) -> None:
        from psycopg import IsolationLevel

        self.location = location
        self._connection = connect_postgresql(location)
        try:
            self.store_id = identity_of(location, self._connection.execute(IDENTITY).fetchall())
        except BaseException:
            self._connection.close()
            raise
        self._connection.rollback()
        self._connection.isolation_level = IsolationLevel.REPEATABLE_READ
        self._cursors = 0

    def _chunks(self, statement: str, parameters: Sequence[object]) -> Iterator[Sequence[Cells]]:
        self._cursors += 1
        text = statement.replace("%", "%%").replace("?", "%s")
        with self._connection.cursor(name=f"sweepdb_{self._cursors}") as cursor:
            cursor.execute(text.encode(), tuple(parameters))
            while chunk := cursor.fetchmany(_FETCHED_AT_ONCE):
                yield chunk

    def close(self) -> None:
        self._connection.close()


@contextmanager
def connections_kept(location: StoreLocation) -> Iterator[None]:
    """Transactions that follow each other share a connection: SQLite reads a file's schema as it opens it."""
    kept: list[sqlite3.Connection] = []
    token = _KEPT.set({location: kept})
    try:
        yield
    finally:
        _KEPT.reset(token)
        for connection in kept:
            connection.close()


@contextmanager
def read_transaction(location: StoreLocation) -> Iterator[ReadTransaction]:
    """Read a store inside one consistent transaction; driver errors become store errors."""
    with store_faults(location):
        transaction: ReadTransaction = _Sqlite(location) if location.kind == "sqlite" else _Postgresql(location)
        try:
            if location.moment is not None:
                transaction.see_only(location.moment.conditions)
            yield transaction
        finally:
            transaction.close()
