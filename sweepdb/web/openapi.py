"""The OpenAPI document of the REST interface, made of headers of reports and declarations of options."""

from __future__ import annotations

from collections.abc import Sequence
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from queries.asking import Keyword, Report, asked_reports, keywords_of
from sweepdb.deciding import BUDGET, GAIN, MODE, REPORT, Mode

_TEXT = {"type": "string"}
_KINDS: dict[type, dict[str, object]] = {
    bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"}, str: {"type": "string"},
}  # fmt: skip
_STATE = {
    "name": "state", "in": "query", "schema": _TEXT,
    "description": "the state that an earlier answer told: rows of that moment, while the server still has them",
}  # fmt: skip
_REFERENCE = {"name": "reference", "in": "path", "required": True, "schema": _TEXT,
              "description": "a probe, such as a1b2c3d4:175"}  # fmt: skip
_METRIC = {
    "name": "metric", "in": "query", "schema": _TEXT,
    "description": "only points of this metric, such as ttft_ms; a picture is of one",
}  # fmt: skip
_STEP = {"name": "step", "in": "query", "schema": {"type": "string", "enum": ["encode", "prefill", "decode"]},
         "description": "only this step"}  # fmt: skip
_OF_RUNS = [
    {"name": name, "in": "query", "schema": _TEXT, "description": f"a part of the {name}'s name"}
    for name in ("model", "device")
]
_SIDES = [
    {"name": name, "in": "query", "required": True, "schema": _TEXT,
     "description": "a tag, an engine's version, days (2026-05-01..2026-05-31), or a sweep, whose rows are predicted"}
    for name in ("baseline", "against")
]  # fmt: skip
_FORM = "; .csv, .svg and .vl behind it are other forms"
_WRONG = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
_ERRORS = {
    "400": {"description": "a parameter is wrong", "content": _WRONG},
    "404": {"description": "no such report or address", "content": _WRONG},
    "503": {"description": "too many wait", "content": _WRONG},
    "504": {"description": "the answer took too long", "content": _WRONG},
}


def openapi_document(version: str, *, sql: bool) -> dict[str, object]:
    paths: dict[str, object] = {
        "/api/v1/reports": _path("Reports and the parameters that each takes", "reports"),
        "/api/v1/scope": _path("Models, devices, workloads and formats that are stored", "scope"),
        "/api/v1/state": _path("The state of the store now", "state"),
        "/api/v1/schema": _path("Views and columns of SQL", "schema"),
        "/api/v1/coverage": _path("The report coverage", "coverage"),
        "/api/v1/sweeps": _path(f"Sweeps, the newest first{_FORM}", "sweeps"),
        "/api/v1/measured": _path(f"Measured points, and predictions beside them{_FORM}", "measured", [_METRIC]),
        "/api/v1/probe/{reference}": _path("Every column of a probe", "probe", [_REFERENCE]),
        "/api/v1/explain/{reference}": _path(
            f"The operators of a probe's steps{_FORM}", "explain", [_REFERENCE, _STEP]
        ),
        "/api/v1/regress": _path(
            "What got worse between two sides, setting by setting; .csv behind it is another form",
            "regress",
            [*_SIDES, *_OF_RUNS],
        ),
        "/api/v1/trend": _path(f"Steps of measured settings over days{_FORM}", "trend", _OF_RUNS),
        "/api/v1/decide": _path(
            "What to deploy on what is known now, and the run worth most; .sh behind it is that run's script",
            "decide",
            _decided(),
        ),
        **{f"/api/v1/answer/{asked.name}": _answer_path(asked) for asked in asked_reports().values()},
    }
    if sql:
        paths["/api/v1/sql"] = {"post": _operation("One read-only statement, sent as text", "sql", [])}
    return {
        "openapi": "3.1.0",
        "info": {"title": "sweepdb", "version": version, "description": "Answers from stored rows; nothing evaluates."},
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR, "Answer": _ANSWER}},
    }


def _decided() -> list[dict[str, object]]:
    own = (
        Keyword(name="budget", hint=int, default=BUDGET, help="starts of a server to plan for"),
        Keyword(name="mode", hint=Mode, default=MODE, help="servers to decide among; pd: prefill and decode apart"),
        Keyword(name="gain", hint=float, default=GAIN, help="share of the answer below which a run is not worth it"),
    )
    return [*map(parameter_of, keywords_of(asked_reports()[REPORT])), *map(parameter_of, own)]


def parameter_of(keyword: Keyword) -> dict[str, object]:
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
    """The JSON schema of a hint: the first of several kinds, words as an enumeration, lists as text with commas."""
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if get_origin(hint) in {Union, UnionType}:
        kinds = [kind for kind in get_args(hint) if kind in _KINDS]
        return dict(_KINDS[kinds[0]]) if kinds else dict(_TEXT)
    return dict(_KINDS.get(hint, _TEXT))


def _answer_path(asked: Report) -> dict[str, object]:
    columns = ", ".join(f"{one.name} ({one.unit})" for one in asked.columns)
    operation = _operation(asked.summary, f"answer_{asked.name}", [*map(parameter_of, keywords_of(asked)), _STATE])
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}}}
    operation["responses"] = {"200": {"description": f"Rows of {columns}", "content": content}, **_ERRORS}
    return {"get": operation}


def _path(summary: str, name: str, parameters: Sequence[object] = ()) -> dict[str, object]:
    return {"get": _operation(summary, name, parameters)}


def _operation(summary: str, name: str, parameters: Sequence[object]) -> dict[str, Any]:
    answered = {"200": {"description": "A document", "content": {"application/json": {"schema": {"type": "object"}}}}}
    return {"summary": summary, "operationId": name.replace("-", "_"), "parameters": list(parameters),
            "responses": {**answered, **_ERRORS}}  # fmt: skip


_ERROR = {"type": "object", "required": ["error"], "properties": {"error": _TEXT, "hint": {"type": ["string", "null"]}}}
_COLUMNS = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": _TEXT, "unit": _TEXT, "meaning": _TEXT}},
}
_ROWS = {"type": "array", "items": {"type": "array"}}
_OF_INTERVAL = {name: {"type": "number"} for name in ("least_ms", "most_ms", "e2e_ms", "output_tokens_per_s")}
_ANSWER = {
    "type": "object",
    "properties": {
        "report": _TEXT,
        "state": {**_TEXT, "description": "digits of the store's state; send them back for rows of the same moment"},
        "columns": _COLUMNS,
        "rows": _ROWS,
        "rows_left_out": {"type": "integer"},
        "plans": {"type": "object", "description": "plans of the rows as people write them: TP8 EP8"},
        "groups": {"type": "array", "items": _TEXT, "description": "what question_group counts"},
        "nearest": {"type": "object", "properties": {"columns": _COLUMNS, "rows": _ROWS}},
        "limits": {"type": "object"},
        "rules": {"type": "object"},
        "versions": {"type": "object"},
        "expected_error": {"type": "array", "items": {"type": "object"}},
        "ttft_intervals": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"probe": _TEXT, **_OF_INTERVAL},
            },
            "description": "rows whose TTFT lies between two numbers: users in step, and users who drift apart",
        },
        "notes": {"type": "array", "items": _TEXT},
        "sql": _TEXT,
        "parameters": {"type": "object"},
    },
}
