"""Canonical text and content keys: one spelling of every record, every default written out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

IN_NO_KEY = "in_no_key"  # metadata of a field that canonical texts leave out


def canonical(record: object) -> str:
    """Canonical JSON of a frozen record (or of plain lists, mappings and scalars): sorted keys, no spaces."""
    return json.dumps(_plain(record), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def content_key(record: object) -> str:
    """sha256 hex digest of the canonical form."""
    return hashlib.sha256(canonical(record).encode()).hexdigest()


def _plain(value: object) -> Any:  # noqa: ANN401  JSON values have no narrower type
    if is_dataclass(value) and not isinstance(value, type):
        # The class name tells apart records that would otherwise look alike (two kinds of attention).
        said = [item for item in fields(value) if not item.metadata.get(IN_NO_KEY)]
        return {"": type(value).__name__, **{item.name: _plain(getattr(value, item.name)) for item in said}}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # 3500 and 3500.0 are one length
    return value
