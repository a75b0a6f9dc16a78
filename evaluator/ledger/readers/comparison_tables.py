"""Two comparison tables, with a peer's predictions and of published figures, read as they are.

evaluator.ledger.scoring says what is wrong in them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from evaluator.ledger.readers.building import (
    TPOT_EXCLUSIVE,
    TTFT,
    BadItem,
    Circumstances,
    Item,
    ReadResult,
    number,
    rest,
    text,
    whole,
)
from evaluator.ledger.readers.rows import read_rows
from store.records import SideRecord

SERVING = "serving_table"
PUBLISHED = "published_table"
SERVING_COLUMNS = ("backend", "model_path", "system", "isl", "osl", "measured_ttft_ms", "measured_tpot_ms")
PUBLISHED_COLUMNS = ("source_kind", "device", "model", "weight_dtype", "phase", "metric", "value", "priority")
_MODES = {"agg": "aggregated", "disagg": "disaggregated"}
_SIDE = {
    "tp": "tp_size",
    "pp": "pp_size",
    "dp": "attention_dp_size",
    "moe_tp": "moe_tp_size",
    "ep": "moe_ep_size",
    "instances": "num_workers",
}


def read_serving_table(path: Path) -> ReadResult:
    """The peer's columns stay uninterpreted."""
    return read_rows(path, SERVING, SERVING_COLUMNS, _serving_item)


def _serving_item(row: Mapping[str, str]) -> Item:
    mode = _MODES.get(row.get("mode", "agg"))
    if mode is None:
        raise BadItem(f"mode {row['mode']!r} is neither agg nor disagg")
    both = [_side(row, "prefill_"), _side(row, "decode_")] if mode == "disaggregated" else [_side(row, "")] * 2
    used = {"backend", "backend_version", "model_path", "system", "precision", "mode", "isl", "osl", "concurrency",
            "measured_ttft_ms", "measured_tpot_ms"}  # fmt: skip
    used |= {side + name for side in ("", "prefill_", "decode_") for name in (*_SIDE.values(), "batch_size")}
    return Item(
        model=text(row, "model_path"),
        device=text(row, "system"),
        engine=text(row, "backend"),
        engine_version=text(row, "backend_version"),
        mode=mode,
        precision=text(row, "precision"),
        num_devices=_devices(both, mode),
        input_length=number(row, "isl"),
        output_length=number(row, "osl"),
        concurrency=number(row, "concurrency"),
        prefill=both[0],
        decode=both[1],
        metrics={
            "ttft_ms_mean": number(row, "measured_ttft_ms"),
            "tpot_exclusive_ms_mean": number(row, "measured_tpot_ms"),
        },
        definitions={"ttft_ms_mean": TTFT, "tpot_exclusive_ms_mean": TPOT_EXCLUSIVE},
        extra=rest(row, used),
        circumstances=Circumstances(
            point_id=row.get("id", ""),
            linear_format=text(row, "gemm_quant_mode"),
            experts_format=text(row, "moe_quant_mode"),
        ),
    )


def _side(row: Mapping[str, str], prefix: str) -> SideRecord:
    sizes = {name: whole(row, prefix + column) for name, column in _SIDE.items()}
    return SideRecord(**sizes, batch_size=number(row, prefix + "batch_size"))


def _devices(sides: list[SideRecord], mode: str) -> int | None:
    total = 0
    for side in sides[: 1 if mode == "aggregated" else 2]:
        if mode == "disaggregated" and side.instances is None:
            return None
        total += (side.tp or 1) * (side.pp or 1) * (side.dp or 1) * (side.instances or 1)
    return total


# Metric -> (our name, its definition). The number of devices turns per-device rates into the instance's.
_PUBLISHED_METRICS = {
    "ttft_ms": ("ttft_ms", TTFT),
    "tpot_ms": ("tpot_exclusive_ms", TPOT_EXCLUSIVE),
    "decode_step_ms": ("decode_step_ms", "one engine step over the decode batch"),
    "prefill_latency_ms": ("prefill_latency_ms", "one batch of prompts, alone, from start to first tokens"),
    "e2e_latency_ms": ("e2e_ms", "one batch of requests, all there at the start, from start to last token"),
    "tokens_per_s": ("output_tokens_per_s", "generated tokens a second of the whole deployment"),
    "req_per_s": ("requests_per_s", "finished requests a second of the whole deployment"),
    "kv_transfer_ms": ("kv_transfer_ms", "KV cache of one prompt from the prefill to the decode instance"),
}
_SCOPES = {"system": None, "batch_total": None, "per_device": "num_devices", "per_node_8": "8"}


def read_published_table(path: Path) -> ReadResult:
    return read_rows(path, PUBLISHED, PUBLISHED_COLUMNS, _published_item)


