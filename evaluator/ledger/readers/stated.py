"""Facts that the importing person knows and the file does not say, such as the device behind a benchmark client."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from evaluator.canonical import content_key
from evaluator.ledger.readers.building import BadItem, number, whole
from evaluator.ledger.readers.circumstances import FIELD
from store.errors import InputError
from store.records import MeasurementRecord, SideRecord

TEXTS = ("model", "device", "engine", "engine_version", "precision", "kv_precision")
NUMBERS = ("input_length", "output_length", "concurrency", "request_rate")
SIZES = ("tp", "pp", "dp", "ep", "moe_tp")
NAMES = (*TEXTS, "num_devices", *NUMBERS, *SIZES)
Stated = Mapping[str, str | int | float]


def parse_stated(pairs: Iterable[str]) -> Stated:
    """`device=h100_sxm`, `tp=2` ... as values by name."""
    stated: dict[str, str | int | float] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not value or name not in NAMES:
            raise InputError(f"`set={pair}`: not NAME=VALUE", hint=f"names: {', '.join(NAMES)}")
        try:
            row = {name: value}
            found = value if name in TEXTS else number(row, name) if name in NUMBERS else whole(row, name)
        except BadItem as problem:
            raise InputError(f"`set={pair}`: {problem}") from problem
        if found is None or (not isinstance(found, str) and found <= 0):
            raise InputError(f"`set={pair}`: must be above 0")
        stated[name] = found
    return stated


def with_stated(record: MeasurementRecord, stated: Stated) -> MeasurementRecord:
    """The record with what it lacks; what its file says stays. What was filled is kept among the other fields."""
    plain = {name: value for name, value in stated.items() if name not in SIZES and getattr(record, name) is None}
    sides = {"prefill": _side(record.prefill, stated), "decode": _side(record.decode, stated)}
    sizes = {
        name: stated[name]
        for name in SIZES
        if name in stated and any(getattr(getattr(record, side), name) is None for side in sides)
    }
    if not plain and not sizes:
        return record
    extra = json.loads(record.extra) | {"stated_at_import": {**plain, **sizes}}
    text = json.dumps(extra, sort_keys=True, ensure_ascii=False)
    values: dict[str, Any] = {**plain, **sides, "key": "", "source": "", "extra": text}
    made = replace(record, **values)
    bare = json.dumps({name: one for name, one in extra.items() if name != FIELD}, sort_keys=True, ensure_ascii=False)
    return replace(made, key=content_key(replace(made, extra=bare)), source=record.source)


def _side(side: SideRecord, stated: Stated) -> SideRecord:
    lacking = {name: int(stated[name]) for name in SIZES if name in stated and getattr(side, name) is None}
    return replace(side, **lacking)
