"""Facts that the importing person knows and the file lacks."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from evaluator.ledger.point_keys import key_of
from evaluator.ledger.readers.building import (
    FIELD,
    LONGEST_TEXT,
    SHORTEST,
    BadItem,
    circumstances_of,
    inner,
    kept,
    moment,
    number,
    whole,
)
from evaluator.ledger.readers.declared import device_or_nearest, named_device
from store.errors import InputError
from store.records import MeasurementRecord, RunRecord, SideRecord
from store.writing import CORRECTED

TEXTS = ("model", "device", "engine", "engine_version", "mode", "precision", "kv_precision")
NUMBERS = ("input_length", "output_length", "concurrency", "request_rate")
MODES = ("aggregated", "disaggregated", "prefill", "decode")
OF_RUN = tuple(name for name in RunRecord.__slots__ if not name.endswith(("_requests", "_length", "_share")))
MEASURED_AT = "measured_at"
SIZES = (  # of which batch_size are requests at once, at most
    "tp", "pp", "dp", "ep", "moe_tp", "moe_dp", "batch_size", "dcp", "pcp", "micro_batches",
)  # fmt: skip
COUNTS = ("num_devices",)
NAMES = (*TEXTS, *COUNTS, *NUMBERS, *SIZES, MEASURED_AT, *OF_RUN)
SIDES = ("prefill", "decode")
OF_SIDES = tuple(f"{side}_{name}" for side in SIDES for name in ("instances", *SIZES))
_FORMATS = ("linear_format", "experts_format")  # as it states them where they are not one
Stated = Mapping[str, str | int | float]


def parse_stated(pairs: Iterable[str]) -> Stated:
    """`device=h100_sxm`, `tp=2`; `decode_tp=8` is of one pool."""
    names = (*NAMES, *OF_SIDES)
    stated: dict[str, str | int | float] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not value or name not in names:
            raise InputError(f"`set={pair}`: not NAME=VALUE", hint=f"names: {', '.join(names)}")
        try:
            row = {name: value}
            found = whole(row, name) if name in (*COUNTS, *SIZES, *OF_SIDES) else (
                number(row, name) if name in NUMBERS else value
            )  # fmt: skip
            if name == MEASURED_AT:
                moment(name, value)
        except BadItem as problem:
            raise InputError(f"`set={pair}`: {problem}") from problem
        if len(value) > LONGEST_TEXT.get(name, len(value)):
            raise InputError(f"`set={name}=...`: more than {LONGEST_TEXT[name]} characters")
        if found is None or (not isinstance(found, str) and found <= 0):
            raise InputError(f"`set={pair}`: must be above 0")
        if name == "mode" and value not in MODES:
            raise InputError(f"`set={pair}`: mode is one of {', '.join(MODES)}")
        stated[name] = _device(value, pair) if name == "device" else found
    return stated


def _device(written: str, pair: str) -> str:
    """A misspelt device is refused: its points would be compared with nothing."""
    try:
        device_or_nearest(written)
    except InputError as unknown:
        raise InputError(
            f"`set={pair}`: {unknown.message}", hint=f"{unknown.hint}; `sweepdb devices add FILE.yaml` adds your own"
        ) from None
    return named_device(written)


def with_stated(record: MeasurementRecord, stated: Stated) -> MeasurementRecord:
    """Only what the file lacks; filled fields are noted.

    Sizes of one pool say that it is disaggregated, which no client knows."""
    if not stated:
        return record
    plain: dict[str, Any] = {
        name: value
        for name, value in stated.items()
        if name not in (*SIZES, *OF_SIDES, *OF_RUN, MEASURED_AT) and getattr(record, name) is None
    }
    record = _with_run(record, stated)
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


def _with_run(record: MeasurementRecord, stated: Stated) -> MeasurementRecord:
    """Only what the file lacks. Facts of a run are in no key."""
    run: dict[str, Any] = {
        name: str(value) for name, value in stated.items() if name in OF_RUN and getattr(record.run, name) is None
    }
    more: dict[str, Any] = {"run": replace(record.run, **run)} if run else {}
    if MEASURED_AT in stated and record.measured_at is None:
        return _keyed(replace(record, **more), {MEASURED_AT: moment(MEASURED_AT, stated[MEASURED_AT])}, {})
    return replace(record, **more) if more else record


def tagged(record: MeasurementRecord, tags: Iterable[str]) -> MeasurementRecord:
    run = _run_tagged(record.run, tuple(tags))
    return record if run is record.run else replace(record, run=run)


@functools.lru_cache(maxsize=65_536)
def _run_tagged(run: RunRecord, tags: tuple[str, ...]) -> RunRecord:
    """The same object where it has these tags: many points share a run."""
    both = ",".join(sorted({*tags, *(run.tags or "").split(",")} - {""}))
    return run if both == (run.tags or "") else replace(run, tags=both)


NO_LEARN = "no-learn"  # the tag of a point whose owner lets it correct no answer


def teaching(record: MeasurementRecord, *, learn: bool) -> MeasurementRecord:
    tags = {*(record.run.tags or "").split(","), NO_LEARN} - {"", *([NO_LEARN] if learn else [])}
    return replace(record, run=replace(record.run, tags=",".join(sorted(tags)) or None))


def teaches(record: MeasurementRecord) -> bool:
    return NO_LEARN not in (record.run.tags or "").split(",")


def with_launched(record: MeasurementRecord, launched: Stated) -> MeasurementRecord:
    """The launch knows better than the client."""
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
    said: dict[str, Any] = {name: str(launched[name]) for name in _FORMATS if name in launched}
    if SHORTEST in launched:  # who asked is a circumstance, and no column
        said[SHORTEST] = float(launched[SHORTEST])
    if said:
        more |= kept(replace(circumstances_of(record), **said))
    return _keyed(record, {**plain, **sides, "mode": launched.get("mode")}, more)


def _of_side(launched: Stated, side: str, name: str) -> str | int | float | None:
    return launched.get(f"{side}_{name}", launched.get(name))


def corrected(record: MeasurementRecord, changes: Stated) -> MeasurementRecord:
    """The file's own statement is kept among other fields."""
    values: dict[str, Any] = {name: value for name, value in changes.items() if name in (*TEXTS, *COUNTS, *NUMBERS)}
    before: dict[str, Any] = {name: getattr(record, name) for name in values}
    for side in SIDES:
        held: SideRecord = getattr(record, side)
        sizes = {name: _of_side(changes, side, name) for name in ("instances", *SIZES)}
        stated = {name: int(size) for name, size in sizes.items() if size is not None}
        before |= {f"{side}_{name}": getattr(held, name) for name in stated}
        values[side] = replace(held, **stated)
    run: dict[str, Any] = {name: str(value) for name, value in changes.items() if name in OF_RUN}
    before |= {name: getattr(record.run, name) for name in run}
    values["run"] = replace(record.run, **run)
    extra = json.loads(record.extra)
    first = {**before, **inner(extra, CORRECTED)}  # of several corrections the first has what the file says
    if MEASURED_AT in changes:
        values[MEASURED_AT] = moment(MEASURED_AT, changes[MEASURED_AT])
    return _keyed(record, values, {CORRECTED: first})


