"""A stored prediction as a point that says so: its definitions begin like those of other programs' predictions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluator.ledger.readers.building import TPOT_EXCLUSIVE, TTFT, Item, record
from evaluator.ledger.readers.declared import E2E, INPUT_RATE, OUTPUT_RATE, REQUEST_RATE
from evaluator.ledger.writers.carrying_facts import PREDICTION
from store.records import MeasurementRecord, SideRecord

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
    """The point of a row of the view of probes, of instances that prefill and decode."""
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
