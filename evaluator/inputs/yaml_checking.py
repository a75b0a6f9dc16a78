"""Checks YAML against its declaration: one sentence with file, line, key and what is allowed."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from evaluator.inputs.yaml_file import parse_yaml, shortened
from store.errors import InputError

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

    ModelT = TypeVar("ModelT", bound=BaseModel)

# What is expected of a value, by the kind of pydantic's error.
_EXPECTED = {
    "string_type": "a text",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "bool_type": "true or false",
}


def checked_yaml(model: type[ModelT], text: str, where: str, *, hint: str | None = None) -> ModelT:
    from pydantic import ValidationError

    document = parse_yaml(text, where)
    if not isinstance(document, Mapping):
        raise InputError(f"{where}: the file must be a mapping of keys to values, not {shortened(document)}", hint=hint)
    try:
        return model.model_validate({str(key): value for key, value in document.items()})
    except ValidationError as error:
        raise _told(model, error.errors(include_url=False), text, where, hint) from None


def _told(model: type[BaseModel], found: Sequence[ErrorDetails], text: str, where: str, hint: str | None) -> InputError:
    first = min(found, key=lambda one: one["type"] != "extra_forbidden")  # a misspelt key is missing, too
    place, key = first["loc"][:-1], str(first["loc"][-1]) if first["loc"] else ""
    if first["type"] == "extra_forbidden":
        said = f"unknown key {shortened(key)}"
        near = difflib.get_close_matches(key, known := sorted(set(_keys(model))), n=3)
        hint = f"nearest: {', '.join(near)}" if near else f"keys: {', '.join(known)}"
        return InputError(_placed(where, text, first["loc"], place, said), hint=hint)
    if first["type"] == "missing":
        missing = [str(one["loc"][-1]) for one in found if one["type"] == "missing" and one["loc"][:-1] == place]
        return InputError(_placed(where, text, place, place, f"{', '.join(missing)} missing"), hint=hint)
    location = first["loc"]
    named = f"{_path(location[:-2])}: a key" if location[-1:] == ("[key]",) else _path(location)
    wrong = _wrong(model, first)
    if isinstance(first["input"], Mapping) and wrong.partition(" ")[0] in first["input"]:  # it is about one of its keys
        named = f"{named}:"
    return InputError(_placed(where, text, location, (), f"{named} {wrong}".strip()))


def _placed(where: str, text: str, location: Sequence[int | str], named: Sequence[int | str], said: str) -> str:
    line = line_of(text, location)
    inside = f"{_path(named)}: " if named else ""
    return f"{where}: {f'line {line}: ' if line else ''}{inside}{said}"


def _path(location: Sequence[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _wrong(model: type[BaseModel], error: ErrorDetails) -> str:
    kind, value, context = error["type"], error["input"], error.get("ctx", {})
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return (
            f"must be one of {context['expected'].replace(chr(39), '').replace(' or ', ', ')}, not {shortened(value)}"
        )
    if kind in {"less_than_equal", "greater_than_equal"}:
        low, high = _bounds(model, error["loc"])
        if high is None:
            return f"must be at least {low:g}, not {shortened(value)}"
        return f"must lie between {low:g} and {high:g}, not {shortened(value)}"
    if kind in {"too_short", "too_long"}:
        bound = f"least {context['min_length']}" if kind == "too_short" else f"most {context['max_length']}"
        return f"must be a list of at {bound}, not {shortened(value)}"
    expected = _EXPECTED.get(kind)
    return f"must be {expected}, not {shortened(value)}" if expected else f"{error['msg']}, not {shortened(value)}"


def _bounds(model: type[BaseModel], location: Sequence[int | str]) -> tuple[Any, Any]:
    schema = _schema(model)
    found: Any = schema
    for part in location:
        while "$ref" in found:
            found = schema["$defs"][found["$ref"].rpartition("/")[2]]
        found = next((one for one in found.get("anyOf", ()) if one.get("type") != "null"), found)
        while "$ref" in found:
            found = schema["$defs"][found["$ref"].rpartition("/")[2]]
        found = found["items"] if isinstance(part, int) else (found.get("properties") or {}).get(
            part, found.get("additionalProperties", found)
        )  # fmt: skip
    found = next((one for one in found.get("anyOf", ()) if one.get("type") != "null"), found)
    return found.get("minimum", float("-inf")), found.get("maximum")


@cache
def _schema(model: type[BaseModel]) -> Mapping[str, Any]:
    return model.model_json_schema()


def _keys(model: type[BaseModel]) -> Iterator[str]:
    schema = _schema(model)
    for part in (schema, *schema.get("$defs", {}).values()):
        yield from part.get("properties", {})


def line_of(text: str, location: Sequence[int | str]) -> int | None:
    import yaml

    node = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    line: int | None = None
    for part in location:
        if isinstance(node, yaml.MappingNode):
            found = next(((key, value) for key, value in node.value if str(key.value) == str(part)), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
            line = node.start_mark.line + 1
    return line
