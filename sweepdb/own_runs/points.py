"""Measurements as points that correct answers: their server and setting."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from evaluator.identity import model_record
from evaluator.ledger import (
    FEWEST_PROMPTS,
    OPEN_LOOP,
    Deployment,
    Unmatched,
    central_metrics,
    deployment_of,
    engine_of,
    failure_of,
    format_in_name,
    lengths_of,
    measured_device,
    measured_model,
    measured_precision,
    plan_of,
    steady_share,
    teaches,
)
from evaluator.same_objects import SameObjects
from queries.learning import Apart, FailedStart, OwnPoint, OwnPoints, Server, Setting
from queries.measured_rows import NamedServer, StatedServer, as_stated
from store.records import MeasurementRecord, SideRecord
from store.schema import OF_PLANS, PlanRecord

if TYPE_CHECKING:
    from evaluator.inputs import ModelSpec


Group = tuple[str, str, str, str, str, str]
RATE = "output_tokens_per_s"
TAUGHT = ("ttft_ms", "tpot_exclusive_ms", "e2e_ms", RATE)
OF_ANSWERS = {"tpot_exclusive_ms", "e2e_ms", RATE}  # say how long answers take
OF_BURSTS = f"users asked fewer than {FEWEST_PROMPTS} times each, so that their first prompts waited for one another"


def group_of(one: Deployment) -> Group:
    formats = one.precision
    return (one.device.name, one.model_name, one.engine or "", formats.linear, str(formats.experts), formats.attention)


def setting_of(one: Deployment) -> Setting:
    plan = one.plan
    return Setting(
        users=float(one.users), input_length=float(one.input_length), output_length=float(one.output_length),
        num_devices=float(one.num_devices), dp=float(plan.dp), ep=float(plan.ep), plan=plan_name(plan),
    )  # fmt: skip


def plan_name(plan: PlanRecord) -> str:
    return " ".join(str(getattr(plan, size.name)) for size in OF_PLANS)


class NumberedRuns(NamedTuple):
    """A record, how many runs it stands for, and its number in the store."""

    record: MeasurementRecord
    runs: int
    number: int

    @property
    def order(self) -> tuple[float, int]:
        at = self.record.measured_at
        return (-math.inf if at is None else at.timestamp(), self.number)


def points_of_runs(every: Iterable[NumberedRuns]) -> OwnPoints:
    """Of those that can teach, or tell of a failure."""
    points, failed = [], []
    for ran in every:
        record, why = ran.record, failure_of(ran.record)
        found = located(record) if why is not None else point_or_reason(record) if teaches(record) else None
        if not isinstance(found, OwnPoint):
            continue
        point = replace(found, repeats=ran.runs, order=ran.order)
        if why is None:
            points.append(point)
        else:
            day = None if record.measured_at is None else str(record.measured_at.date())
            failed.append(FailedStart(point, why, day))
    return OwnPoints(points=tuple(points), failed=tuple(failed))


APART = "disaggregated"


def point_or_reason(record: MeasurementRecord) -> OwnPoint | str:
    """A text says why it teaches nothing."""
    found = located(record)
    if isinstance(found, OwnPoint) and not found.measured:
        return "no time and no rate was measured"
    return found


def located(record: MeasurementRecord) -> OwnPoint | str:
    """Whatever it measured; a text says why nothing is known."""
    if any("predicted by" in text for text in record.definitions.values()):
        return "predicted by another program"
    if record.engine is None:
        return "engine not stated"
    try:
        one = deployment_of(record)
    except Unmatched as reason:
        return _at_rate(record) if reason.rule == OPEN_LOOP else reason.rule
    if one.mode not in {"aggregated", APART} or one.batched or one.engine is None:
        return "not a closed loop of whole requests under an engine we know"
    return _located(record, one)


def _located(record: MeasurementRecord, one: Deployment) -> OwnPoint | str:
    measured = central_metrics(record.metrics)
    taught = {name: measured[name] for name in TAUGHT if measured.get(name, 0.0) > 0.0}
    if one.prefill_plan is None:
        return _taught(record, one, taught)
    return _taught_apart(record, one, taught) if failure_of(record) is None else _failed_apart(record, one)


def _taught(record: MeasurementRecord, one: Deployment, taught: Mapping[str, float]) -> OwnPoint | str:
    if one.of_bursts:
        name = next((name for name in ("tpot_exclusive_ms", RATE) if name in taught), None)
        taught = {} if name is None else {name: taught[name]}
    if one.prompts_per_user is not None and taught.keys() & OF_ANSWERS == {RATE}:
        # A run of 80 prompts by 16 users, of whom 13.9 ask on average: 16 / 13.9 of its rate.
        share = steady_share(one)
        taught = {**taught, RATE: share * taught[RATE]} if share else {} if one.of_bursts else taught
    if one.of_bursts and not taught:
        return OF_BURSTS
    return _point(record, one, taught, -(-one.users_of_replica // one.plan.pp))


def _taught_apart(record: MeasurementRecord, one: Deployment, taught: Mapping[str, float]) -> OwnPoint | str:
    """By Little's law as many decode at once as measured times say.

    40 users who each wait 1 s and decode 3 s: 10 requests/s, 30 decode."""
    _, output = lengths_of(one, "asked")
    ttft, tpot = (taught.get(name) for name in ("ttft_ms", "tpot_exclusive_ms"))
    if not ttft or not tpot or one.prefill_plan is None:
        return "disaggregated, and not both TTFT and TPOT were measured"
    answer = max(output - 1.0, 0.0) * tpot
    rate = one.users / (ttft + answer)
    plan = one.plan
    size = max(1, round(rate * answer / (one.instances * plan.dp * plan.pp)))
    prompts = Apart(
        plan_name(one.prefill_plan), one.prefill_instances, one.instances, 1000.0 * rate, answer, one.prompts_per_user
    )
    times = {"ttft_ms": ttft, "tpot_exclusive_ms": tpot}
    whole = replace(_point(record, one, times, size), prompts=prompts)
    return replace(whole, setting=whole.setting._replace(num_devices=float(plan.num_devices)))


def _failed_apart(record: MeasurementRecord, one: Deployment) -> OwnPoint:
    plan = plan_name(one.prefill_plan) if one.prefill_plan is not None else ""
    return replace(_point(record, one, {}, 1), prompts=Apart(plan, one.prefill_instances, one.instances, 0.0, 0.0))


def _at_rate(record: MeasurementRecord) -> OwnPoint | str:
    """Each instance takes its part of the rate."""
    try:
        one = deployment_of(replace(record, concurrency=1.0))
    except Unmatched as reason:
        return reason.rule
    tpot = central_metrics(record.metrics).get("tpot_exclusive_ms", 0.0)
    if one.mode != "aggregated" or one.engine is None or not record.request_rate:
        return "not requests at a rate under an engine we know, to instances that do both"
    if not tpot:
        return "requests at a rate, and no TPOT was measured"
    found = _point(record, one, {"tpot_exclusive_ms": tpot}, 1)
    return replace(found, requests_per_s=record.request_rate / one.instances)


@SameObjects
def _key_of(model: ModelSpec) -> str:
    return model_record("", model).key  # names are in no key


def _point(record: MeasurementRecord, one: Deployment, taught: Mapping[str, float], size: int) -> OwnPoint:
    prompt, output = lengths_of(one, "asked")
    server = Server(_key_of(one.model), one.device.name, *group_of(one)[2:])
    setting = setting_of(one)._replace(
        users=float(size * one.plan.dp * one.plan.pp), input_length=float(prompt), output_length=float(output)
    )
    return OwnPoint(
        key=record.key, source=record.source, server=server, setting=setting, batch_size=size, measured=taught,
        version=record.engine_version, shortest_length=None if one.client is None else one.client.shortest,
        of_bursts=one.of_bursts and one.prefill_plan is None and RATE not in taught,
    )  # fmt: skip


@lru_cache(maxsize=4096)
def server_of(one: StatedServer) -> NamedServer:
    """Unknown words stay as in the source."""
    found = as_stated(one)
    engine = engine_of(one.serving_model, None if one.phase == "pd" else one.engine_version)
    found = found._replace(serving_model=engine or found.serving_model, device=_device(one.device) or found.device)
    try:
        name, model = measured_model(one.model)
    except Unmatched:
        return found
    found = found._replace(model=name, model_key=_key_of(model))
    return _planned(one, model, _formatted(one, name, model, found))


def key_and_device(model: str, device: str) -> tuple[str, str] | None:
    """As stored rows have them; None where the catalogue has no such model or device."""
    try:
        return _key_of(measured_model(model)[1]), measured_device(device).name
    except Unmatched:
        return None


def _device(name: str | None) -> str | None:
    try:
        return measured_device(name).name
    except Unmatched:
        return None


def _formatted(one: StatedServer, name: str, model: ModelSpec, found: NamedServer) -> NamedServer:
    try:
        stated = one.linear_quantization or format_in_name(one.model)
        formats = measured_precision(model, stated, one.attention_quantization, name=name)
    except Unmatched:
        return found
    return found._replace(
        linear_quantization=formats.linear, experts_quantization=str(formats.experts),
        attention_quantization=formats.attention,
    )  # fmt: skip


def _planned(one: StatedServer, model: ModelSpec, found: NamedServer) -> NamedServer:
    """Sizes that follow from others: replicas of a mixture from its experts."""
    side = SideRecord(tp=one.tp, pp=one.pp, dp=one.dp if one.dp > 1 else None, ep=one.ep)
    try:
        plan = plan_of(model, side if model.routed else replace(side, dp=one.dp))
    except Unmatched:
        return found
    if one.tp is None:
        return found
    sizes = ("pp", "dp", "ep", "moe_tp", "moe_dp")
    return found._replace(tp=plan.tp, **{name: getattr(plan, name) for name in sizes})
