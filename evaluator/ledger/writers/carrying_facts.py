"""A block in every format that brings a point back the same.

Formats lack half of our facts; readers use the block where other fields agree (evaluator.ledger.readers.carried)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from evaluator.ledger.readers.building import TPOT_EXCLUSIVE, TTFT, Item, record
from evaluator.ledger.readers.declared import E2E, INPUT_RATE, OUTPUT_RATE, REQUEST_RATE
from store.records import MeasurementRecord, SideRecord

BLOCK = "sweepdb"  # the name of the block in every format
PREDICTION = "sweepdb_prediction"  # the format of a stored prediction as a point
_PREDICTED_BY = "predicted by"  # in a definition: no measurement, as the view of measurements has it
_APART = ("extra", "measured_at", "source", "file")


def is_predicted(record: MeasurementRecord) -> bool:
    return any(_PREDICTED_BY in meaning for meaning in record.definitions.values())


def rows_of_kind(record: MeasurementRecord) -> str:
    return "predicted" if is_predicted(record) else "measured"


def block_of_record(record: MeasurementRecord) -> dict[str, Any]:
    """Every fact but where it was read."""
    facts = {name: value for name, value in asdict(record).items() if name not in _APART}
    facts |= {"extra": json.loads(record.extra), "rows": rows_of_kind(record)}
    facts["measured_at"] = None if record.measured_at is None else record.measured_at.isoformat()
    return _said(facts)


def _said(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Present ones, nested too. `extra` stays as it is."""
    inside = {
        name: _said(value) if isinstance(value, dict) and name != "extra" else value for name, value in facts.items()
    }
    return {name: value for name, value in inside.items() if value is not None and value != {}}


def statistics_of_latency(record: MeasurementRecord, latency: str) -> Iterator[tuple[str, float]]:
    """(mean, std, p50, p99.9 ...; ms) of `ttft_ms` and its kin."""
    for name, value in record.metrics.items():
        kind, _, statistic = name.rpartition("_")
        if kind == latency:
            yield statistic, value


def devices_of_side(record: MeasurementRecord, side: str) -> int | None:
    if record.mode != "disaggregated" and record.num_devices is not None:
        return record.num_devices
    held = getattr(record, side)
    return None if held.tp is None else held.tp * (held.pp or 1) * (held.dp or 1) * (held.instances or 1)


_PREDICTED = "predicted by sweepdb, not measured: "
_METRICS = {  # column -> (metric, what it means)
    "ttft_ms": ("ttft_ms_mean", TTFT),
    "tpot_exclusive_ms": ("tpot_exclusive_ms_mean", TPOT_EXCLUSIVE),
    "e2e_ms": ("e2e_ms_mean", E2E),
    **dict(zip(("input_tokens_per_s", "output_tokens_per_s", "requests_per_s"),
               (INPUT_RATE, OUTPUT_RATE, REQUEST_RATE), strict=True)),
}  # fmt: skip
_SIZES = ("tp", "pp", "dp", "ep", "moe_tp", "moe_dp")


def point_of_prediction(row: Mapping[str, Any]) -> MeasurementRecord:
    side = SideRecord(instances=1, **{name: row[name] for name in _SIZES}, batch_size=float(row["batch_size"]))
    metrics = {name: row[column] for column, (name, _) in _METRICS.items()}
    item = Item(
        model=row["model"],
        device=row["device"],
        engine=row["serving_model"],
        mode="aggregated",
        precision=row["linear_quantization"].lower(),
        num_devices=row["num_devices"],
        input_length=row["input_length_mean"],
        output_length=row["output_length"],
        concurrency=float(row["concurrency"]),
        prefill=side,
        decode=side,
        metrics=metrics,
        definitions={name: _PREDICTED + meaning for name, meaning in _METRICS.values()},
        extra={name: row[name] for name in ("probe", "family", "formula_version")},
    )
    return record(item, source=str(row["probe"]), source_format=PREDICTION)
