"""Stored measurements as the points that answers are corrected by: which server they are of, and at which setting.

Not here: what they say of stored rows (queries.learning)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from evaluator.identity import model_record
from evaluator.ledger import Deployment, Unmatched, central_metrics, deployment_of, failure_of, lengths_of, teaches
from queries.learning import OwnPoint, OwnPoints, Server, Setting
from store.records import MeasurementRecord
from store.schema import OF_PLANS, PlanRecord

Group = tuple[str, str, str, str, str, str]
TAUGHT = ("ttft_ms", "tpot_exclusive_ms", "e2e_ms", "output_tokens_per_s")


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
    return " ".join(str(getattr(plan, size.name)) for size in OF_PLANS)


def points_of_records(records: Iterable[tuple[MeasurementRecord, int]]) -> OwnPoints:
    """Records as points that answers are corrected by, and those that cannot teach, with the reason.

    Beside each record stands the number of runs that it stands for."""
    points, silent, failed = [], [], []
    for record, repeats in records:
        why = failure_of(record)
        found = located(record) if why is not None else point_or_reason(record) if teaches(record) else LEFT_OUT
        if isinstance(found, str):
            silent += [(record.source, found)] if why is None else []
        elif why is not None:
            failed.append((found, why))
        else:
            points.append(replace(found, repeats=repeats))
    return OwnPoints(points=tuple(points), silent=tuple(silent), failed=tuple(failed))


LEFT_OUT = "left out: sweepdb measurements set POINT `learn` reads it again"


def point_or_reason(record: MeasurementRecord) -> OwnPoint | str:
    """A record as a question reads it, or why it says nothing of stored rows."""
    found = located(record)
    if isinstance(found, OwnPoint) and not found.measured:
        return "no time and no rate was measured"
    return found


def located(record: MeasurementRecord) -> OwnPoint | str:
    """The server and setting that a record is of, whatever it measured; or why none is known."""
    if any("predicted by" in text for text in record.definitions.values()):
        return "predicted by another program"
    if record.engine is None:
        return "engine not stated"
    try:
        one = deployment_of(record)
    except Unmatched as reason:
        return reason.rule
    if one.mode != "aggregated" or one.batched or one.engine is None:
        return "not a closed loop of whole requests under an engine we know"
    measured = central_metrics(record.metrics)
    return _taught(record, one, {name: measured[name] for name in TAUGHT if measured.get(name, 0.0) > 0.0})


def _taught(record: MeasurementRecord, one: Deployment, taught: Mapping[str, float]) -> OwnPoint:
    size = -(-one.users_of_replica // one.plan.pp)
    prompt, output = lengths_of(one, "asked")
    server = Server(model_record(one.model_name, one.model).key, one.device.name, *group_of(one)[2:])
    setting = setting_of(one)._replace(
        users=float(size * one.plan.dp * one.plan.pp), input_length=float(prompt), output_length=float(output)
    )
    return OwnPoint(
        key=record.key, source=record.source, server=server, setting=setting, batch_size=size, measured=taught,
        version=record.engine_version,
    )  # fmt: skip
