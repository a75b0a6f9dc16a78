"""Reads a YAML sweep file: every key an option of `evaluate`, every value of its kind.

Not here: what they mean (sweepdb.evaluating.requests)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from evaluator.inputs import parse_yaml, read_text, shortened
from queries.asking import Declared, declared
from store.errors import InputError
from sweepdb.evaluating.option_values import nearest, read_value
from sweepdb.evaluating.sweep_options import SweepOptions

LARGEST_FILE_BYTES = 1_000_000
Overrides = dict[str, Any]  # fields of SweepOptions, checked here


def read_sweep_file(path: Path) -> list[Overrides]:
    """The values of a file in place of the command's options: once for each of its workloads times its precisions."""
    text = read_text(path, largest_bytes=LARGEST_FILE_BYTES, what="a sweep file")
    document = _mapping(parse_yaml(text, str(path)), f"{path}: the file", hint=f"keys: {', '.join(sorted(_KNOWN))}")
    shared = _checked(document, _KNOWN, str(path))
    return [
        {**shared, **workload, **precision}
        for workload in _parts(document, "workloads", _WORKLOAD_KEYS, path)
        for precision in _parts(document, "precisions", _PRECISION_KEYS, path)
    ]


def _mapping(data: object, where: str, hint: str | None = None) -> Mapping[str, object]:
    if not isinstance(data, Mapping):
        raise InputError(f"{where} must be a mapping of keys to values", hint=hint)
    return {str(key): value for key, value in data.items()}


def _parts(document: Mapping[str, object], name: str, known: Collection[str], path: Path) -> list[Overrides]:
    listed = document.get(name)
    if listed is None:
        return [{}]
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{path}: {name} must be a list of mappings, not {shortened(listed)}")
    where = f"{path}: {name}"
    return [_checked(_mapping(item, f"{where}: each entry"), known, where) for item in listed]


def _checked(data: Mapping[str, object], known: Collection[str], where: str) -> Overrides:
    checked: Overrides = {}
    for key, value in data.items():
        if key not in known:
            raise InputError(f"{where}: unknown key {shortened(key)}", hint=nearest(key, known))
        item = _BY_KEY.get(key)
        if item is not None:
            checked[item.field] = read_value(item, value, f"{where}: {key}")
    return checked


def _keys(fields: Iterable[str]) -> frozenset[str]:
    return frozenset(
        key for item in declared(SweepOptions) if item.field in fields for key in (item.field, item.keyword)
    )


_BY_KEY: Mapping[str, Declared] = {key: item for item in declared(SweepOptions) for key in (item.field, item.keyword)}
_LISTS = ("workloads", "precisions")
_KNOWN = frozenset({*_BY_KEY, *_LISTS})
_WORKLOAD_KEYS = _keys({
    "workload_names", "input_length", "output_length", "prefix_cache_hit_rate", "max_batched_tokens", "mtp_tokens",
    "mtp_acceptance",
})  # fmt: skip
_PRECISION_KEYS = _keys({"linear", "experts", "attention", "mxfp4_group_size"})
