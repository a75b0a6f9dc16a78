"""One read-only transaction over a store through its plain driver: everything read in it is of one moment.

Not here: checking that it is a store (store.reading), and what is read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from store.faults import store_faults
from store.location import StoreLocation
from store.reading import connect_postgresql, connect_sqlite

_FETCHED_AT_ONCE = 10_000
_IDENTITY = "SELECT store_id FROM store_identity"


class ReadTransaction(Protocol):
    """What reading needs of a driver. Statements mark parameters with `?`."""

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Sequence[object]]:
        """Yield the rows of a statement; the whole result is never in memory."""
        ...

    store_id: str
    """Identity of the store, read before the transaction: a list of parts read in between holds no later block."""

    @property
    def ranges(self) -> str:
        """A table `r (part, lo, hi)` made of one parameter, a JSON list of [part, lo, hi]."""
        ...


class _Sqlite:
    ranges = (
        "(SELECT json_extract(value, '$[0]') AS part, json_extract(value, '$[1]') AS lo,"
        " json_extract(value, '$[2]') AS hi FROM json_each(?)) r"
    )

    def __init__(self, location: StoreLocation) -> None:
        self._connection = connect_sqlite(location)
        self.store_id = str(self._connection.execute(_IDENTITY).fetchone()[0])
        self._connection.execute("BEGIN")  # deferred: its moment is that of the first rows read

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Sequence[object]]:
        cursor = self._connection.execute(statement, tuple(parameters))
        cursor.arraysize = _FETCHED_AT_ONCE
        while chunk := cursor.fetchmany():
            yield from chunk

    def close(self) -> None:
        self._connection.close()


class _Postgresql:
    ranges = (
        "(SELECT (value->>0)::bigint AS part, (value->>1)::bigint AS lo, (value->>2)::bigint AS hi"
        " FROM jsonb_array_elements(?::jsonb)) r"
    )

    def __init__(self, location: StoreLocation) -> None:
        from psycopg import IsolationLevel

        self._connection = connect_postgresql(location)
        identity = self._connection.execute(_IDENTITY).fetchone()
        self.store_id = str(identity[0]) if identity else ""
        self._connection.rollback()
        self._connection.isolation_level = IsolationLevel.REPEATABLE_READ
        self._cursors = 0

    def rows(self, statement: str, parameters: Sequence[object] = ()) -> Iterator[Sequence[object]]:
        self._cursors += 1
        text = statement.replace("%", "%%").replace("?", "%s")
        with self._connection.cursor(name=f"sweepdb_{self._cursors}") as cursor:
            cursor.itersize = _FETCHED_AT_ONCE
            cursor.execute(text.encode(), tuple(parameters))
            yield from cursor

    def close(self) -> None:
        self._connection.close()


@contextmanager
def read_transaction(location: StoreLocation) -> Iterator[ReadTransaction]:
    """Read a store inside one consistent transaction; driver errors become store errors."""
    with store_faults(location):
        transaction = _Sqlite(location) if location.kind == "sqlite" else _Postgresql(location)
        try:
            yield transaction
        finally:
            transaction.close()
