"""OpenAPI of the REST interface, from headers and declared options."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import yaml

from queries.asking import Keyword, Report, asked_reports, keywords_of
from sweepdb.deciding import BUDGET, GAIN, MODE, REPORT, Mode

_TEXT = {"type": "string"}
_KINDS: dict[type, dict[str, object]] = {
    bool: {"type": "boolean"}, int: {"type": "integer"}, float: {"type": "number"}, str: {"type": "string"},
}  # fmt: skip
_WRONG = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}


@functools.cache
def _said() -> Any:  # noqa: ANN401  a document
    return yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))


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
    paths |= {f"/api/v1/answer/{asked.name}": _answer_path(asked) for asked in asked_reports().values()}
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
        Keyword(name="budget", hint=int, default=BUDGET, help="starts of a server to plan for"),
        Keyword(name="mode", hint=Mode, default=MODE, help="servers to decide among; pd: disaggregated"),
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
    """The first of several kinds; enumerations for words, text with commas for lists."""
    if get_origin(hint) is Literal:
        return {"type": "string", "enum": list(get_args(hint))}
    if get_origin(hint) in {Union, UnionType}:
        kinds = [kind for kind in get_args(hint) if kind in _KINDS]
        return dict(_KINDS[kinds[0]]) if kinds else dict(_TEXT)
    return dict(_KINDS.get(hint, _TEXT))


def _answer_path(asked: Report) -> dict[str, object]:
    columns = ", ".join(f"{one.name} ({one.unit})" for one in asked.columns)
    operation = _operation(
        asked.summary, f"answer_{asked.name}", [*map(parameter_of, keywords_of(asked)), *_parameters(["state"])]
    )
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Answer"}}}
    operation["responses"]["200"] = {"description": f"Rows of {columns}", "content": content}
    return {"get": operation}


def _operation(summary: str, name: str, parameters: Sequence[object]) -> dict[str, Any]:
    answered = {"200": {"description": "A document", "content": {"application/json": {"schema": {"type": "object"}}}}}
    errors = {code: {"description": wrong, "content": _WRONG} for code, wrong in _said()["errors"].items()}
    return {"summary": summary, "operationId": name.replace("-", "_"), "parameters": list(parameters),
            "responses": {**answered, **errors}}  # fmt: skip
