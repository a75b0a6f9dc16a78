"""Runs an analyst's statement: read-only, bounded in time and memory.

Three fences: DuckDB's parser must see one SELECT (or EXPLAIN) that only reads; its locked configuration opens only the
snapshot; the operating system bounds memory."""

from __future__ import annotations

import difflib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from queries.connect import StoreConnection
from queries.parsing import ParsedSelect, parse_select
from queries.vocabulary import vocabulary
from store.errors import InputError
from store.location import StoreLocation
from store.reading import InterruptBell, duckdb, interrupts_noticed, machine_memory
from store.whole_files import number_of, unwritable, written_whole

# A WITH clause of DuckDB 2.0 may hold COPY, INSERT and others in a statement that still counts as a SELECT; only these
# kinds of node are queries through and through.
_READING_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
_TABLE_FUNCTIONS = frozenset(
    {"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree", "histogram",
     "histogram_values", "duckdb_columns", "duckdb_functions", "duckdb_schemas", "duckdb_settings", "duckdb_tables",
     "duckdb_types", "duckdb_views", "duckdb_keywords", "pragma_table_info", "pragma_version", "pg_timezone_names"}
)  # fmt: skip
_EXPLAIN = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*EXPLAIN\b(?:\s+ANALYZE\b)?\s*", re.IGNORECASE | re.DOTALL)
_EXPLAIN_OPTIONS = re.compile(r"\([^()]*\)\s*")
_NO_TABLE = re.compile(r"Table with name (\S+) does not exist")
_ROWS_AT_ONCE = 2_000
_STUCK_AFTER_S = 3.0
_PATIENCE_S = 1.0  # of who pressed ^C
_GIBIBYTE = 2**30
Values = Mapping[str, object]  # of named parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementLimits:
    """`when_stuck` is called 3 s after a stop that did not help, 1 s after ^C, and told which.

    One function call can run for hours; only ending the process ends it."""

    timeout_s: float = 300.0
    memory_bytes: int | None = None  # None: half of this machine's memory, at most 4 GiB
    threads: int | None = None
    when_stuck: Callable[[bool], None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultColumn:
    name: str
    type: str


class Result:
    def __init__(self, cursor: duckdb.DuckDBPyConnection) -> None:
        self._cursor = cursor
        self.columns = tuple(
            ResultColumn(name=str(name), type=str(type_)) for name, type_, *_ in cursor.description or ()
        )

    def __iter__(self) -> Iterator[tuple[object, ...]]:
        while rows := self._cursor.fetchmany(_ROWS_AT_ONCE):
            yield from rows


@contextmanager
def run_sql(
    location: StoreLocation, sql: str, limits: StatementLimits | None = None, values: Values | None = None
) -> Iterator[Result]:
    """Limits hold until the block ends, fetching included.

    `values` are of its parameters, `$name`."""
    limits = limits or StatementLimits()
    with StoreConnection(location) as connection:
        connection.provide_parsed(check_statement(connection.duckdb, sql))
        _check_values(connection.duckdb, sql, values or {})
        connection.require_store()
        _lock(connection, limits, ())
        with _bounded(connection.duckdb, limits), connection.damage_named():
            yield Result(connection.duckdb.execute(sql, dict(values or {})))


def write_parquet(
    location: StoreLocation,
    sql: str,
    path: Path,
    limits: StatementLimits | None = None,
    values: Values | None = None,
) -> int:
    limits = limits or StatementLimits()
    with written_whole(path) as temporary, StoreConnection(location) as connection:
        connection.provide_parsed(check_statement(connection.duckdb, sql))
        _check_values(connection.duckdb, sql, values or {})
        connection.require_store()
        _lock(connection, limits, (temporary,))
        target = str(temporary).replace("'", "''")
        with _bounded(connection.duckdb, limits, output=path), connection.damage_named():
            kind = "TABLE" if values else "VIEW"  # no view takes parameters
            connection.duckdb.execute(f"CREATE TEMP {kind} asked AS {sql}", dict(values or {}))
            row = connection.duckdb.execute(
                f"COPY (FROM asked) TO '{target}' (FORMAT parquet, COMPRESSION zstd)"
            ).fetchone()
    return int(row[0]) if row else 0


def _check_values(connection: duckdb.DuckDBPyConnection, sql: str, values: Values) -> None:
    wanted = {str(name) for name in connection.extract_statements(sql)[0].named_parameters}
    if any(name.isdecimal() for name in wanted):
        raise InputError("A parameter has a name here, such as $ttft.", hint="Give its value by `param=ttft=2000`.")
    missing, unknown = sorted(wanted - values.keys()), sorted(values.keys() - wanted)
    if missing:
        told = ", ".join(f"${name}" for name in missing)
        raise InputError(f"The statement needs a value of {told}.", hint=f"Such as `param={missing[0]}=2000`.")
    if unknown:
        known = ", ".join(f"${name}" for name in sorted(wanted)) or "none"
        raise InputError(f"The statement has no parameter ${unknown[0]}.", hint=f"Its parameters: {known}.")


def check_statement(connection: duckdb.DuckDBPyConnection, sql: str) -> ParsedSelect:
    """One SELECT, or EXPLAIN of one, that only reads; else raises."""
    if "\0" in sql:
        raise InputError("The statement holds a NUL character, where some versions of DuckDB stop reading.")
    try:
        statements = connection.extract_statements(sql)
    except duckdb.Error as error:
        raise InputError(f"This is not SQL that DuckDB reads: {error}", hint=_SCHEMA_HINT) from error
    if not statements:
        raise InputError("The statement is empty.", hint='Such as: sweepdb sql "SELECT count(*) FROM probe"')
    if len(statements) != 1:
        hint = _hint("MULTI") if "pivot" in sql.lower() else None
        raise InputError(f"Exactly one statement is run at a time; this text holds {len(statements)}.", hint=hint)
    kind = statements[0].type.name
    if kind not in {"SELECT", "EXPLAIN"}:
        raise InputError(f"Only SELECT and EXPLAIN are run here; this is {kind}.", hint=_hint(kind))
    parsed = parse_select(connection, sql) if kind == "SELECT" else _explained(connection, sql)
    if parsed is None:
        raise InputError(
            f"This {kind} is not one that can be checked to only read.",
            hint="EXPLAIN takes a SELECT; a SELECT takes plain queries in its WITH clause.",
        )
    _check_parts(parsed)
    return parsed


_SCHEMA_HINT = "sweepdb sql `schema` lists every view and column."
_CAUGHT_BY_DUCKDB = "Query interrupted"  # what it says of a ^C that it was the first to notice


def _hint(kind: str) -> str | None:
    if kind == "MULTI":
        return "Write PIVOT with its values: PIVOT ... ON column IN (...)."
    if kind == "COPY":
        return "To write a file, use `format=csv|json|parquet` with `output=FILE`."
    return None


def _explained(connection: duckdb.DuckDBPyConnection, sql: str) -> ParsedSelect | None:
    prefix = _EXPLAIN.match(sql)
    if prefix is None:
        return None
    rest = sql[prefix.end() :]
    parsed = parse_select(connection, rest)
    options = _EXPLAIN_OPTIONS.match(rest)
    return parse_select(connection, rest[options.end() :]) if parsed is None and options else parsed


def _check_parts(parsed: ParsedSelect) -> None:
    writing = parsed.node_types - _READING_NODES
    if writing:
        kinds = ", ".join(sorted(kind.removesuffix("_NODE").removesuffix("_QUERY") for kind in writing))
        raise InputError(f"A statement here only reads; a part of this one would do {kinds}.")
    foreign = parsed.table_functions - _TABLE_FUNCTIONS - vocabulary().keys()
    if foreign:
        raise InputError(
            f"The table function {', '.join(sorted(foreign))} is not available here: statements read the store only.",
            hint=_SCHEMA_HINT,
        )


def _lock(connection: StoreConnection, limits: StatementLimits, outputs: tuple[Path, ...]) -> None:
    """Only parts can be opened; limits are final."""
    paths = [str(path) for path in (*connection.files, *outputs)]
    settings: dict[str, object] = {
        "allowed_paths": paths,
        "memory_limit": f"{_memory(limits)} bytes",
        "temp_directory": "",  # what does not fit in memory is refused, never spilled to a disk
        "threads": limits.threads or os.cpu_count() or 1,
        "enable_external_access": False,
        "lock_configuration": True,
    }
    for name, value in settings.items():
        connection.duckdb.execute(f"SET {name} = $value", {"value": value})


def _memory(limits: StatementLimits) -> int:
    return limits.memory_bytes or min(4 * _GIBIBYTE, machine_memory() // 2)


@contextmanager
def _bounded(
    connection: duckdb.DuckDBPyConnection, limits: StatementLimits, *, output: Path | None = None
) -> Iterator[None]:
    """Says which limit was met."""
    try:
        with _memory_ceiling(limits), _deadline(connection, limits) as bell:
            yield
    except RuntimeError as error:
        if str(error) != _CAUGHT_BY_DUCKDB:
            raise
        raise KeyboardInterrupt from None
    except duckdb.InterruptException as error:
        if bell.interrupted:
            raise KeyboardInterrupt from None
        raise InputError(
            f"The statement was stopped after {limits.timeout_s:g} s.",
            hint="Narrow it down, or allow more with `timeout=SECONDS`.",
        ) from error
    except (duckdb.OutOfMemoryException, MemoryError) as error:
        raise InputError(
            f"The statement needs more than the {_memory(limits) / _GIBIBYTE:.2f} GiB it may use.",
            hint="Narrow it down, or allow more with `memory_limit=GIB`.",
        ) from error
    except duckdb.CatalogException as error:
        raise _unknown_name(error) from error
    except duckdb.Error as error:
        if output is not None and isinstance(error, duckdb.IOException) and number_of(error) is not None:
            raise unwritable(output, error) from error
        raise InputError(f"DuckDB could not run the statement: {error}", hint=_SCHEMA_HINT) from error


def _unknown_name(error: duckdb.CatalogException) -> InputError:
    """Names our nearest view; DuckDB would name its catalogue's."""
    found = _NO_TABLE.search(str(error))
    if found is None:
        return InputError(f"DuckDB could not run the statement: {error}", hint=_SCHEMA_HINT)
    known = sorted(vocabulary())
    nearest = difflib.get_close_matches(found[1].lower(), known, n=3, cutoff=0.5)
    told = f"{'Nearest' if nearest else 'Known'}: {', '.join(nearest or known)}."
    return InputError(f"There is no view {found[1]!r}.", hint=f"{told} sweepdb sql `schema` explains them.")


@contextmanager
def _deadline(connection: duckdb.DuckDBPyConnection, limits: StatementLimits) -> Iterator[InterruptBell]:
    """DuckDB looks at neither time nor ^C by itself."""
    with interrupts_noticed() as bell:

        def watch() -> None:
            over = time.monotonic() + limits.timeout_s
            while not (bell.ended or bell.interrupted) and (left := over - time.monotonic()) > 0:
                bell.wait(left)
            told = time.monotonic()
            while not bell.ended:
                with suppress(duckdb.ConnectionException):  # closed meanwhile: nothing is left to interrupt
                    connection.interrupt()  # again and again: between two fetches there is nothing to interrupt
                patience = _PATIENCE_S if bell.interrupted else _STUCK_AFTER_S
                if limits.when_stuck is not None and time.monotonic() - told > patience:
                    limits.when_stuck(bell.interrupted)
                bell.wait(0.05)

        watcher = threading.Thread(target=watch, name="sweepdb-deadline", daemon=True)
        watcher.start()
        try:
            yield bell
        finally:
            bell.end()
            watcher.join()


@contextmanager
def _memory_ceiling(limits: StatementLimits) -> Iterator[None]:
    """Strings and lists of one call escape DuckDB's memory limit."""
    import resource

    used = _address_space()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if used is None:
        yield
        return
    # Each thread may reserve an arena of 64 MiB and a stack of 8 MiB that it does not use.
    ceiling = used + _memory(limits) + _GIBIBYTE // 2 + 96 * 2**20 * (limits.threads or os.cpu_count() or 1)
    if hard != resource.RLIM_INFINITY:
        ceiling = min(ceiling, hard)
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _address_space() -> int | None:
    """Bytes reserved; None where the system does not say."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pages * os.sysconf("SC_PAGE_SIZE")
