"""Reads sweep files, whose keys are options of `evaluate`; the JSON Schema follows, too."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from evaluator.inputs import checked_yaml, read_text, shortened
from queries.asking import Declared, declared
from store.errors import InputError
from sweepdb.evaluating.option_values import kind_of, read_value
from sweepdb.evaluating.sweep_options import SweepOptions

if TYPE_CHECKING:
    from pydantic import BaseModel

LARGEST_FILE_BYTES = 1_000_000
STANDARD_INPUT = "-"
Overrides = dict[str, Any]  # fields of SweepOptions, checked here
_PARTS = {
    "workloads": (
        "workload_names", "input_length", "output_length", "prefix_cache_hit_rate", "max_batched_tokens", "mtp_tokens",
        "mtp_acceptance", "images", "image_size", "encoder_split", "host_hit_rate", "ssd_hit_rate", "remote_hit_rate",
        "host_gb_per_s", "ssd_gb_per_s", "remote_gb_per_s",
    ),
    "precisions": ("linear", "experts", "mixers", "head", "drafts", "attention", "mxfp4_group_size"),
}  # fmt: skip


def read_sweep_file(path: Path) -> list[Overrides]:
    """Once for each workload and precision; `-` is standard input."""
    if str(path) == STANDARD_INPUT:
        text, where = _standard_input(), "standard input"
    else:
        text, where = read_text(path, largest_bytes=LARGEST_FILE_BYTES, what="a sweep file"), str(path)
    hint = f"keys: {', '.join(sorted({*_BY_KEY, *_PARTS}))}"
    found = checked_yaml(sweep_keys(), text, where, hint=hint)
    shared = _overrides(found)
    return [
        {**shared, **workload, **precision}
        for workload in _listed(found, "workloads")
        for precision in _listed(found, "precisions")
    ]


def sweep_schema() -> str:
    return json.dumps(_without_noise(sweep_keys().model_json_schema()), indent=1) + "\n"


def _without_noise(schema: Any) -> Any:  # noqa: ANN401  JSON
    if isinstance(schema, list):
        return [_without_noise(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    named = {"title", "default"} if "properties" not in schema else {"default"}
    return {
        key: {name: _without_noise(one) for name, one in value.items()}
        if key in {"properties", "$defs"}
        else _without_noise(value)
        for key, value in schema.items()
        if key not in named
    }


@cache
def sweep_keys() -> type[BaseModel]:
    from pydantic import ConfigDict, Field, create_model

    parts: dict[str, Any] = {
        name: (
            Annotated[list[_model(f"{name.removesuffix('s').title()}Keys", fields)], Field(min_length=1)],  # type: ignore[misc]
            Field(default=None, description=f"several {name}: each with every other value"),
        )
        for name, fields in _PARTS.items()
    }
    options = _fields(item.field for item in declared(SweepOptions))
    config = ConfigDict(extra="forbid", title="Sweep file of sweepdb")
    return create_model("SweepKeys", __config__=config, **options, **parts)


def _model(name: str, fields: Iterable[str]) -> type[BaseModel]:
    from pydantic import ConfigDict, create_model

    return create_model(name, __config__=ConfigDict(extra="forbid"), **_fields(fields))


def _fields(names: Iterable[str]) -> dict[str, Any]:
    from pydantic import Field, PlainValidator, TypeAdapter, WithJsonSchema

    found: dict[str, Any] = {}
    wanted = set(names)
    for key, item in _BY_KEY.items():
        if item.field in wanted:
            hint: Any = int | str if item.field == "input_length" else kind_of(item).hint
            schema = TypeAdapter(hint).json_schema()
            kind = Annotated[Any, PlainValidator(_reader(item)), WithJsonSchema(schema)]
            told = item.option.help if key == item.keyword else f"the same as {item.keyword}"
            found[key] = (kind, Field(default=None, description=told))
    return found


def _reader(item: Declared) -> Any:  # noqa: ANN401  a function of one value
    def read(value: object) -> object:
        try:
            found = read_value(item, value, "")
        except InputError as error:
            raise ValueError(error.message.strip()) from None
        if item.option.check is not None and (wrong := item.option.check(found)) is not None:
            raise ValueError(wrong)
        return value

    return read


def _overrides(found: BaseModel) -> Overrides:
    given = {key: getattr(found, key) for key in type(found).model_fields if key in found.model_fields_set}
    return {_BY_KEY[key].field: read_value(_BY_KEY[key], value, key) for key, value in given.items() if key in _BY_KEY}


def _listed(found: BaseModel, name: str) -> list[Overrides]:
    return [_overrides(one) for one in getattr(found, name) or ()] or [{}]


def _standard_input() -> str:
    text = sys.stdin.read(LARGEST_FILE_BYTES + 1)
    if len(text) > LARGEST_FILE_BYTES:
        raise InputError(f"standard input: too large for a sweep file (at most {LARGEST_FILE_BYTES})")
    if not text.strip():
        raise InputError(
            f"standard input: no sweep file in it, but {shortened(text)}", hint="`sweep=FILE.yaml` reads a file"
        )
    return text


def _spellings(item: Declared) -> Iterable[str]:
    """Keyword, other spelling, old name, or field name."""
    return (
        item.keyword,
        *item.option.was,
        *item.option.also,
        item.field,
    )


_BY_KEY: Mapping[str, Declared] = {key: item for item in declared(SweepOptions) for key in _spellings(item)}
