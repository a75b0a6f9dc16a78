"""Measured points as own runs: at which setting they are, and how far from what is predicted.

Not here: what runs say of other settings (queries.learning), and which server they are of (sweepdb.own_points)."""

from __future__ import annotations

import math

from evaluator.ledger import Deployment, Values, central_metrics
from queries.learning import Run
from store.records import MeasurementRecord
from sweepdb.own_points import group_of, setting_of

__all__ = ["group_of", "run_of"]


def run_of(record: MeasurementRecord, one: Deployment, predicted: Values) -> Run | None:
    """A measured point beside its prediction; None where both have no metric in common that teaches."""
    measured = central_metrics(record.metrics)

    def apart(metric: str) -> float | None:
        if measured.get(metric, 0.0) > 0.0 and predicted.get(metric, 0.0) > 0.0:
            return math.log(measured[metric] / predicted[metric])
        return None

    rate, whole = apart("output_tokens_per_s"), apart("e2e_ms")
    if whole is None and rate is not None:
        whole = -rate
    ttft, tpot = apart("ttft_ms"), apart("tpot_exclusive_ms")
    if ttft is None and tpot is None and whole is None:
        return None
    first, later = predicted.get("ttft_ms", 0.0), predicted.get("tpot_exclusive_ms", 0.0)
    taken = first + (one.output_length - 1) * later
    return Run(
        key=record.key, setting=setting_of(one), ttft=ttft, tpot=tpot, whole=whole,
        ttft_share=first / taken if taken > 0.0 else 0.0, version=record.engine_version,
    )  # fmt: skip
