"""Measured points as own runs: which server they are of, at which setting, and how far from what is predicted.

Not here: what runs say of other settings (queries.learning)."""

from __future__ import annotations

import math
from dataclasses import fields

from evaluator.ledger import Deployment, Values, central_metrics
from queries.learning import Run, Setting
from store.records import MeasurementRecord
from store.schema import PlanRecord

Group = tuple[str, ...]


def group_of(one: Deployment) -> Group:
    """The server that a deployment is of: device, model, engine and formats."""
    formats = one.precision
    return (one.device.name, one.model_name, one.engine or "", formats.linear, str(formats.experts), formats.attention)


def setting_of(one: Deployment) -> Setting:
    """Where a deployment lies among the settings of its server."""
    plan = one.plan
    return Setting(
        users=float(one.users), input_length=float(one.input_length), output_length=float(one.output_length),
        num_devices=float(one.num_devices), dp=float(plan.dp), ep=float(plan.ep), plan=plan_name(plan),
    )  # fmt: skip


def plan_name(plan: PlanRecord) -> str:
    """A plan in one text, in which two plans differ where any of their sizes do."""
    return " ".join(f"{one.name}{getattr(plan, one.name)}" for one in fields(PlanRecord))


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
