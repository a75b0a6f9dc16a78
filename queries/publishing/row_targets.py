"""SQLite and PostgreSQL, row by row in one transaction."""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from queries.asking.variables import literal
from queries.publishing.targets import (
    BLOCKS,
    PROBES,
    STAMP,
    STAMP_COLUMNS,
    Block,
    Blocks,
    Published,
    Target,
    Typed,
    commented,
    not_ours,
    quoted,
)
from store.errors import InputError
from store.location import parse_url
from store.whole_files import refuse_special

if TYPE_CHECKING:
    import duckdb

    from queries.publishing.targets import PublishedRelation

_ROWS = 10_000
_INDEX = "scenario_id, block_id"


class _RowTarget(Target):
    mark = "?"
    types: ClassVar[Mapping[str, str]]
    _duckdb: duckdb.DuckDBPyConnection
    _connection: Any  # of one driver or the other

    @abstractmethod
    def _tables(self) -> set[str]: ...

    def published_of(self) -> Published | None:
        tables = self._tables()
        if not tables:
            return None
        if STAMP not in tables:
            raise not_ours(self.display)
        row = self._connection.execute(f"SELECT store_id, layout FROM {STAMP}").fetchone()
        return None if row is None else Published(store_id=row[0], layout=row[1])

    def begin_anew(self, probes: PublishedRelation) -> None:
        self._create(PROBES, [(column.name, column.type) for column in probes.columns])
        self._connection.execute(f"CREATE INDEX ix_{PROBES}_block ON {PROBES} ({_INDEX})")

    def blocks(self) -> Blocks:
        rows = self._connection.execute(BLOCKS.format(probes=PROBES)).fetchall()
        return {(row[0], row[1]): tuple(map(int, row[2:])) for row in rows}

    def remove(self, blocks: Sequence[Block]) -> None:
        statement = f"DELETE FROM {PROBES} WHERE scenario_id = {self.mark} AND block_id = {self.mark}"
        for block in blocks:
            self._connection.execute(statement, block)

    def append(self, columns: Typed, select: str) -> None:
        self._insert(PROBES, columns, select)

    def replace(self, name: str, columns: Typed, select: str) -> None:
        self._create(name, columns)
        self._insert(name, columns, select)

    def stamp(self, store_id: str, layout: str, moment: str, probes: int) -> None:
        self._create(STAMP, STAMP_COLUMNS)
        marks = ", ".join([self.mark] * len(STAMP_COLUMNS))
        self._connection.execute(f"INSERT INTO {STAMP} VALUES ({marks})", (store_id, layout, moment, probes))

    def _create(self, name: str, columns: Typed) -> None:
        typed = ", ".join(f"{quoted(column)} {self.types.get(type_, type_)}" for column, type_ in columns)
        self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        self._connection.execute(f"CREATE TABLE {name} ({typed})")

    @abstractmethod
    def _insert(self, name: str, columns: Typed, select: str) -> None: ...

    def _rows(self, columns: Typed, select: str) -> Iterator[tuple[Any, ...]]:
        told = ", ".join(
            f"CAST({quoted(name)} AS VARCHAR)" if type_ == "TIMESTAMP" else quoted(name) for name, type_ in columns
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
        kept = False
        try:
            yield
            self._connection.execute("COMMIT")
            kept = True
        finally:
            if not kept:
                self._connection.execute("ROLLBACK")
            self._connection.close()
            if not kept and not was_there:
                self._path.unlink(missing_ok=True)

    def _tables(self) -> set[str]:
        return {name for (name,) in self._connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def comment(self, relations: Sequence[PublishedRelation]) -> None:
        """The table `dictionary` has them."""

    def _insert(self, name: str, columns: Typed, select: str) -> None:
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

    def comment(self, relations: Sequence[PublishedRelation]) -> None:
        for relation in relations:
            self._connection.execute(f"COMMENT ON TABLE {relation.name} IS {literal(relation.meaning)}")
            for column in relation.columns:
                place = f"{relation.name}.{quoted(column.name)}"
                self._connection.execute(f"COMMENT ON COLUMN {place} IS {literal(commented(column))}")

    def _insert(self, name: str, columns: Typed, select: str) -> None:
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in self._rows(columns, select):
                copy.write_row(row)
