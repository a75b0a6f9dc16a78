"""Restores scenarios from what a store or a bundle holds of them."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from evaluator.features import LANGUAGE_PART
from evaluator.inputs import Launch, Plan, Routing
from evaluator.request import PlannedScenario
from evaluator.restore import restored
from evaluator.scenario import Scenario
from store.records import ScenarioRecord
from store.schema import SCENARIO_TABLES, Convention, Phase

SPECS = (
    "SELECT m.name, m.spec, d.spec, pr.spec, w.spec, p.tp, p.pp, p.dp, p.ep, p.moe_tp, p.moe_dp, p.dcp,"  # noqa: S608  our text
    " p.redundant_experts, p.pcp, p.micro_batches, p.encoder_devices, sj.phase,"
    " sj.convention, sj.serving_model, sj.serving_cost_ms, sj.compile, sj.routing, sc.assumptions"
    f" FROM {SCENARIO_TABLES} WHERE sc.id = ?"
)


class ScenarioSpecs(NamedTuple):
    """The stored parts that a scenario is made of."""

    model_name: str
    model: str
    device: str
    precision: str
    workload: str
    tp: int
    pp: int
    dp: int
    ep: int
    moe_tp: int
    moe_dp: int
    dcp: int
    redundant_experts: int
    pcp: int
    micro_batches: int
    encoder_devices: int
    phase: Phase
    convention: Convention
    serving_model: str
    serving_cost_ms: float
    compile: bool
    routing: Routing | None
    assumptions: str | None


def planned_of(specs: ScenarioSpecs) -> PlannedScenario:
    """The scenario of stored specs, as far as captures and steps need it."""
    scenario = Scenario(
        model=replace(restored(specs.model), left_out=_left_out(specs.assumptions)),
        device=restored(specs.device),
        precision=restored(specs.precision),
        workload=restored(specs.workload),
        plan=Plan(
            tp=specs.tp,
            pp=specs.pp,
            dp=specs.dp,
            ep=specs.ep,
            moe_tp=specs.moe_tp,
            moe_dp=specs.moe_dp,
            dcp=specs.dcp,
            redundant_experts=specs.redundant_experts,
            pcp=specs.pcp,
            micro_batches=specs.micro_batches,
            encoder_devices=specs.encoder_devices,
        ),
        phase=specs.phase,
        convention=specs.convention,
        serving_model=specs.serving_model,
        serving_cost_ms=specs.serving_cost_ms,
        launch=Launch(compile=specs.compile),
        routing=specs.routing or "balanced",
    )
    return PlannedScenario(model_name=specs.model_name, scenario=scenario)


def _left_out(assumptions: str | None) -> str:
    """The parts of the published model that a row was evaluated without: they are in no key, and so in no spec."""
    said = (assumptions or "").splitlines()
    return next((one.removeprefix(LANGUAGE_PART) for one in said if one.startswith(LANGUAGE_PART)), "")


def specs_of(record: ScenarioRecord) -> ScenarioSpecs:
    """The specs of a record."""
    subject = record.subject
    plan = subject.plan
    return ScenarioSpecs(
        model_name=subject.model.name, model=subject.model.spec, device=record.device.spec,
        precision=subject.precision.spec, workload=subject.workload.spec, tp=plan.tp, pp=plan.pp, dp=plan.dp,
        ep=plan.ep, moe_tp=plan.moe_tp, moe_dp=plan.moe_dp, dcp=plan.dcp,
        redundant_experts=plan.redundant_experts, pcp=plan.pcp, micro_batches=plan.micro_batches,
        encoder_devices=plan.encoder_devices,
        phase=subject.phase, convention=subject.convention,
        serving_model=subject.serving_model, serving_cost_ms=subject.serving_cost_ms, compile=subject.compile,
        routing=subject.routing, assumptions=record.assumptions,
    )  # fmt: skip
