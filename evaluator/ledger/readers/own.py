"""Our CSV of measured points, and AIConfigurator's CSVs (kept as predictions)."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from evaluator.ledger.readers.building import (
    AS_USUAL,
    SHORTEST,
    TPOT_EXCLUSIVE,
    TPOT_INCLUSIVE,
    TTFT,
    Circumstances,
    Item,
    ReadResult,
    moment,
    number,
    rest,
    shortest_of,
    text,
    whole,
)
from evaluator.ledger.readers.column_reading import ColumnReader, Columns, fits
from evaluator.ledger.readers.rows import RecordOf, read_rows
from store.records import RunRecord, SideRecord

OWN, AICONFIGURATOR = "sweepdb_csv", "aiconfigurator"
OWN_COLUMNS = ("model", "device", "input_length", "output_length")
AICONFIGURATOR_COLUMNS = ("model", "isl", "osl", "ttft", "tpot", "tokens/s/gpu")
PREDICTED = "predicted by AIConfigurator, not measured: "
_SIZES = ("instances", "tp", "pp", "dp", "ep", "moe_tp", "moe_dp", "dcp", "pcp", "micro_batches")
_STATISTIC = r"(_(mean|std|p\d+(\.\d+)?))?"
_METRIC = re.compile(
    rf"^(?:(?:ttft|tpot_exclusive|tpot_inclusive|itl|e2e|decode_step|prefill_latency)_ms{_STATISTIC}"
    r"|(?:output_tokens|input_tokens|total_tokens|requests)_per_s)$"
)
_TEXTS = ("model", "device", "engine", "engine_version", "precision", "kv_precision")
_NUMBERS = ("input_length", "output_length", "concurrency", "request_rate")
_RUN_TEXTS = ("measured_by", "engine_commit", "image", "host", "driver", "flags", "git_revision", "tags")
_RUN_COUNTS = ("completed_requests", "failed_requests")
_OF_SETTING = (*_TEXTS, *_NUMBERS, "mode", "num_devices", "prefill", "decode", "run")
_DEFINITIONS = {"ttft_ms": TTFT, "tpot_exclusive_ms": TPOT_EXCLUSIVE, "tpot_inclusive_ms": TPOT_INCLUSIVE}


def read_own_csv(path: Path) -> ReadResult:
    """Columns as the store's; sizes for both pools, or with prefill_ and decode_."""
    return read_rows(path, OWN, OWN_COLUMNS, _own_item, _by_columns)


def _by_columns(path: Path, names: Sequence[str], record_of: RecordOf, escaped: bool) -> ColumnReader | None:
    layout = _layout(tuple(names))
    own = tuple(name for name in names if name not in layout.used)
    columns = Columns(measured=layout.measured, setting=layout.setting, own=own)
    if not fits(names, columns):
        return None
    return ColumnReader(
        path=path, names=tuple(names), columns=columns, record_of=record_of, own_of=_own_columns, escaped=escaped
    )


def _own_columns(row: Mapping[str, str]) -> tuple[Mapping[str, Any], Circumstances]:
    """The point's name and how its client drew lengths are circumstances too."""
    shortest = shortest_of(row, SHORTEST)
    if shortest is None and "id" not in row:
        return rest(row, ()), AS_USUAL
    return rest(row, ()), Circumstances(point_id=text(row, "id") or "", shortest_length=shortest)


def _own_item(row: Mapping[str, str]) -> Item:
    layout = _layout(tuple(row))
    named: dict[str, float | None] = {
        ours: value for name, ours in layout.measured if (value := number(row, name)) is not None
    }
    setting = _setting(layout, tuple(row[name] for name in layout.setting))
    same = {name: getattr(setting, name) for name in _OF_SETTING}
    own = {name: row[name] for name in row if name not in layout.used} if layout.more else {}
    extra, circumstances = _own_columns(own)
    return Item(
        **same,
        metrics=named,
        definitions=_definitions(tuple(named)),
        extra=extra,
        circumstances=circumstances,
        measured_at=None if (at := text(row, "measured_at")) is None else moment("measured_at", at),
    )


@functools.lru_cache(maxsize=65_536)
def _definitions(names: tuple[str, ...]) -> Mapping[str, str]:
    return {name: meaning for name in names for known, meaning in _DEFINITIONS.items() if name.startswith(known)}


@functools.lru_cache(maxsize=65_536)
def _setting(layout: _Layout, values: tuple[str, ...]) -> Item:
    """Facts beside values, which many lines share."""
    row = dict(zip(layout.setting, values, strict=True))
    prefill, decode = (_own_side(row, dict(sizes)) for sizes in layout.sides)
    run: dict[str, Any] = {name: text(row, name) for name in _RUN_TEXTS if name in row}
    run |= {name: whole(row, name) for name in _RUN_COUNTS if name in row}
    said: dict[str, Any] = {name: text(row, name) for name in _TEXTS}
    said |= {name: number(row, name) for name in _NUMBERS}
    return Item(
        **said,
        mode=text(row, "mode") or "aggregated",
        num_devices=whole(row, "num_devices"),
        prefill=prefill,
        decode=decode,
        run=RunRecord(**run),
        metrics={},
        definitions={},
        extra={},
    )