def corrected_again(record: MeasurementRecord, before: MeasurementRecord) -> MeasurementRecord:
    """Keeps a person's corrections when the file changed."""
    names = inner(json.loads(before.extra), CORRECTED)
    found: dict[str, Any] = {}
    for name in names:
        side, _, size = name.partition("_")
        value = getattr(getattr(before, side), size) if name in OF_SIDES else (
            getattr(before.run, name) if name in OF_RUN else getattr(before, name, None)
        )  # fmt: skip
        if value is not None:
            found[name] = value
    return corrected(record, found)


def rekeyed(record: MeasurementRecord) -> MeasurementRecord:
    return replace(record, key=_keyed(record, {}, {}).key)


def _keyed(record: MeasurementRecord, values: Mapping[str, Any], more: Mapping[str, Any]) -> MeasurementRecord:
    extra = json.loads(record.extra) | dict(more)
    text = json.dumps(extra, sort_keys=True, ensure_ascii=False)
    changed: dict[str, Any] = {**values, "key": "", "source": "", "extra": text}
    made = replace(record, **changed)
    bare = json.dumps({name: one for name, one in extra.items() if name != FIELD}, sort_keys=True, ensure_ascii=False)
    key = key_of(made, bare)
    of_file = record.read_as or record.key
    return replace(made, key=key, source=record.source, read_as=None if of_file == key else of_file)


def _lacking(side: SideRecord, name: str, stated: Stated) -> dict[str, int]:
    found = {size: _of_side(stated, name, size) for size in ("instances", *SIZES) if getattr(side, size) is None}
    return {size: int(value) for size, value in found.items() if value is not None}
