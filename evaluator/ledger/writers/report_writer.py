"""llm-d's Benchmark Report, whose schema wants a mean for each latency."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluator.ledger.writers.carrying_facts import (
    BLOCK,
    block_of_record,
    devices_of_side,
    is_predicted,
    statistics_of_latency,
)
from store.records import MeasurementRecord

VERSION = "0.2.1"
NOT_SAID = "n/a"  # where the schema wants a text
_LATENCIES = {
    "time_to_first_token": ("ttft_ms", "s"),
    "normalized_time_per_output_token": ("tpot_inclusive_ms", "s/token"),
    "time_per_output_token": ("tpot_exclusive_ms", "s/token"),
    "inter_token_latency": ("itl_ms", "s/token"),
    "request_latency": ("e2e_ms", "s"),
}
_RATES = {
    "input_token_rate": ("input_tokens_per_s", "tokens/s"),
    "output_token_rate": ("output_tokens_per_s", "tokens/s"),
    "total_token_rate": ("total_tokens_per_s", "tokens/s"),
    "request_rate": ("requests_per_s", "queries/s"),
}
_STATISTICS = {"std": "stddev", "p99.9": "p99p9"}


def report_of(record: MeasurementRecord) -> dict[str, Any]:
    scenario = _said({"stack": _stack(record), "load": _load(record)})
    aggregate = _said({"requests": _requests(record), "latency": _latencies(record), "throughput": _rates(record)})
    report: dict[str, Any] = {"version": VERSION, "run": _run(record)}
    return report | {
        "scenario": scenario,
        "results": {
            "request_performance": {"aggregate": aggregate},
            "profiling": {BLOCK: block_of_record(record)},  # the one place where anything may stand
        },
    }


def _run(record: MeasurementRecord) -> dict[str, Any]:
    tags = (record.run.tags or "").split(",") if record.run.tags else []
    keywords = [*tags, "predicted"] if is_predicted(record) else tags
    start = None if record.measured_at is None else record.measured_at.isoformat()
    time = {"start": start} if start else None
    return {"uid": record.key[:32]} | _said({"time": time, "user": record.run.measured_by, "keywords": keywords})


def _stack(record: MeasurementRecord) -> list[dict[str, Any]]:
    """None without a model, which the schema wants."""
    if record.model is None:
        return []
    roles = ("prefill", "decode") if record.mode == "disaggregated" else ("replica",)
    return [_engine(record, role) for role in roles]


def _engine(record: MeasurementRecord, role: str) -> dict[str, Any]:
    side = "prefill" if role == "prefill" else "decode"
    held = getattr(record, side)
    sizes = {name: getattr(held, name) for name in ("tp", "dp", "pp", "ep")}
    replicas = held.instances or 1
    standardized = {
        "kind": "inference_engine",
        "tool": record.engine or NOT_SAID,
        "tool_version": record.engine_version or NOT_SAID,
        "role": role,
        "replicas": replicas,
        "model": {"name": record.model},
        "accelerator": {
            "model": record.device or NOT_SAID,
            "count": (devices_of_side(record, side) or 0) // replicas,  # of one replica
            "parallelism": _said(sizes),
        },
    }
    arguments = _said({"--quantization": record.precision, "--kv-cache-dtype": record.kv_precision})
    return {
        "metadata": {"label": f"{role}-0", "cfg_id": record.key[:32]},
        "standardized": standardized,
        "native": {"args": arguments},
    }


def _load(record: MeasurementRecord) -> dict[str, Any] | None:
    """None without a length, which the schema wants."""
    if record.input_length is None:
        return None
    standardized: dict[str, Any] = {
        "tool": record.source_format,
        "tool_version": NOT_SAID,
        "source": "unknown",
        "input_seq_len": {"distribution": "other", "value": record.input_length},
    }
    output = record.output_length
    standardized |= _said(
        {
            "output_seq_len": None if output is None else {"distribution": "other", "value": output},
            "rate_qps": record.request_rate,
            "concurrency": record.concurrency,
        }
    )
    return {"metadata": {}, "standardized": standardized, "native": {}}


def _requests(record: MeasurementRecord) -> dict[str, Any] | None:
    """None without a count, which the schema wants."""
    completed, failed = record.run.completed_requests, record.run.failed_requests
    if completed is None:
        return None
    lengths = {"input_length": record.input_length, "output_length": record.output_length}
    counts = {"total": completed + (failed or 0)} | _said({"failures": failed})
    return counts | {name: {"units": "count", "mean": value} for name, value in lengths.items() if value is not None}


def _latencies(record: MeasurementRecord) -> dict[str, Any]:
    found = {}
    for theirs, (ours, units) in _LATENCIES.items():
        values = {_theirs(name): value / 1e3 for name, value in statistics_of_latency(record, ours)}
        if "mean" in values:
            found[theirs] = {"units": units, **values}
    return found


def _theirs(statistic: str) -> str:
    return _STATISTICS.get(statistic, statistic)


def _rates(record: MeasurementRecord) -> dict[str, Any]:
    return {
        theirs: {"units": units, "mean": record.metrics[ours]}
        for theirs, (ours, units) in _RATES.items()
        if ours in record.metrics
    }


def _said(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None and value not in ({}, [])}
