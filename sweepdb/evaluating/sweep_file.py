"""Reads a YAML sweep file: every key known, every value of its kind.

Not here: what they mean (sweepdb.evaluating.requests)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evaluator.inputs.yaml_file import parse_yaml, read_text
from store.errors import InputError

LARGEST_FILE_BYTES = 1_000_000
Overrides = dict[str, Any]  # fields of SweepOptions, checked here


def read_sweep_file(path: Path) -> list[Overrides]:
    """What the file says instead of the command's options: once for each of its workloads times its precisions."""
    text = read_text(path, largest_bytes=LARGEST_FILE_BYTES, what="a sweep file")
    document = _mapping(parse_yaml(text, str(path)), f"{path}: the file", hint=f"keys: {', '.join(sorted(_KNOWN))}")
    base = {key: value for key, value in document.items() if key not in {"workloads", "precisions"}}
    shared = _checked(base, set(_KINDS), str(path), listed=_KNOWN)
    return [
        {**shared, **workload, **precision}
        for workload in _parts(document, "workloads", _WORKLOAD_KEYS, path)
        for precision in _parts(document, "precisions", _PRECISION_KEYS, path)
    ]


def _mapping(data: object, where: str, hint: str | None = None) -> Mapping[str, object]:
    if not isinstance(data, Mapping):
        raise InputError(f"{where} must be a mapping of keys to values", hint=hint)
    return {str(key): value for key, value in data.items()}


def _parts(document: Mapping[str, object], name: str, known: set[str], path: Path) -> list[Overrides]:
    listed = document.get(name)
    if listed is None:
        return [{}]
    if not isinstance(listed, list) or not listed:
        raise InputError(f"{path}: {name} must be a list of mappings, not {listed!r}")
    where = f"{path}: {name}"
    return [_checked(_mapping(item, f"{where}: each entry"), known, where, listed=known) for item in listed]


def _checked(data: Mapping[str, object], known: set[str], where: str, *, listed: set[str]) -> Overrides:
    checked: Overrides = {}
    for key, value in data.items():
        if key not in known:
            raise InputError(f"{where}: unknown key {key!r}", hint=_nearest(key, listed))
        field, expected, read = _KINDS[key]
        try:
            checked[field] = read(value)
        except (TypeError, ValueError):
            raise InputError(f"{where}: {key} must be {expected}, not {value!r}") from None
    return checked


def _nearest(key: str, known: set[str]) -> str:
    from difflib import get_close_matches

    nearest = get_close_matches(key, sorted(known), n=3)
    return f"nearest: {', '.join(nearest)}" if nearest else f"known keys: {', '.join(sorted(known))}"


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError
    return value


def _names(value: object) -> tuple[str, ...]:
    return tuple(_text(item) for item in (value if isinstance(value, list) else [value]))


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _sizes(value: object) -> tuple[int, ...]:
    return tuple(_whole(item) for item in (value if isinstance(value, list) else [value]))


def _batch_range(value: object) -> tuple[int, int]:
    sizes = (1, *_sizes(value))[-2:]
    if len(sizes) != 2 or (isinstance(value, list) and len(value) > 2):
        raise ValueError
    return sizes[0], sizes[1]


def _rates(value: object) -> tuple[float, ...]:
    return tuple(_number(item) for item in (value if isinstance(value, list) else [value]))


def _length(value: object) -> str:
    return value if isinstance(value, str) and value else f"{_whole(value)}"


Kind = tuple[str, str, Callable[[object], object]]  # field of SweepOptions, what is expected, how it is read


def _kinds(fields: str, expected: str, read: Callable[[object], object]) -> dict[str, Kind]:
    return {field: (field, expected, read) for field in fields.split()}


_KINDS: Mapping[str, Kind] = {
    "model": ("models", "a name or a list of names", _names),
    "device": ("devices", "a name or a list of names", _names),
    "workload": ("workload_names", "a name or a list of names", _names),
    **_kinds("models devices modes workload_names", "a name or a list of names", _names),
    "linear": ("linears", "a name or a list of names", _names),
    "serving_model": ("serving_models", "a name or a list of names", _names),
    "client_lengths": ("client_shortest", "a number", _number),
    **_kinds("num_devices prefill_devices decode_devices", "a whole number or a list of them", _sizes),
    **_kinds("total_devices max_batched_tokens mtp_tokens mxfp4_group_size", "a whole number", _whole),
    **_kinds("prompts_per_user poll_steps seats wait_steps", "a whole number", _whole),
    **_kinds("output_length prefix_cache_hit_rate serving_cost_ms", "a number", _number),
    **_kinds("experts attention convention search routing family", "text", _text),
    **_kinds("input_length", "a whole number or the file of a distribution", _length),
    **_kinds("compile", "true or false", _flag),
    **_kinds("tp_sizes pp_sizes dp_sizes ep_sizes moe_tp_sizes moe_dp_sizes", "a list of whole numbers", _sizes),
    **_kinds("batch_range", "the largest batch size, or [smallest, largest]", _batch_range),
    **_kinds("mtp_acceptance", "a list of numbers", _rates),
}
_KNOWN = {*_KINDS, "workloads", "precisions"}
_WORKLOAD_KEYS = {
    "workload",
    "input_length",
    "output_length",
    "prefix_cache_hit_rate",
    "max_batched_tokens",
    "mtp_tokens",
    "mtp_acceptance",
}
_PRECISION_KEYS = {"linear", "experts", "attention", "mxfp4_group_size"}
