"""The content key of a measured point: what makes two points the same, wherever they stand.

Not here: reading points (evaluator.ledger.readers)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from evaluator.canonical import canonical, key_of_texts, scalar_text
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


def key_of_values(values: Mapping[str, Any], extra: str) -> str:
    """As content_key of the record says it; texts of what many points share are made once."""
    measured_at = values["measured_at"]
    parts = {name: scalar_text(values[name]) for name in _SCALARS}
    return key_of_texts(
        parts
        | {
            "": '"MeasurementRecord"',
            "key": '""',
            "source": '""',
            "measured_at": "null" if measured_at is None else canonical(measured_at.isoformat()),
            "prefill": _shared_text(values["prefill"]),
            "decode": _shared_text(values["decode"]),
            "metrics": _text_of_numbers(values["metrics"]),
            "definitions": _text_of_pairs(tuple(values["definitions"].items())),
            "extra": canonical(extra),
        }
    )


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
