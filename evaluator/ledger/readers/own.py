"""Our own CSV of measured points, and the CSVs that AIConfigurator writes (predictions, kept as such)."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from evaluator.ledger.readers.building import (
    TPOT_EXCLUSIVE,
    TPOT_INCLUSIVE,
    TTFT,
    Circumstances,
    Item,
    ReadResult,
    number,
    read_rows,
    rest,
    text,
    whole,
)
from store.records import SideRecord

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
_DEFINITIONS = {"ttft_ms": TTFT, "tpot_exclusive_ms": TPOT_EXCLUSIVE, "tpot_inclusive_ms": TPOT_INCLUSIVE}


def read_own_csv(path: Path) -> ReadResult:
    """One measured point a line: columns as the store names them, sizes of both sides or prefill_ and decode_ ones."""
    return read_rows(path, OWN, OWN_COLUMNS, _own_item)


def _own_item(row: Mapping[str, str]) -> Item:
    layout = _layout(tuple(row))
    metrics = {name: number(row, name) for name in layout.measured}
    # A latency without a statistic is a mean.
    named = {
        name + "_mean" if name.endswith("_ms") else name: value for name, value in metrics.items() if value is not None
    }
    prefill, decode = (_own_side(row, sizes) for sizes in layout.sides)
    return Item(
        model=text(row, "model"),
        device=text(row, "device"),
        engine=text(row, "engine"),
        engine_version=text(row, "engine_version"),
        mode=text(row, "mode") or "aggregated",
        precision=text(row, "precision"),
        kv_precision=text(row, "kv_precision"),
        num_devices=whole(row, "num_devices"),
        input_length=number(row, "input_length"),
        output_length=number(row, "output_length"),
        concurrency=number(row, "concurrency"),
        request_rate=number(row, "request_rate"),
        prefill=prefill,
        decode=decode,
        metrics=named,
        definitions={name: text for name in named for known, text in _DEFINITIONS.items() if name.startswith(known)},
        extra=rest(row, layout.used),
        circumstances=Circumstances(point_id=text(row, "id") or ""),
    )


class _Layout(NamedTuple):
    """Columns of a file, by what is read from them."""

    measured: tuple[str, ...]
    sides: tuple[Mapping[str, tuple[str, ...]], ...]  # columns by the field of a side that they may fill
    used: frozenset[str]


@functools.cache
def _layout(columns: tuple[str, ...]) -> _Layout:
    measured = tuple(name for name in columns if _METRIC.match(name))
    wanted = [{name: (f"{side}_{name}", name) for name in (*_SIZES, "batch_size")} for side in ("prefill", "decode")]
    used = {"model", "device", "engine", "engine_version", "mode", "precision", "kv_precision", "num_devices",
            "input_length", "output_length", "concurrency", "request_rate", *measured, *_SIZES}  # fmt: skip
    return _Layout(
        measured=measured,
        sides=tuple({name: of for name, of in side.items() if not set(of).isdisjoint(columns)} for side in wanted),
        used=frozenset(used | {f"{side}_{name}" for side in ("prefill", "decode") for name in (*_SIZES, "batch_size")}),
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
    """pareto.csv and best_config_topn.csv of AIConfigurator. Every definition says that they are predictions."""
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
