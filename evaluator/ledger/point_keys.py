"""Content keys of measured points: equal points, wherever they are."""

from __future__ import annotations

import functools
import hashlib
import operator
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from evaluator.canonical import canonical, of_texts, scalar_text
from store.records import MeasurementRecord, SideRecord


def key_of(record_: MeasurementRecord, extra: str) -> str:
    return key_of_values(_values_of(record_), extra)


def shared_parts(record_: MeasurementRecord) -> Parts:
    """Canonical text of a setting, cut where extra, moment and metrics go."""
    return _parts(_values_of(record_))


def _values_of(record_: MeasurementRecord) -> dict[str, Any]:
    return {name: getattr(record_, name) for name in _IN_KEY}


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
    """As content_key; shared texts are made once."""
    return key_between(_parts(values), extra, moment_text(values["measured_at"]), numbers_text(values["metrics"]))


Parts = tuple[str, str, str, str]  # of the canonical text: what stands around the three texts that vary


def _parts(values: Mapping[str, Any]) -> Parts:
    return _around(*_scalars(values), values["prefill"], values["decode"], tuple(values["definitions"].items()))


def key_between(parts: Parts, extra: str, moment: str, numbers: str) -> str:
    """`extra` is JSON, the others are canonical."""
    first, second, third, last = parts
    written = canonical(extra) if extra != "{}" else '"{}"'
    return hashlib.sha256(f"{first}{written}{second}{moment}{third}{numbers}{last}".encode()).hexdigest()


def moment_text(moment: datetime | None) -> str:
    return "null" if moment is None else canonical(moment.isoformat())


_VARYING = ("extra", "measured_at", "metrics")  # of points that share a setting, nothing else
_GAP = "\0"  # which canonical texts escape


@functools.lru_cache(maxsize=65_536, typed=True)  # typed: 1, 1.0 and true are one key of a dictionary
def _around(*shared: Any) -> Parts:  # noqa: ANN401  scalars, and what follows them
    """Cut at the varying parts, alphabetically."""
    *scalars, prefill, decode, definitions = shared
    parts = dict(zip(_SCALARS, map(scalar_text, scalars), strict=True)) | {
        "": '"MeasurementRecord"',
        "key": '""',
        "source": '""',
        "prefill": _shared_text(prefill),
        "decode": _shared_text(decode),
        "definitions": _text_of_pairs(definitions),
    }
    first, second, third, last = of_texts(parts | dict.fromkeys(_VARYING, _GAP)).split(_GAP)
    return first, second, third, last


def numbers_text(values: Mapping[str, float]) -> str:
    """Canonical; metrics' names are ours and need no escape."""
    return "{" + ",".join(f'"{name}":{number_text(float(value))}' for name, value in sorted(values.items())) + "}"


def number_text(value: float) -> str:
    """Canonical: whole numbers without a point."""
    return str(int(value)) if value.is_integer() and value < WHOLE else repr(value)


WHOLE = 2.0**53  # from which on not every whole number is a float


@functools.lru_cache(maxsize=4096)
def _shared_text(side: SideRecord) -> str:
    return canonical(side)


@functools.lru_cache(maxsize=4096)
def _text_of_pairs(pairs: tuple[tuple[str, str], ...]) -> str:
    return canonical(dict(pairs))
