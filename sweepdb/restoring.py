"""Restores scenarios from what a store or a bundle holds of them."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import NamedTuple

from evaluator.evaluate import LANGUAGE_PART
from evaluator.inputs import Launch, Plan, Routing
from evaluator.request import PlannedScenario
from evaluator.restore import restored
from evaluator.scenario import Scenario
from store.reading import ReadTransaction
from store.records import ScenarioRecord
from store.schema import SCENARIO_TABLES, Convention, Phase
from store.schema.plan_columns import OF_PLANS

_SIZES = f"SELECT {', '.join(f'p.{size.name}' for size in OF_PLANS)} FROM {SCENARIO_TABLES} WHERE sc.id = ?"  # noqa: S608  our text


class _Specs(NamedTuple):
    """The stored parts that a scenario is made of beside its plan, as _SPECS selects them."""

    model_name: str
    model: str
    device: str
    precision: str
    workload: str
    phase: Phase
    convention: Convention
    serving_model: str
    serving_cost_ms: float
    compile: bool
    routing: Routing | None
    assumptions: str | None


_SPECS = (
    "SELECT m.name, m.spec, d.spec, pr.spec, w.spec, sj.phase, sj.convention, sj.serving_model, sj.serving_cost_ms,"  # noqa: S608  our text
    f" sj.compile, sj.routing, sc.assumptions FROM {SCENARIO_TABLES} WHERE sc.id = ?"
)


def stored_scenario(transaction: ReadTransaction, scenario_id: int) -> PlannedScenario:
    """A scenario of a store, as far as captures and steps need it."""
    specs = next(transaction.rows(_Specs, _SPECS, (scenario_id,)))
    sizes = next(iter(transaction.cells(_SIZES, (scenario_id,))))
    return _planned(specs, Plan(**{size.name: int(value) for size, value in zip(OF_PLANS, sizes, strict=True)}))


def recorded_scenario(record: ScenarioRecord) -> PlannedScenario:
    """The same of a record."""
    subject = record.subject
    specs = _Specs(
        model_name=subject.model.name, model=subject.model.spec, device=record.device.spec,
        precision=subject.precision.spec, workload=subject.workload.spec, phase=subject.phase,
        convention=subject.convention, serving_model=subject.serving_model,
        serving_cost_ms=subject.serving_cost_ms, compile=subject.compile, routing=subject.routing,
        assumptions=record.assumptions,
    )  # fmt: skip
    return _planned(specs, Plan(**asdict(subject.plan)))


def _planned(specs: _Specs, plan: Plan) -> PlannedScenario:
    scenario = Scenario(
        model=replace(restored(specs.model), left_out=_left_out(specs.assumptions)),
        device=restored(specs.device),
        precision=restored(specs.precision),
        workload=restored(specs.workload),
        plan=plan,
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
