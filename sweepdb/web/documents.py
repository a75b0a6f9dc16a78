"""Answers as JSON and CSV, and OpenAPI of the REST interface, from headers and declared options."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import yaml

from queries import asking
from store.schema import short_plan
from store.texts import csv_line, plain
from sweepdb.deciding import BUDGET, GAIN, MODE, REPORT, Mode
from sweepdb.web.pool import Told

_TEXT = {"type": "string"}
_KINDS: dict[type, dict[str, object]] = {
    bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"}, str: {"type": "string"},
}  # fmt: skip
_WRONG = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}


@functools.cache
def _said() -> Any:  # noqa: ANN401  a document
    return yaml.safe_load(Path(__file__).with_name("openapi.yaml").read_text(encoding="utf-8"))


def documented_paths() -> Iterable[str]:
    return _said()["paths"].keys()  # type: ignore[no-any-return]


def _parameters(names: Iterable[str]) -> list[dict[str, object]]:
    return [{"name": name, **_said()["parameters"][name]} for name in names]


def openapi_document(version: str, *, sql: bool) -> dict[str, object]:
    paths: dict[str, object] = {}
    for path, said in _said()["paths"].items():
        name = path.partition("/")[0]
        parameters = _decided() if name == "decide" else _parameters(said.get("parameters", ()))
        paths[f"/api/v1/{path}"] = {"get": _operation(said["summary"], name, parameters)}
    paths |= {f"/api/v1/answer/{asked.name}": _answer_path(asked) for asked in asking.asked_reports().values()}
    if sql:
        paths["/api/v1/sql"] = {"post": _operation("One read-only statement, sent as text", "sql", [])}
    return {
        "openapi": "3.1.0",
        "info": {"title": "sweepdb", "version": version, "description": "Answers from stored rows; nothing evaluates."},
        "paths": paths,
        "components": {"schemas": _said()["schemas"]},
    }


def _decided() -> list[dict[str, object]]:
    own = (
        asking.Keyword(name="budget", hint=int, default=BUDGET, help="starts of a server to plan for"),
        asking.Keyword(name="mode", hint=Mode, default=MODE, help="servers to decide among; pd: disaggregated"),
        asking.Keyword(
            name="gain", hint=float, default=GAIN, help="share of the answer below which a run is not worth it"
        ),
    )
    return [*map(parameter_of, asking.keywords_of(asking.asked_reports()[REPORT])), *map(parameter_of, own)]


def parameter_of(keyword: asking.Keyword) -> dict[str, object]:
    found: dict[str, object] = {
        "name": keyword.name,
        "in": "query",
        "required": keyword.required,
        "description": keyword.help,
    }
    schema = schema_of(keyword.hint)
    if keyword.bounds is not None:
        least = "exclusiveMinimum" if keyword.bounds.above else "minimum"
        schema |= {least: keyword.bounds.low, "maximum": keyword.bounds.high}
    if keyword.default is not None:
        schema["default"] = keyword.default
    return {**found, "schema": schema}


def schema_of(hint: Any) -> dict[str, object]:  # noqa: ANN401  a type hint is of no one type
    """The first of several kinds; enumerations for words, text with commas for lists."""
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if get_origin(hint) in {Union, UnionType}:
        kinds = [kind for kind in get_args(hint) if kind in _KINDS]
        return dict(_KINDS[kinds[0]]) if kinds else dict(_TEXT)
    return dict(_KINDS.get(hint, _TEXT))


def _answer_path(asked: asking.Report) -> dict[str, object]:
    columns = ", ".join(f"{one.name} ({one.unit})" for one in asked.columns)
    operation = _operation(
        asked.summary, f"answer_{asked.name}", [*map(parameter_of, asking.keywords_of(asked)), *_parameters(["state"])]
    )
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}}}
    operation["responses"]["200"] = {"description": f"Rows of {columns}", "content": content}
    return {"get": operation}


def _operation(summary: str, name: str, parameters: Sequence[object]) -> dict[str, Any]:
    answered = {"200": {"description": "A document", "content": {"application/json": {"schema": {"type": "object"}}}}}
    errors = {code: {"description": wrong, "content": _WRONG} for code, wrong in _said()["errors"].items()}
    return {"summary": summary, "operationId": name.replace("-", "_"), "parameters": list(parameters),
            "responses": {**answered, **errors}}  # fmt: skip


MOST_ROWS = 2_000  # of a document; a picture shows fewer
MOST_LINES = 100_000  # of CSV
_PLAIN: set[type] = {str, int, bool, type(None)}
_NUMBERS = _PLAIN | {float}
PICTURE_SHAPE = "shape"  # a picture whose rows are those of the document, sent once


def answer_document(told: Told, *, picture: str | None = None, note: str | None = None) -> dict[str, object]:
    """All that a page shows, and what repeats it. Its picture has rows, or is a `shape`."""
    answer = told.answer
    asked = asking.report(answer.report)
    question = answer.question
    document: dict[str, object] = {
        "report": answer.report,
        "summary": asked.summary,
        "state": told.state,
        "columns": column_meanings(asked, answer.columns),
        "shown": asking.shown_names(asked, answer.given),
        "rows": _cells(answer.rows[:MOST_ROWS]),
        "rows_left_out": max(0, len(answer.rows) - MOST_ROWS),
        "plans": _plans(answer),
        "groups": list(answer.scope),
        "nearest": _nearest(answer),
        "limits": asdict(question.limits),
        "rules": {**asdict(question.definitions), "tpot": answer.tpot},
        "versions": plain(dict(answer.versions)),
        "expected_error": [asdict(one) for one in answer.expected_error],
        **({"own_runs": asdict(answer.own_runs)} if answer.own_runs else {}),
        "ttft_intervals": [asdict(one) for one in answer.ttft_intervals],
        "verdict": list(answer.verdict),
        "notes": [*([note] if note else []), *answer.notes],
        "left_out": answer.left_out,
        "considered": {answer.counts: answer.probes_considered, "scenarios": answer.scenarios_considered},
        "sql": answer.sql,
        "parameters": plain(dict(answer.parameters)),
        "took_ms": round(told.took_ms, 2),
    }
    if picture:
        drawn = answer.rows and answer.report in asking.report_pictures()
        document["picture"] = asking.picture_of(answer, with_rows=picture != PICTURE_SHAPE) if drawn else None
    return document


def _nearest(answer: asking.Answer) -> dict[str, object]:
    rows = []
    for row in answer.nearest_dicts():
        value = asking.relaxed_to(row, answer.question.limits)
        rows.append([value if name == "relax_to" else row[name] for name in answer.nearest_columns])
    columns = column_meanings(asking.report(asking.NEAREST), answer.nearest_columns)
    shown = asking.shown_names(asking.report(asking.NEAREST), answer.given)
    return {"columns": columns, "rows": _cells(rows), "shown": shown}


def _plans(answer: asking.Answer) -> dict[str, str]:
    tables = ((answer.columns, answer.rows[:MOST_ROWS]), (answer.nearest_columns, answer.nearest))
    found = {
        row[place]
        for columns, rows in tables
        for place in (place for place, name in enumerate(columns) if name.endswith("plan"))
        for row in rows
    }
    return {label: short_plan(label) for label in sorted(label for label in found if isinstance(label, str))}


def column_meanings(asked: asking.Report, names: Collection[str]) -> list[dict[str, str]]:
    known = {one.name: one for one in asked.columns}
    return [
        {"name": name, "unit": known[name].unit if name in known else "none",
         "meaning": known[name].meaning if name in known else ""}
        for name in names
    ]  # fmt: skip


def table_document(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> dict[str, object]:
    """Rows of no report: sweeps, a probe, operators."""
    return {"columns": [{"name": name} for name in columns], "rows": _cells(rows)}


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """As the command line writes it; missing is empty."""
    return "".join((csv_line(columns), *(csv_line([plain(value) for value in row]) for row in rows)))


def _cells(rows: Iterable[Sequence[object]]) -> list[list[object]]:
    """As JSON holds them. Plain columns stay: a picture has thousands."""
    return list(map(list, zip(*map(_column, zip(*rows, strict=True)), strict=True)))


def _column(values: Sequence[object]) -> Sequence[object]:
    kinds = set(map(type, values))
    if kinds <= _PLAIN or (kinds <= _NUMBERS and all(math.isfinite(one) for one in values if isinstance(one, float))):
        return values
    return [plain(value) for value in values]


def limits_module() -> str:
    return f"export const LIMITS = {json.dumps(asking.limits_told())};\n"
