"""Tables of databases in one transaction; SQLite and PostgreSQL row by row."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from queries.asking.variables import literal
from queries.publishing import targets
from store.errors import InputError
from store.location import parse_url
from store.whole_files import refuse_special

if TYPE_CHECKING:
    import duckdb

_ROWS = 10_000
_INDEX = "scenario_id, block_id"


class TableTarget(targets.Target):
    """Tables of a database."""

    mark = "?"
    place = ""  # before the name of a table
    types: ClassVar[Mapping[str, str]] = {}
    _duckdb: duckdb.DuckDBPyConnection
    _connection: Any  # of one driver or the other

    @abstractmethod
    def _tables(self) -> set[str]: ...

    def published_of(self) -> targets.Published | None:
        tables = self._tables()
        if not tables:
            return None
        if targets.STAMP not in tables:
            raise targets.not_ours(self.display)
        row = self._connection.execute(f"SELECT store_id, layout FROM {self.place}{targets.STAMP}").fetchone()
        return None if row is None else targets.Published(store_id=str(row[0]), layout=str(row[1]))

    def begin_anew(self, probes: targets.PublishedRelation) -> None:
        self._create(targets.PROBES, [(column.name, column.type) for column in probes.columns])

    def blocks(self) -> targets.Blocks:
        rows = self._connection.execute(targets.BLOCKS.format(probes=f"{self.place}{targets.PROBES}")).fetchall()
        return {(row[0], row[1]): tuple(map(int, row[2:])) for row in rows}

    def append(self, columns: targets.Typed, select: str) -> None:
        self._insert(targets.PROBES, columns, select)

    def replace(self, name: str, columns: targets.Typed, select: str) -> None:
        self._create(name, columns)
        self._insert(name, columns, select)

    def stamp(self, store_id: str, layout: str, moment: str, probes: int) -> None:
        self._create(targets.STAMP, targets.STAMP_COLUMNS)
        marks = ", ".join([self.mark] * len(targets.STAMP_COLUMNS))
        self._connection.execute(
            f"INSERT INTO {self.place}{targets.STAMP} VALUES ({marks})", (store_id, layout, moment, probes)
        )

    def comment(self, relations: Sequence[targets.PublishedRelation]) -> None:
        for relation in relations:
            table = f"{self.place}{relation.name}"
            self._connection.execute(f"COMMENT ON TABLE {table} IS {literal(relation.meaning)}")
            for column in relation.columns:
                told = literal(targets.commented(column))
                self._connection.execute(f"COMMENT ON COLUMN {table}.{targets.quoted(column.name)} IS {told}")

    def _create(self, name: str, columns: targets.Typed) -> None:
        typed = ", ".join(f"{targets.quoted(column)} {self.types.get(type_, type_)}" for column, type_ in columns)
        self._connection.execute(f"DROP TABLE IF EXISTS {self.place}{name}")
        self._connection.execute(f"CREATE TABLE {self.place}{name} ({typed})")

    @abstractmethod
    def _insert(self, name: str, columns: targets.Typed, select: str) -> None: ...


@contextmanager
def whole_or_not(connection: Any, close: Callable[[], object], path: Path, *, was_there: bool) -> Iterator[None]:  # noqa: ANN401
    """A transaction that has begun. A file that it made is gone where it fails."""
    kept = False
    try:
        yield
        connection.execute("COMMIT")
        kept = True
    finally:
        if not kept:
            connection.execute("ROLLBACK")
        close()
        if not kept and not was_there:
            path.unlink(missing_ok=True)


class _RowTarget(TableTarget):
    """Row by row."""

    def begin_anew(self, probes: targets.PublishedRelation) -> None:
        super().begin_anew(probes)
        self._connection.execute(f"CREATE INDEX ix_{targets.PROBES}_block ON {targets.PROBES} ({_INDEX})")

    def remove(self, blocks: Sequence[targets.Block]) -> None:
        statement = f"DELETE FROM {targets.PROBES} WHERE scenario_id = {self.mark} AND block_id = {self.mark}"
        for block in blocks:
            self._connection.execute(statement, block)

    def _rows(self, columns: targets.Typed, select: str) -> Iterator[tuple[Any, ...]]:
        told = ", ".join(
            f"CAST({targets.quoted(name)} AS VARCHAR)" if type_ == "TIMESTAMP" else targets.quoted(name)
            for name, type_ in columns
        )
        cursor = self._duckdb.execute(f"SELECT {told} FROM ({select}) AS shown")
        while rows := cursor.fetchmany(_ROWS):
            yield from rows


class SqliteTarget(_RowTarget):
    """Its table `dictionary` has meanings: SQLite keeps no comments."""

    types: ClassVar = {
        "VARCHAR": "TEXT", "BIGINT": "INTEGER", "DOUBLE": "REAL", "BOOLEAN": "INTEGER", "TIMESTAMP": "TEXT",
    }  # fmt: skip

    def __init__(self, path: Path) -> None:
        self.display = str(path)
        self._path = path

    @contextmanager
    def opened(self, duckdb_: duckdb.DuckDBPyConnection) -> Iterator[None]:
        refuse_special(self._path)
        self._duckdb = duckdb_
        was_there = self._path.exists()
        try:
            self._connection = sqlite3.connect(self._path, isolation_level=None)
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise InputError(f"{self._path}: {error}", hint="name a file that you may write") from error
        with whole_or_not(self._connection, self._connection.close, self._path, was_there=was_there):
            yield

    def _tables(self) -> set[str]:
        return {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def comment(self, relations: Sequence[targets.PublishedRelation]) -> None:
        """The table `dictionary` has them."""

    def _insert(self, name: str, columns: targets.Typed, select: str) -> None:
        statement = f"INSERT INTO {name} VALUES ({', '.join('?' for _ in columns)})"
        rows = self._rows(columns, select)
        while some := list(islice(rows, _ROWS)):
            self._connection.executemany(statement, some)


class PostgresqlTarget(_RowTarget):
    """The search path's first schema, which must hold nothing else."""

    mark = "%s"
    types: ClassVar = {"VARCHAR": "text", "DOUBLE": "double precision"}

    def __init__(self, url: str) -> None:
        location = parse_url(url)
        self.display = location.display
        self._url = location.driver_url

    @contextmanager
    def opened(self, duckdb_: duckdb.DuckDBPyConnection) -> Iterator[None]:
        try:
            psycopg = import_module("psycopg")
        except ImportError:
            raise InputError(
                "PostgreSQL needs psycopg, which is not installed", hint="pip install 'sweepdb[postgres]'"
            ) from None
        self._duckdb = duckdb_
        try:
            connection = psycopg.connect(self._url)
        except psycopg.OperationalError as error:
            raise InputError(f"{self.display}: {str(error).splitlines()[0]}", hint="is the server there?") from error
        with connection:
            self._connection = connection
            yield

    def _tables(self) -> set[str]:
        found = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()"
        return {row[0] for row in self._connection.execute(found).fetchall()}

    def _insert(self, name: str, columns: targets.Typed, select: str) -> None:
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in self._rows(columns, select):
                copy.write_row(row)
