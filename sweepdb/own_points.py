"""Stored measurements as the points that answers are corrected by: which server they are of, and at which setting; and
servers of measured settings by the names, formats and sizes of stored rows.

Not here: what points say of stored rows (queries.learning), and settings as rows (queries.measured_rows)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from evaluator.identity import model_record
from evaluator.ledger import (
    Deployment,
    Unmatched,
    central_metrics,
    deployment_of,
    engine_of,
    failure_of,
    lengths_of,
    measured_device,
    measured_model,
    measured_precision,
    plan_of,
    teaches,
)
from queries.learning import OwnPoint, OwnPoints, Server, Setting
from queries.measured_rows import NamedServer, StatedServer, as_stated
from store.records import MeasurementRecord, SideRecord
from store.schema import OF_PLANS, PlanRecord

if TYPE_CHECKING:
    from evaluator.inputs.model import ModelSpec

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


_READ: OrderedDict[str, OwnPoint | str] = OrderedDict()  # by the key of a record: matching its names takes milliseconds
_MOST_READ = 4096


def points_of_records(records: Sequence[MeasurementRecord]) -> OwnPoints:
    """Records as the points that answers are corrected by, and those that cannot teach, with the reason."""
    whys = [failure_of(record) for record in records]
    failed = [(located(record), why) for record, why in zip(records, whys, strict=True) if why is not None]
    measured = [record for record, why in zip(records, whys, strict=True) if why is None]
    found = [(record, _remembered(record) if teaches(record) else LEFT_OUT) for record in measured]
    return OwnPoints(
        points=tuple(one for _, one in found if isinstance(one, OwnPoint)),
        silent=tuple((record.source, one) for record, one in found if isinstance(one, str)),
        failed=tuple((one, why) for one, why in failed if isinstance(one, OwnPoint)),
    )


def _remembered(record: MeasurementRecord) -> OwnPoint | str:
    if record.key not in _READ:
        _READ[record.key] = point_or_reason(record)
        while len(_READ) > _MOST_READ:
            _READ.popitem(last=False)
    return _READ[record.key]


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


@lru_cache(maxsize=4096)
def server_of(one: StatedServer) -> NamedServer:
    """A server as stored rows name it; what is not known keeps the words of its source."""
    found = as_stated(one)
    engine = engine_of(one.serving_model, None if one.phase == "pd" else one.engine_version)
    found = found._replace(serving_model=engine or found.serving_model, device=_device(one.device) or found.device)
    try:
        name, model = measured_model(one.model)
    except Unmatched:
        return found
    found = found._replace(model=name, model_key=model_record(name, model).key)
    return _planned(one, model, _formatted(one, name, model, found))


def _device(name: str | None) -> str | None:
    try:
        return measured_device(name).name
    except Unmatched:
        return None


def _formatted(one: StatedServer, name: str, model: ModelSpec, found: NamedServer) -> NamedServer:
    try:
        formats = measured_precision(model, one.linear_quantization, one.attention_quantization, name=name)
    except Unmatched:
        return found
    return found._replace(
        linear_quantization=formats.linear, experts_quantization=str(formats.experts),
        attention_quantization=formats.attention,
    )  # fmt: skip


def _planned(one: StatedServer, model: ModelSpec, found: NamedServer) -> NamedServer:
    """With the sizes that follow from those stated: of a mixture of experts, replicas of attention from the experts."""
    side = SideRecord(tp=one.tp, pp=one.pp, dp=one.dp if one.dp > 1 else None, ep=one.ep)
    try:
        plan = plan_of(model, side if model.routed else replace(side, dp=one.dp))
    except Unmatched:
        return found
    if one.tp is None:
        return found
    sizes = ("pp", "dp", "ep", "moe_tp", "moe_dp")
    return found._replace(tp=plan.tp, **{name: getattr(plan, name) for name in sizes})