def _published_item(row: Mapping[str, str]) -> Item:
    if row["metric"] not in _PUBLISHED_METRICS:
        raise BadItem(f"metric {row['metric']!r} is unknown")
    name, definition = _PUBLISHED_METRICS[row["metric"]]
    value, devices = number(row, "value"), whole(row, "num_devices")
    scope = row.get("value_scope") or "system"
    if scope not in _SCOPES:
        raise BadItem(f"value_scope {scope!r} is unknown")
    if value is not None and scope in {"per_device", "per_node_8"}:
        if devices is None:
            raise BadItem(f"value_scope {scope} without num_devices")
        value *= devices if scope == "per_device" else devices / 8
        definition += f"; converted from {scope} with {devices} devices"
    if row.get("tokens_scope") in {"in", "total"}:
        name = {"in": "input_tokens_per_s", "total": "total_tokens_per_s"}[row["tokens_scope"]]
        definition = definition.replace(
            "generated", {"in": "prompt", "total": "prompt and generated"}[row["tokens_scope"]]
        )
    prefill, decode = _published_side(row, "P"), _published_side(row, "D")
    used = ("device", "num_devices", "model", "weight_dtype", "kv_dtype", "engine", "input_len", "output_len", "value")
    return Item(
        model=text(row, "model"),
        device=text(row, "device"),
        engine=text(row, "engine"),
        mode={"serving": "aggregated", "agg": "aggregated"}.get(row["phase"], row["phase"]),
        precision=text(row, "weight_dtype"),
        kv_precision=text(row, "kv_dtype"),
        num_devices=devices,
        input_length=number(row, "input_len"),
        output_length=number(row, "output_len"),
        concurrency=_first_number(row.get("batch_or_concurrency")),
        prefill=prefill,
        decode=decode,
        metrics={name + _suffix(row, name): value},
        definitions={name + _suffix(row, name): definition},
        extra=rest(row, used),
        circumstances=_published_circumstances(row),
    )


# When the measurements of a source were taken, where its rows do not say by which version of the engine.
_YEARS = {"argonne-lcf/LLM-Inference-Bench": 2024, "Mutinifni/splitwise-sim": 2023}
# Tables of NVIDIA run its published checkpoints, whose narrow weights come with eight-bit keys and values.
_NARROW_SOURCES = re.compile(r"NVIDIA/TensorRT-LLM docs/|docs\.nvidia\.com/nim/")
# Its prompts, 44 to 50 of them for thousands of requests, are held by vLLM's prefix cache, which is on by default.
_REPLAYED_SOURCES = re.compile(r"inference-sim/training@")
_NARROW_WEIGHTS = re.compile(r"fp8|fp4")
_LINE_RATE = re.compile(r"([\d.]+) GB/s (?:line rate|aggregate)")
_POINT_ID = re.compile(r"\brow id (\S+?);")  # the table repeats the id at the source among its notes


def _published_circumstances(row: Mapping[str, str]) -> Circumstances:
    """Mostly from notes of fixed sentences."""
    notes, source = row.get("notes", ""), row.get("source", "")
    known_id, rate = _POINT_ID.search(notes), _LINE_RATE.search(notes)
    return Circumstances(
        point_id=known_id[1] if known_id else row.get("id", ""),
        measured_year=next((year for start, year in _YEARS.items() if source.startswith(start)), None),
        saturated=row.get("batch_or_concurrency") == "saturated",
        all_at_once="all requests at once" in notes,
        static_batch=row.get("value_scope") == "batch_total",
        replayed=bool(_REPLAYED_SOURCES.match(source)),
        attention_replicas="enable_attention_dp" in notes,
        narrow_keys=bool(_NARROW_SOURCES.match(source) and _NARROW_WEIGHTS.search(row.get("weight_dtype", "").lower())),
        ttft_holds_transfer="TTFT includes" in notes and "KV transfer" in notes,
        line_rate_bytes_per_s=1e9 * float(rate[1]) if rate else None,
        linear_format=text(row, "gemm_quant_mode"),
        experts_format=text(row, "moe_quant_mode"),
    )


def _suffix(row: Mapping[str, str], name: str) -> str:
    """Latencies have a statistic, rates are totals."""
    return "" if name.endswith("_per_s") else "_" + (row.get("percentile") or "mean").split()[0]


def _published_side(row: Mapping[str, str], side: str) -> SideRecord:
    sizes: dict[str, int | None] = {}
    for name in ("tp", "pp", "dp", "ep"):
        value = row.get(name) or ""
        split = re.search(rf"{side}:(\d+)", value)
        sizes[name] = int(split.group(1)) if split else (whole(row, name) if ":" not in value else None)
    return SideRecord(**sizes)


def _first_number(value: str | None) -> float | None:
    found = re.fullmatch(r"\d+(\.\d+)?", (value or "").strip())
    return float(found.group(0)) if found else None
