"""The content key of a measured point: what makes two points the same, wherever they stand.

Not here: reading points (evaluator.ledger.readers)."""

from __future__ import annotations

import functools
import hashlib
import operator
from collections.abc import Mapping
from typing import Any

from evaluator.canonical import canonical, of_texts, scalar_text
from store.records import MeasurementRecord, SideRecord


def key_of(record_: MeasurementRecord, extra: str) -> str:
    """The content key of a record, of whose other fields `extra` are in it."""
    return key_of_values({name: getattr(record_, name) for name in _IN_KEY}, extra)


_OF_PARTS = ("measured_at", "prefill", "decode", "metrics", "definitions")
_APART = {
    *_OF_PARTS,
    "extra",
    "key",
    "source",
    "file",
    "read_as",
    "run",
}  # where it was read and who ran it are in no key
_SCALARS = tuple(sorted({*MeasurementRecord.__slots__} - _APART))
_IN_KEY = (*_SCALARS, *_OF_PARTS)
_scalars = operator.itemgetter(*_SCALARS)


def key_of_values(values: Mapping[str, Any], extra: str) -> str:
    """As content_key of the record says it; texts of what many points share are made once."""
    measured_at = values["measured_at"]
    parts = _around(*_scalars(values), values["prefill"], values["decode"], tuple(values["definitions"].items()))
    varying = (
        canonical(extra) if extra != "{}" else '"{}"',
        "null" if measured_at is None else canonical(measured_at.isoformat()),
        _text_of_numbers(values["metrics"]),
    )
    return hashlib.sha256(parts.format(*varying).encode()).hexdigest()


_VARYING = ("extra", "measured_at", "metrics")  # of points that share a setting, nothing else
_GAP = "\0"  # which canonical texts escape


@functools.lru_cache(maxsize=65_536, typed=True)  # typed: 1, 1.0 and true are one key of a dictionary
def _around(*shared: Any) -> str:  # noqa: ANN401  scalars, and what follows them
    """The canonical text with places for the parts that vary, in the order of the alphabet."""
    *scalars, prefill, decode, definitions = shared
    parts = dict(zip(_SCALARS, map(scalar_text, scalars), strict=True)) | {
        "": '"MeasurementRecord"',
        "key": '""',
        "source": '""',
        "prefill": _shared_text(prefill),
        "decode": _shared_text(decode),
        "definitions": _text_of_pairs(definitions),
    }
    written = of_texts(parts | dict.fromkeys(_VARYING, _GAP))
    return written.replace("{", "{{").replace("}", "}}").replace(_GAP, "{}")


def _text_of_numbers(values: Mapping[str, float]) -> str:
    """As canonical has it; names of metrics are our own, and need no escape."""
    texts = []
    for name, value in sorted(values.items()):
        number_ = float(value)
        texts.append(f'"{name}":{int(number_) if number_.is_integer() and number_ < _WHOLE else repr(number_)}')
    return "{" + ",".join(texts) + "}"


_WHOLE = 2.0**53  # from which on not every whole number is a float


@functools.lru_cache(maxsize=4096)
def _shared_text(side: SideRecord) -> str:
    return canonical(side)


@functools.lru_cache(maxsize=4096)
def _text_of_pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return canonical(dict(pairs))
