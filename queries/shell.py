"""An answer as statements for any DuckDB shell over what `sweepdb export` writes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from queries.asking.macros import SCOPED, macros_of, names_in, scoped_view
from queries.asking.variables import literal, settings
from queries.bundles.format import LOAD_FILES
from queries.judging.ladders import LOADED
from queries.vocabulary import files_for
from store.schema import STORED_PROBE, raw_table

if TYPE_CHECKING:
    import duckdb

    from queries.asking.question import Answer
    from queries.judging.ladders import LoadStatements
    from queries.scoping.scope import ScopeRow

_BEGINNING = """-- {command}: start DuckDB in the folder that `sweepdb export FOLDER` wrote, or name that folder here.
SET VARIABLE export_folder = '.';
CREATE SCHEMA IF NOT EXISTS raw;"""
_PROBES = "SELECT * FROM read_parquet(getvariable('export_folder') || '/probes.parquet')"
_SCENARIOS = "FROM read_ndjson_objects(getvariable('export_folder') || '/scenarios.jsonl')"
_OF_STORED = re.compile(r"\b(sc|sj|m|d|p|pr|w)\.(\w+)")
_PLACES = {  # in a line of scenarios.jsonl, by the letters that statements call tables by
    "sc": "", "sj": "subject.", "m": "subject.model.", "d": "device.", "p": "subject.plan.",
    "pr": "subject.precision.", "w": "subject.workload.",
}  # fmt: skip
_BETWEEN = ",\n    "


def shell_statements(
    answer: Answer,
    scope: Sequence[ScopeRow],
    keys: Mapping[int, str],
    connection: duckdb.DuckDBPyConnection,
    loads: LoadStatements | None = None,
) -> Iterator[str]:
    """`connection` has what exports lack: prices, and expected errors.

    `scope` and `keys` tell the scenarios by number and key. The last statement yields the report's own columns."""
    confident = answer.question.limits.confidence is not None
    asked = answer.sql if loads is None else f"{answer.sql}\n{loads.tables}\n{loads.choosing}"
    built_on = macros_of(asked, of_loads=loads is not None)
    texts = "\n".join((asked, *(macro.sql for macro in built_on)))
    views = files_for(names_in(texts) | (LOADED if loads else set()))
    of_loads = frozenset(name for name in LOAD_FILES if f"raw.{name}" in texts) if loads else frozenset[str]()
    raw = sorted(of_loads.union(*(file.raw for file in views)))
    yield _BEGINNING.format(command=f"sweepdb query {answer.question.report}")
    yield from settings(answer.parameters).values()
    if "scenario" in raw:
        yield _inline("raw.numbered", (("scenario_id", "BIGINT"), ("scenario", "VARCHAR")), sorted(keys.items()))
    yield from (_relation(name, connection) for name in raw)
    yield scope_statement(scope)
    yield from (file.sql.strip() for file in views)
    if confident:
        yield _copied("factors", connection)
    yield from (scoped_view(confident=confident) for macro in built_on if macro.name == SCOPED)
    if loads is not None:
        yield _copied("step_error", connection)
        yield loads.tables
    yield from (macro.sql for macro in built_on if macro.name != SCOPED)
    if loads is not None:
        yield loads.choosing
    yield answer.sql.strip()


def _relation(name: str, connection: duckdb.DuckDBPyConnection) -> str:
    if name == STORED_PROBE:
        return f"CREATE OR REPLACE VIEW raw.{name} AS\n{_PROBES};"
    if name in LOAD_FILES:
        return f"CREATE OR REPLACE VIEW raw.{name} AS\n{_PROBES.replace('probes.', f'{name}.')};"
    if name == "device":
        columns = _BETWEEN.join(
            _read(f"d.{column.name}", column.type, column.name) for column in raw_table(name).columns
        )
        return f"CREATE OR REPLACE VIEW raw.{name} AS\nSELECT DISTINCT\n    {columns}\n{_SCENARIOS};"
    if name == "scenario":
        devices = " * ".join(f"(json->>'$.subject.plan.{name}')::INTEGER" for name in ("tp", "pp", "dp"))
        known = {
            "scenario_id": "numbered.scenario_id",
            "num_devices": f"{devices} AS num_devices",  # which follows from the rest, so no line says it
            "voided": "FALSE AS voided",  # those of a scope are not
        }
        columns = _BETWEEN.join(
            known.get(column.name) or _read(column.source, column.type, column.name)
            for column in raw_table(name).columns
        )
        joined = "JOIN raw.numbered AS numbered ON numbered.scenario = (json->>'$.key')"
        return f"CREATE OR REPLACE VIEW raw.{name} AS\nSELECT\n    {columns}\n{_SCENARIOS}\n{joined};"
    return _copied(f"raw.{name}", connection)


def _read(source: str, type_: str, name: str) -> str:
    """From a line of scenarios.jsonl; missing is NULL."""
    told = _OF_STORED.sub(lambda match: f"(json->>'$.{_PLACES[match[1]]}{match[2]}')", source)
    return f"{told}::{type_} AS {name}"


def _copied(name: str, connection: duckdb.DuckDBPyConnection) -> str:
    cursor = connection.execute(f"SELECT * FROM {name} ORDER BY ALL")  # noqa: S608  our names
    columns = [(str(column), str(type_)) for column, type_, *_ in cursor.description or ()]
    return _inline(name, columns, cursor.fetchall())


def _inline(name: str, columns: Iterable[tuple[str, str]], rows: Sequence[Sequence[object]]) -> str:
    created = f"CREATE OR REPLACE TABLE {name} ({', '.join(' '.join(column) for column in columns)});"
    if not rows:
        return created
    values = ",\n".join(f"    ({', '.join(map(literal, row))})" for row in rows)
    return f"{created}\nINSERT INTO {name} VALUES\n{values};"


def scope_statement(rows: Sequence[ScopeRow]) -> str:
    alike: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for row in rows:
        alike[row.first_batch_size, row.last_batch_size, row.question_group].append(row.scenario_id)
    runs = ",\n".join(
        f"    ({first}, {last}, {', '.join(map(str, asked))})"
        for asked, numbers in sorted(alike.items())
        for first, last in _runs(sorted(numbers))
    )
    return (
        "-- Numbers of scenarios are those of the store that was asked, which its exports keep.\n"
        "CREATE OR REPLACE TEMP TABLE scope AS\n"
        "SELECT unnest(range(first, last + 1)) AS scenario_id, first_batch_size, last_batch_size, question_group\n"
        f"FROM (VALUES\n{runs or '    (0, -1, 0, 0, 0)'}\n"
        ") AS runs(first, last, first_batch_size, last_batch_size, question_group);"
    )


def _runs(numbers: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last of consecutive numbers; repetitions allowed."""
    start = None
    for number, following in zip(numbers, [*numbers[1:], None], strict=True):
        start = number if start is None else start
        if following != number + 1:
            yield start, number
            start = None
