"""Facts that the importing person knows and the file does not say, such as the device behind a benchmark client."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from evaluator.canonical import content_key
from evaluator.inputs.devices.device_profiles import list_shipped, resolve
from evaluator.ledger.readers.building import FIELD, LONGEST_TEXT, BadItem, circumstances_of, inner, kept, number, whole
from store.errors import InputError
from store.records import MeasurementRecord, SideRecord
from store.writing import PROVENANCE

TEXTS = ("model", "device", "engine", "engine_version", "precision", "kv_precision")
NUMBERS = ("input_length", "output_length", "concurrency", "request_rate")
SIZES = (  # of which batch_size are requests at once, at most
    "tp", "pp", "dp", "ep", "moe_tp", "moe_dp", "batch_size", "dcp", "pcp", "micro_batches",
)  # fmt: skip
COUNTS = ("num_devices",)
NAMES = (*TEXTS, *COUNTS, *NUMBERS, *SIZES)
SIDES = ("prefill", "decode")
OF_SIDES = tuple(f"{side}_{name}" for side in SIDES for name in ("instances", *SIZES))
SHORTEST = "shortest_length"  # of what a launched folder states
_MISSPELT = 0.8  # of two names, from which on one is taken for the other mistyped
CORRECTED = "corrected"  # among the fields that a record keeps beside its columns: what was there before
Stated = Mapping[str, str | int | float]


def parse_stated(pairs: Iterable[str]) -> Stated:
    """`device=h100_sxm`, `tp=2` ... as values by name; `decode_tp=8` is of one side alone."""
    names = (*NAMES, *OF_SIDES)
    stated: dict[str, str | int | float] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not value or name not in names:
            raise InputError(f"`set={pair}`: not NAME=VALUE", hint=f"names: {', '.join(names)}")
        try:
            row = {name: value}
            found = value if name in TEXTS else number(row, name) if name in NUMBERS else whole(row, name)
        except BadItem as problem:
            raise InputError(f"`set={pair}`: {problem}") from problem
        if len(value) > LONGEST_TEXT.get(name, len(value)):
            raise InputError(f"`set={name}=...`: more than {LONGEST_TEXT[name]} characters")
        if found is None or (not isinstance(found, str) and found <= 0):
            raise InputError(f"`set={pair}`: must be above 0")
        if name == "device":
            _refuse_misspelt(value, pair)
        stated[name] = found
    return stated


def _refuse_misspelt(device: str, pair: str) -> None:
    """A device that nobody knows may be anything, but for one that is nearly the name of a known one."""
    try:
        resolve(device)
    except InputError as unknown:
        if difflib.get_close_matches(device, list_shipped(), cutoff=_MISSPELT):
            raise InputError(f"`set={pair}`: {unknown.message}", hint=unknown.hint) from None


def with_stated(record: MeasurementRecord, stated: Stated) -> MeasurementRecord:
    """The record with what it lacks; what its file says stays. What was filled is kept among the other fields.

    Sizes of one side say that prefill and decode are apart, which no client knows."""
    if not stated:
        return record
    plain: dict[str, Any] = {
        name: value
        for name, value in stated.items()
        if name not in (*SIZES, *OF_SIDES) and getattr(record, name) is None
    }
    lacking = {side: _lacking(getattr(record, side), side, stated) for side in SIDES}
    if not plain and not any(lacking.values()):
        return record
    if any(name in stated and lacking[name.partition("_")[0]] for name in OF_SIDES):
        plain["mode"] = "disaggregated"
    sides: dict[str, Any] = {side: replace(getattr(record, side), **sizes) for side, sizes in lacking.items()}
    sizes = {
        name: value
        for name, value in stated.items()
        if name in OF_SIDES or (name in SIZES and any(name in of_side for of_side in lacking.values()))
    }
    return _keyed(record, {**plain, **sides}, {"stated_at_import": {**plain, **sizes}})


def with_launched(record: MeasurementRecord, launched: Stated) -> MeasurementRecord:
    """The record of a client that measured a known launch: how that serves is known better than a client says."""
    plain = {name: value for name, value in launched.items() if name in (*TEXTS, *COUNTS)}
    sides = {
        side: replace(
            getattr(record, side),
            **{
                name: int(value)
                for name in (*SIZES, "instances")
                if (value := _of_side(launched, side, name)) is not None
            },
        )
        for side in SIDES
    }
    more: dict[str, Any] = {"launched": dict(launched)}
    if SHORTEST in launched:  # who asked is a circumstance, and no column
        more |= kept(replace(circumstances_of(record), shortest_length=float(launched[SHORTEST])))
    return _keyed(record, {**plain, **sides, "mode": launched.get("mode")}, more)


def _of_side(launched: Stated, side: str, name: str) -> str | int | float | None:
    return launched.get(f"{side}_{name}", launched.get(name))


def corrected(record: MeasurementRecord, changes: Stated) -> MeasurementRecord:
    """The record as a person corrects it. What its file says is kept among the other fields."""
    values: dict[str, Any] = {name: value for name, value in changes.items() if name in (*TEXTS, *COUNTS, *NUMBERS)}
    before: dict[str, Any] = {name: getattr(record, name) for name in values}
    for side in SIDES:
        held: SideRecord = getattr(record, side)
        sizes = {name: _of_side(changes, side, name) for name in ("instances", *SIZES)}
        stated = {name: int(size) for name, size in sizes.items() if size is not None}
        before |= {f"{side}_{name}": getattr(held, name) for name in stated}
        values[side] = replace(held, **stated)
    extra = json.loads(record.extra)
    first = {**before, **inner(extra, CORRECTED)}  # of several corrections the first has what the file says
    provenance = {"read_as": record.key, **inner(extra, PROVENANCE)}
    return _keyed(record, values, {CORRECTED: first, PROVENANCE: provenance})


def read_from(record: MeasurementRecord, file: str) -> MeasurementRecord:
    """The record with a digest of its file, by which reading that file again replaces it."""
    extra = json.loads(record.extra) | {PROVENANCE: {"file": file}}
    return replace(record, extra=json.dumps(extra, sort_keys=True, ensure_ascii=False))


def rekeyed(record: MeasurementRecord) -> MeasurementRecord:
    """The record under the key that its content has, whatever key it came with."""
    return replace(record, key=_keyed(record, {}, {}).key)


def _keyed(record: MeasurementRecord, values: Mapping[str, Any], more: Mapping[str, Any]) -> MeasurementRecord:
    """The record with other values, and the content key of these."""
    extra = json.loads(record.extra) | dict(more)
    text = json.dumps(extra, sort_keys=True, ensure_ascii=False)
    changed: dict[str, Any] = {**values, "key": "", "source": "", "extra": text}
    made = replace(record, **changed)
    in_no_key = {FIELD, PROVENANCE}
    bare = json.dumps(
        {name: one for name, one in extra.items() if name not in in_no_key}, sort_keys=True, ensure_ascii=False
    )
    return replace(made, key=content_key(replace(made, extra=bare)), source=record.source)


def _lacking(side: SideRecord, name: str, stated: Stated) -> dict[str, int]:
    """The sizes that a side lacks and a person states, of both sides or of this one."""
    found = {size: _of_side(stated, name, size) for size in ("instances", *SIZES) if getattr(side, size) is None}
    return {size: int(value) for size, value in found.items() if value is not None}
