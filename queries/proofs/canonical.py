"""JSON in one spelling, so that content decides every byte."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Any

SIGNIFICANT_DIGITS = 12  # DuckDB adds floats up in parallel, in an order of its own


def spelled(value: object) -> str:
    """Of a value from `plain`."""
    return json.dumps(value, sort_keys=True, indent=1, allow_nan=False) + "\n"


def digest_of(value: object) -> str:
    return hashlib.sha256(spelled(value).encode()).hexdigest()


def strict_json(text: str) -> Any:  # noqa: ANN401  whatever it holds
    """ValueError for repeated keys and non-numbers."""
    return json.loads(text, object_pairs_hook=_each_once, parse_constant=_no_number)


def plain(value: object, *, digits: int | None = None) -> Any:  # noqa: ANN401  as JSON gives it back
    """As JSON gives it back, floats to `digits`."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value), digits=digits)
    if isinstance(value, Mapping):
        return {str(name): plain(item, digits=digits) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item, digits=digits) for item in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def first_difference(said: object, now: object, place: str = "") -> tuple[str, object, object] | None:
    if spelled(said) == spelled(now):
        return None
    if isinstance(said, dict) and isinstance(now, dict):
        for name in sorted(set(said) | set(now)):
            if name not in said or name not in now:
                return _at(place, name), said.get(name, "nothing"), now.get(name, "nothing")
            if (found := first_difference(said[name], now[name], _at(place, name))) is not None:
                return found
    if isinstance(said, list) and isinstance(now, list):
        for number, (one, other) in enumerate(zip(said, now, strict=False), start=1):
            if (found := first_difference(one, other, _at(place, number))) is not None:
                return found
        return place, f"{len(said)} items", f"{len(now)} items"
    return place, said, now


def _at(place: str, name: object) -> str:
    return f"{place} {name}".strip()


def _each_once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice")
    return made


def _no_number(text: str) -> object:
    raise ValueError(f"{text} is no number")
