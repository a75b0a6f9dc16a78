"""InferenceX rows: seconds, rates a device, attention data parallelism as a flag."""

from __future__ import annotations

from typing import Any

from evaluator.ledger.writers.carrying_facts import (
    BLOCK,
    block_of_record,
    devices_of_side,
    is_predicted,
    statistics_of_latency,
)
from store.records import MeasurementRecord, SideRecord

_LATENCIES = {"ttft": "ttft_ms", "tpot": "tpot_exclusive_ms", "itl": "itl_ms", "e2el": "e2e_ms"}
_PER_DEVICE = {
    "tput_per_gpu": "total_tokens_per_s",
    "input_tput_per_gpu": "input_tokens_per_s",
    "output_tput_per_gpu": "output_tokens_per_s",
}


def row_of_inferencex(record: MeasurementRecord) -> dict[str, Any]:
    """All names are there, null where unknown."""
    apart = record.mode == "disaggregated"
    at = record.measured_at
    row: dict[str, Any] = {
        "hw": record.device,
        "model": record.model,
        "framework": record.engine,
        "framework_version": record.engine_version,
        "engine_commit": record.run.engine_commit,
        "precision": record.precision,
        "isl": record.input_length,
        "osl": record.output_length,
        "conc": record.concurrency,
        "disagg": apart,
        "is_multinode": False,
        "num_gpus": record.num_devices,
        "image": record.run.image,
        "date": None if at is None else at.isoformat(),
        "predicted": is_predicted(record),
    }
    if apart:
        row |= _sides(record)
    else:
        row |= _sizes(record.decode, "")
    return row | _rates(record) | _latencies(record) | {BLOCK: block_of_record(record)}


def _sizes(side: SideRecord, prefix: str) -> dict[str, Any]:
    """With attention data parallelism `tp` counts devices with attention replicas."""
    attention = side.tp == 1 and (side.dp or 1) > 1
    sizes = {"tp": side.dp if attention else side.tp, "ep": side.ep, "dp_attention": attention}
    if not attention:
        sizes["dp"] = side.dp
    return {prefix + name: value for name, value in sizes.items()}


def _sides(record: MeasurementRecord) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for name in ("prefill", "decode"):
        row |= _sizes(getattr(record, name), f"{name}_")
        row[f"{name}_num_workers"] = getattr(record, name).instances
        row[f"num_{name}_gpu"] = devices_of_side(record, name)
    return row


def _rates(record: MeasurementRecord) -> dict[str, Any]:
    devices = _devices(record)
    row = {
        theirs: record.metrics[ours] / devices if devices and ours in record.metrics else None
        for theirs, ours in _PER_DEVICE.items()
    }
    decoding = devices_of_side(record, "decode") if record.mode == "disaggregated" else None
    if decoding and "output_tokens_per_s" in record.metrics:
        row["output_tput_per_decode_gpu"] = record.metrics["output_tokens_per_s"] / decoding
    return row


def _devices(record: MeasurementRecord) -> int | None:
    if record.num_devices is not None:
        return record.num_devices
    both = [devices_of_side(record, side) for side in ("prefill", "decode")]
    if record.mode != "disaggregated":
        return both[1]
    return None if None in both else sum(count or 0 for count in both)


def _latencies(record: MeasurementRecord) -> dict[str, float]:
    row = {}
    for theirs, ours in _LATENCIES.items():
        for statistic, value in statistics_of_latency(record, ours):
            name = "median" if statistic == "p50" else statistic
            row[f"{name}_{theirs}"] = value / 1e3
            if theirs == "tpot" and statistic != "std":
                row[f"{name}_intvty"] = 1e3 / value  # tokens a second of one user
    return row