class _Layout(NamedTuple):
    measured: tuple[tuple[str, str], ...]  # (column, our name): a latency without a statistic is a mean
    setting: tuple[str, ...]
    sides: tuple[tuple[tuple[str, tuple[str, ...]], ...], ...]  # columns by the field of a side that they may fill
    used: frozenset[str]
    more: bool  # whether there are columns of the user's own


@functools.cache
def _layout(columns: tuple[str, ...]) -> _Layout:
    measured = tuple(name for name in columns if _METRIC.match(name))
    wanted = [{name: (f"{side}_{name}", name) for name in (*_SIZES, "batch_size")} for side in ("prefill", "decode")]
    known = {*_TEXTS, *_NUMBERS, *_RUN_TEXTS, *_RUN_COUNTS, "mode", "num_devices", *_SIZES}
    known |= {f"{side}_{name}" for side in ("prefill", "decode") for name in (*_SIZES, "batch_size")}
    used = frozenset({*known, *measured, "measured_at"})
    return _Layout(
        measured=tuple((name, name + "_mean" if name.endswith("_ms") else name) for name in measured),
        setting=tuple(name for name in columns if name in known or name == "batch_size"),
        sides=tuple(
            tuple((name, of) for name, of in side.items() if not set(of).isdisjoint(columns)) for side in wanted
        ),
        used=used,
        more=not used.issuperset(columns),
    )


def _own_side(row: Mapping[str, str], sizes: Mapping[str, tuple[str, ...]]) -> SideRecord:
    if not sizes:
        return _NO_SIDE
    found = {name: whole(row, *of) for name, of in sizes.items() if name != "batch_size"}
    return SideRecord(**found, batch_size=number(row, *sizes.get("batch_size", ())))


_NO_SIDE = SideRecord()
_PEER_DEFINITIONS = {
    "ttft_ms_mean": TTFT,
    "tpot_exclusive_ms_mean": TPOT_EXCLUSIVE,
    "e2e_ms_mean": "ttft + (output tokens - 1) x tpot",
    "output_tokens_per_s": "generated tokens a second of one instance",
}


def read_aiconfigurator(path: Path) -> ReadResult:
    """pareto.csv and best_config_topn.csv; every definition says that they are predictions."""
    return read_rows(path, AICONFIGURATOR, AICONFIGURATOR_COLUMNS, _aiconfigurator_item)


def _aiconfigurator_item(row: Mapping[str, str]) -> Item:
    both = "(p)tp" in row
    prefill, decode = (_peer_side(row, "(p)"), _peer_side(row, "(d)")) if both else (_peer_side(row, ""),) * 2
    devices = whole(row, "num_total_gpus")
    rate, per_device = number(row, "tokens/s"), number(row, "tokens/s/gpu")
    if rate is None and per_device is not None and devices is not None:
        rate = per_device * devices
    metrics = {
        "ttft_ms_mean": number(row, "ttft"),
        "tpot_exclusive_ms_mean": number(row, "tpot"),
        "e2e_ms_mean": number(row, "request_latency"),
        "output_tokens_per_s": rate,
    }
    used = {"model", "backend", "version", "system", "isl", "osl", "concurrency", "ttft", "tpot", "tokens/s",
            "tokens/s/gpu", "num_total_gpus", "request_latency", "gemm", "kvcache"}  # fmt: skip
    used |= {
        f"{side}{name}" for side in ("", "(p)", "(d)") for name in ("tp", "pp", "dp", "moe_tp", "moe_ep", "workers")
    }
    return Item(
        model=text(row, "model"),
        device=text(row, "system", "(d)system"),
        engine=text(row, "backend", "(d)backend"),
        engine_version=text(row, "version", "(d)version"),
        mode="disaggregated" if both else "aggregated",
        precision=text(row, "gemm", "(d)gemm"),
        kv_precision=text(row, "kvcache", "(d)kvcache"),
        num_devices=devices,
        input_length=number(row, "isl"),
        output_length=number(row, "osl"),
        concurrency=number(row, "concurrency"),
        prefill=prefill,
        decode=decode,
        metrics=metrics,
        definitions={name: PREDICTED + text for name, text in _PEER_DEFINITIONS.items()},
        extra=rest(row, used),
    )


def _peer_side(row: Mapping[str, str], side: str) -> SideRecord:
    return SideRecord(
        instances=whole(row, f"{side}workers"),
        tp=whole(row, f"{side}tp"),
        pp=whole(row, f"{side}pp"),
        dp=whole(row, f"{side}dp"),
        ep=whole(row, f"{side}moe_ep"),
        moe_tp=whole(row, f"{side}moe_tp"),
        batch_size=number(row, f"{side}bs"),
    )
