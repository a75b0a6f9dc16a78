"""Records a session's statements for a DuckDB elsewhere, which then needs no SQL of its own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, cast

from queries.asking.limits import limit_table
from queries.asking.options import option_table
from queries.asking.question import Question
from queries.asking.variables import known_variables, literal
from queries.narrow.scope_tables import ScopeTables
from queries.session import Session
from queries.shell import scope_statement

if TYPE_CHECKING:
    import duckdb

    from queries.asking.headers import Report
    from queries.connect import StoreConnection
    from store.location import StoreLocation

_COMMENT = re.compile(r"^\s*--[^\n]*\n", re.MULTILINE)
_MAKES = ("CREATE", "DROP")
_SCOPE = re.compile(r"\bTEMP TABLE scope\b")
_ASKED = "(SELECT asked.{} FROM asked)"
_READ = re.compile(r"getvariable\('(\w+)'\)")


class Recorded(NamedTuple):
    """Preparation, and the report."""

    statements: list[str]
    sql: str

    def with_limits_asked(self) -> Recorded:
        """Limits come from the one row of `asked`."""
        return Recorded(list(map(limits_from_asked, self.statements)), limits_from_asked(self.sql))


class RecordingSession(Session):
    def __init__(self, location: StoreLocation) -> None:
        super().__init__(location)
        self._recorder = _Recorder(self._connection)
        self._tables = self._held.tables = ScopeTables(cast("StoreConnection", self._recorder))
        self.asked: list[tuple[str, dict[str, object]]] = []
        """The reports that were run, with their variables: the nearest misses too, where an answer has no rows."""

    def record(self, question: Question) -> Recorded:
        self._recorder.duckdb.made.clear()
        self.ask(question)
        self.ask(question)  # what is asked again finds its rows in memory
        made = [text for text in self._recorder.duckdb.made if not _SCOPE.search(text)]
        return Recorded(made, self._tables.ready(self._last.sql))

    def _set(self, asked: Report, values: Mapping[str, object]) -> dict[str, object]:
        read = super()._set(asked, values)
        self._last = asked
        self.asked.append((asked.name, read))
        return read

    def scope_sql(self) -> str:
        return scope_statement(() if self._scope is None else self._scope.rows)

    def scenario_ids(self) -> frozenset[int]:
        return frozenset(row.scenario_id for row in (() if self._scope is None else self._scope.rows))

    def kind(self) -> tuple[object, ...]:
        scope = self._scope
        return () if scope is None else (scope.serving_models, tuple(sorted(scope.phases)))

    @property
    def duckdb(self) -> duckdb.DuckDBPyConnection:
        return self._connection.duckdb


class _Recorder:
    def __init__(self, connection: StoreConnection) -> None:
        self._connection = connection
        self.duckdb = _RecordedDuckdb(connection.duckdb)

    def __getattr__(self, name: str) -> object:
        return getattr(self._connection, name)


class _RecordedDuckdb:
    def __init__(self, duckdb_: duckdb.DuckDBPyConnection) -> None:
        self._duckdb = duckdb_
        self.made: list[str] = []

    def execute(self, sql: str, parameters: Mapping[str, object] | None = None) -> duckdb.DuckDBPyConnection:
        if _COMMENT.sub("", sql).lstrip().startswith(_MAKES):
            self.made.append(_written_out(sql, parameters or {}))
        return self._duckdb.execute(sql, parameters)


def _written_out(sql: str, parameters: Mapping[str, object]) -> str:
    for name, value in parameters.items():
        sql = sql.replace(f"${name}", literal(value))
    return _COMMENT.sub("", sql)


def limit_variables() -> dict[str, str]:
    options = option_table()
    return {one.keyword: str(options[one.keyword].option.variable) for one in limit_table() if one.slider is not None}


def limits_from_asked(sql: str) -> str:
    """A statement is then planned once, not for each limit."""
    limits = set(limit_variables().values())
    return _READ.sub(lambda found: _ASKED.format(found[1]) if found[1] in limits else found[0], sql)


def asked_sql() -> str:
    columns = ", ".join(f"NULL::{known_variables()[name].type} AS {name}" for name in limit_variables().values())
    return f"CREATE OR REPLACE TEMP TABLE asked AS SELECT {columns}"
