"""Scenarios from stores and bundles, for captures and steps."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, fields, replace
from typing import Any, NamedTuple

from evaluator.features import LANGUAGE_PART
from evaluator.graph import OperatorSet, operators_from_json
from evaluator.inputs import Client, Launch, Plan, Routing
from evaluator.request import PlannedScenario
from evaluator.restore import restored
from evaluator.scenario import Scenario
from evaluator.serving import stored_engine
from evaluator.together import captures
from queries.probes import find_scenario
from store.errors import InputError, StoreError
from store.location import StoreLocation
from store.opening import Store, open_store
from store.reading import read_transaction
from store.records import ScenarioRecord
from store.schema import SCENARIO_TABLES, Convention, Phase
from store.writing import get_operators

_SIZES = tuple(item.name for item in fields(Plan))
_OF_ONE = f"FROM {SCENARIO_TABLES} WHERE sc.id = ?"
_SPECS = (
    "SELECT m.name, m.spec, d.spec, pr.spec, w.spec, sj.phase, sj.convention, sj.serving_model, sj.serving_cost_ms,"
    " sj.compile, sj.routing, sj.unusual_service, sj.shortest_length, sj.prompts_per_user, sj.poll_steps, sj.seats,"
    f" sj.wait_steps, sc.assumptions {_OF_ONE}"
)
_CLIENT = frozenset({"shortest_length", "prompts_per_user", "poll_steps"})
_PLAN = f"SELECT {', '.join(f'p.{name}' for name in _SIZES)} {_OF_ONE}"


class _Specs(NamedTuple):
    """All parts but the plan."""

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
    unusual_service: str | None
    shortest_length: float | None
    prompts_per_user: int | None
    poll_steps: int | None
    seats: int | None
    wait_steps: int | None
    assumptions: str | None

    @property
    def client(self) -> Client | None:
        """None: the engine's usual one, as of rows that name none."""
        if _CLIENT.isdisjoint((self.unusual_service or "").split(",")):
            return None
        usual = Client()
        return Client(
            shortest=usual.shortest if self.shortest_length is None else self.shortest_length,
            prompts_per_user=self.prompts_per_user or usual.prompts_per_user,
            poll_steps=self.poll_steps or usual.poll_steps,
        )


def stored_scenario(location: StoreLocation, reference: str) -> PlannedScenario:
    number = find_scenario(location, reference)
    with read_transaction(location) as transaction:
        specs = next(transaction.rows(_Specs, _SPECS, (number,)))
        sizes = next(transaction.cells(_PLAN, (number,)))
    return _planned(specs, dict(zip(_SIZES, sizes, strict=True)))


def scenario_with_operators(location: StoreLocation, reference: str) -> tuple[Scenario, dict[str, OperatorSet]]:
    planned = stored_scenario(location, reference)
    wanted = captures(planned)
    with open_store(location.url, read_only=True) as store:
        payloads = get_operators(store, [item.key for item in wanted.values()])
        scenario = _with_own_engine(store, planned.scenario)
    if any(item.key not in payloads for item in wanted.values()):
        raise StoreError(
            f"the operators of {reference} are not stored as this program captures them",
            hint="the probe is of an older formula version; evaluate its scenario again",
        )
    return scenario, {trace: operators_from_json(payloads[item.key]) for trace, item in wanted.items()}


def _with_own_engine(store: Store, scenario: Scenario) -> Scenario:
    """With its label's profile, where stored."""
    if scenario.engine is None and "@" in scenario.serving_model:
        with suppress(InputError):
            return replace(scenario, engine=stored_engine(store, scenario.serving_model))
    return scenario


def planned_of(record: ScenarioRecord) -> PlannedScenario:
    subject = record.subject
    specs = _Specs(
        model_name=subject.model.name, model=subject.model.spec, device=record.device.spec,
        precision=subject.precision.spec, workload=subject.workload.spec, phase=subject.phase,
        convention=subject.convention, serving_model=subject.serving_model, serving_cost_ms=subject.serving_cost_ms,
        compile=subject.compile, routing=subject.routing, unusual_service=subject.unusual_service,
        shortest_length=subject.shortest_length, prompts_per_user=subject.prompts_per_user,
        poll_steps=subject.poll_steps, seats=subject.seats, wait_steps=subject.wait_steps,
        assumptions=record.assumptions,
    )  # fmt: skip
    return _planned(specs, asdict(subject.plan))


def _planned(specs: _Specs, sizes: dict[str, Any]) -> PlannedScenario:
    scenario = Scenario(
        model=replace(restored(specs.model), left_out=_left_out(specs.assumptions)),
        device=restored(specs.device),
        precision=restored(specs.precision),
        workload=restored(specs.workload),
        plan=Plan(**sizes),
        phase=specs.phase,
        convention=specs.convention,
        serving_model=specs.serving_model,
        serving_cost_ms=specs.serving_cost_ms,
        launch=Launch(seats=specs.seats, wait_steps=specs.wait_steps or 0, compile=specs.compile),
        client=specs.client,
        routing=specs.routing or "balanced",
    )
    return PlannedScenario(model_name=specs.model_name, scenario=scenario)


def _left_out(assumptions: str | None) -> str:
    """Parts of the model not evaluated: in no key, and so in no spec."""
    said = (assumptions or "").splitlines()
    return next((one.removeprefix(LANGUAGE_PART) for one in said if one.startswith(LANGUAGE_PART)), "")
