"""One spelling of every record, with every default, and its content key."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

IN_NO_KEY = "in_no_key"  # metadata of a field that canonical texts leave out
IF_SET = "if_set"  # of one that they leave out where it is its default: keys of before it came do not move
_WRITTEN = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_NEVER = object()
_AS_THEY_ARE = frozenset({str, int, bool})


def canonical(record: object) -> str:
    """JSON with sorted keys and no spaces."""
    return _WRITTEN(_plain(record))


def content_key(record: object) -> str:
    return hashlib.sha256(canonical(record).encode()).hexdigest()


def key_of_texts(parts: Mapping[str, str]) -> str:
    return hashlib.sha256(of_texts(parts).encode()).hexdigest()


def of_texts(parts: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{scalar_text(name)}:{parts[name]}" for name in sorted(parts)) + "}"


@functools.lru_cache(maxsize=65_536, typed=True)  # typed: 1, 1.0 and true are one key of a dictionary
def scalar_text(value: str | float | bool | None) -> str:
    return canonical(value)


def keyed(record: object) -> dict[str, Any]:
    """Nested mappings, by the fields that keys have."""
    return {name: _mapped(getattr(record, name)) for name in _said(record)}


def _mapped(value: object) -> object:
    if is_dataclass(value):
        return keyed(value)
    return [_mapped(item) for item in value] if isinstance(value, list | tuple) else value


def _said(record: Any) -> list[str]:  # noqa: ANN401  a frozen record of any class
    return [name for name, usual in _named(record.__class__) if usual is _NEVER or getattr(record, name) != usual]


def came_later(record: Any) -> bool:  # noqa: ANN401  a frozen record of any class
    """Anything is set that its class lacked at first (`IF_SET`)."""
    return any(usual is not _NEVER and getattr(record, name) != usual for name, usual in _named(record.__class__))


@functools.cache
def _named(kind: type) -> tuple[tuple[str, object], ...]:
    """Fields of a class's text, each with the value at which it is left out, if any."""
    return tuple(
        (item.name, item.default if item.metadata.get(IF_SET) else _NEVER)
        for item in fields(kind)
        if not item.metadata.get(IN_NO_KEY)
    )


def _plain(value: object) -> Any:  # noqa: ANN401  JSON values have no narrower type
    if value is None or type(value) in _AS_THEY_ARE:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        # The class name tells apart records that would otherwise look alike (two kinds of attention).
        return {"": type(value).__name__, **{name: _plain(getattr(value, name)) for name in _said(value)}}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # 3500 and 3500.0 are one length
    return value
