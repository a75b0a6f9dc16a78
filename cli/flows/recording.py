"""Keeps comparisons: a scenario for every configuration that was compared, its standard probe where there is one, and
the signed errors. Not here: comparing (cli.flows.validate).

The standard evaluation knows neither a client's ranged lengths nor fits that leave a pair out, so the prediction that
is kept beside a measured value is the comparison's own, and its probe may differ from it."""

from __future__ import annotations

import json
import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version

import numpy as np

from cli.flows.ledger import place_of
from cli.flows.validate import SHORT, LookUp, Progress, Validation, compare
from evaluator.capture import CaptureRequest, capture
from evaluator.evaluate import assumptions_of, capture_requests, cost_model, evaluate_scenario, unsupported
from evaluator.identity import RecordBuilder
from evaluator.measured.deployments import Deployment
from evaluator.measured.scoring import Comparison
from evaluator.operators import OperatorSet, from_json, to_json
from evaluator.scenario import Phase, Scenario
from evaluator.serving.engines import EngineProfile, engine_profile
from evaluator.serving.stored_engines import keep_engine
from evaluator.sweep import program_version
from evaluator.workload import Workload
from store.errors import InputError
from store.location import parse_url
from store.measurements import forget_validations, get_measurements, put_measurements, put_validations
from store.migrating import create_if_missing
from store.opening import Store, open_store
from store.operators import get_operators, put_operators
from store.records import (
    BlockRecord,
    MeasurementRecord,
    OperatorSetRecord,
    ScenarioRecord,
    ScenarioRef,
    SweepRecord,
    ValidationRecord,
)
from store.scenarios import missing_intervals
from store.sealing import seal
from store.writing import begin_sweep, finish_sweep, put_block, put_scenarios, record_interval

LONG = {short: long for long, short in SHORT.items()}
Operators = dict[str, OperatorSet]
PHASES: Mapping[str, Phase] = {
    "prefill": "prefill", "decode": "decode", "aggregated": "aggregated", "disaggregated": "decode",
}  # fmt: skip
PROMPT_METRICS = {"ttft", "kv_transfer_ms", "prefill_latency_ms"}
Side = tuple[str, str]  # key of a measured record, and what a side does: prompts or tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What one validation added to the store."""

    scenarios: int = 0
    probes: int = 0
    refused: int = 0  # scenarios without a standard evaluation
    errors: int = 0


def validate(
    records: Sequence[MeasurementRecord] | None,
    store_url: str | None,
    *,
    engine: EngineProfile | None = None,
    on_progress: Progress = lambda _done, _all: None,
    on_kept: Progress = lambda _done, _all: None,
) -> tuple[Validation, Kept]:
    """Compare records (stored on the way), or every stored point where none are given, and keep the errors.

    What an `engine` of the caller's own predicts is compared and not kept: the ledger is about what is shipped."""
    if records is not None:
        create_if_missing(parse_url(store_url))
    with open_store(store_url) as store:
        if records is None:
            records = get_measurements(store)
        else:
            put_measurements(store, records)
        if not records:
            raise InputError("there is no measured point to compare", hint="sweepdb measurements import FILE")
        captured = remembered(store)
        validation = compare(sorted(records, key=_in_file), captured, engine=engine, on_progress=on_progress)
        if engine is not None:
            return validation, Kept()
        forget_validations(store, {record.key for record in records} - set(validation.points))
        return validation, keep(store, validation, captured, on_kept)


def _in_file(record: MeasurementRecord) -> tuple[list[str | int], str]:
    """Of two equal points the first counts: the same one from files and from the store."""
    return place_of(record.source), record.key


def keep(store: Store, validation: Validation, captured: LookUp, on_kept: Progress = lambda _done, _all: None) -> Kept:
    """Store the scenarios, probes and signed errors of a validation, in one sweep; what is there is left as it is."""
    if not validation.comparisons:
        return Kept()
    points = _scenarios(validation)
    for engine in {point.scenario.engine for point in points.values()}:
        if engine is not None:
            keep_engine(store, engine, source="shipped")
    sweep_id = begin_sweep(store, _sweep(validation))
    keeper = _Keeper(store=store, sweep_id=sweep_id, captured=captured)
    try:
        keeper.put(points, on_kept)
        errors = [_error(one, _side_of(one, points)) for one in validation.comparisons]
        put_validations(store, errors)
    except BaseException as error:
        finish_sweep(store, sweep_id, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    finish_sweep(store, sweep_id, "finished")
    seal(store)
    scenarios = {point.record.key for point in points.values()}
    return Kept(scenarios=len(scenarios), probes=keeper.probes, refused=keeper.refused, errors=len(errors))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """The scenario of a measured point, and its batch size of one replica and pipeline stage."""

    scenario: Scenario
    record: ScenarioRecord
    batch_size: int


def _scenarios(validation: Validation) -> dict[Side, _Compared]:
    """The scenario of each point and side, by the key of its measured record and what the side does."""
    builder, known = RecordBuilder(), dict[object, tuple[Scenario, ScenarioRecord]]()
    points: dict[Side, _Compared] = {}
    for key, one in validation.points.items():
        prompts = one.prefill_side()
        for side, deployment in {"prompts": prompts, "tokens": one}.items():
            if deployment is None:
                continue
            name = (deployment.model_name, deployment.device.name, deployment.precision, deployment.plan,
                    deployment.input_length, deployment.output_length, deployment.engine, deployment.token_budget,
                    PHASES[deployment.mode])  # fmt: skip
            if name not in known:
                scenario = scenario_of(deployment)
                known[name] = scenario, builder.scenario(deployment.model_name, scenario)
            batch_size = -(-deployment.users_of_replica // deployment.plan.pp)
            points[key, side] = _Compared(scenario=known[name][0], record=known[name][1], batch_size=batch_size)
    return points


def _side_of(one: Comparison, points: Mapping[Side, _Compared]) -> _Compared:
    """What predicts a metric: where the sides are apart, first tokens come from the instances that take prompts."""
    prompts = points.get((one.record_key, "prompts")) if one.metric in PROMPT_METRICS else None
    return prompts or points[one.record_key, "tokens"]


def scenario_of(deployment: Deployment) -> Scenario:
    """The scenario that `evaluate --serving-model ENGINE` makes of this configuration: nominal lengths, the shipped
    engine under its own token budget, or that of the launch flag that the source states."""
    engine = None if deployment.engine is None else engine_profile(deployment.engine)
    budget = deployment.token_budget or (engine and engine.token_budget)
    lengths = Workload(input_length=deployment.input_length, output_length=deployment.output_length)
    return Scenario(
        model=deployment.model,
        device=deployment.device,
        precision=deployment.precision,
        plan=deployment.plan,
        workload=replace(lengths, max_batched_tokens=budget) if budget else lengths,
        phase=PHASES[deployment.mode],
        serving_model=deployment.engine or "waves",
        engine=engine,
    )


def _sweep(validation: Validation) -> SweepRecord:
    devices = sorted({one.device for one in validation.comparisons})
    models = sorted({one.model for one in validation.comparisons})
    asked = {"kind": "validation", "models": models, "devices": devices, "points": len(validation.points)}
    return SweepRecord(
        key=secrets.token_hex(6),
        label="validation",
        arguments=json.dumps(asked, sort_keys=True),
        program_version=program_version(),
        started_at=datetime.now(UTC),
    )


def _error(one: Comparison, point: _Compared) -> ValidationRecord:
    return ValidationRecord(
        measurement_key=one.record_key,
        metric=LONG.get(one.metric, one.metric),
        scenario_key=point.record.key,
        batch_size=point.batch_size,
        measured=one.measured,
        predicted=one.predicted,
        region=one.region,
    )


@dataclass(slots=True, kw_only=True)
class _Keeper:
    """One sweep of standard evaluations in progress."""

    store: Store
    sweep_id: int
    captured: LookUp
    probes: int = 0
    refused: int = 0

    def put(self, points: Mapping[Side, _Compared], on_kept: Progress) -> None:
        """Store every scenario, and the probes it lacks at the batch sizes of its points."""
        sizes: dict[str, set[int]] = defaultdict(set)
        for point in points.values():
            sizes[point.record.key].add(point.batch_size)
        ready = {point.record.key: self._ready(point) for point in points.values()}
        refs = put_scenarios(self.store, self.sweep_id, [record for _, record, _ in ready.values()])
        for done, (ref, (scenario, record, operators)) in enumerate(zip(refs, ready.values(), strict=True), start=1):
            if record.status == "ok":
                self._put_probes(ref, scenario, operators, sorted(sizes[ref.key]))
            on_kept(done, len(refs))
        self.refused = sum(record.status != "ok" for _, record, _ in ready.values())

    def _ready(self, point: _Compared) -> tuple[Scenario, ScenarioRecord, Operators]:
        """A scenario with its operators, or with the reason why it has no standard evaluation."""
        scenario = point.scenario
        refused = unsupported(scenario)
        if refused is not None:
            return scenario, replace(point.record, status="unsupported", reason=refused.message), {}
        requests = capture_requests(scenario)
        operators: Operators = {trace: self.captured(request) for trace, request in requests.items()}
        said = assumptions_of(scenario, operators, cost=cost_model(scenario.device, scenario.convention))
        return scenario, replace(point.record, assumptions="\n".join(said) or None), operators

    def _put_probes(self, ref: ScenarioRef, scenario: Scenario, operators: Operators, sizes: Sequence[int]) -> None:
        for size in sizes:
            if missing_intervals((size, size), ref.known):
                block = evaluate_scenario(scenario, np.asarray([size], dtype=np.int64), operators)
                record = BlockRecord(batch_sizes=block.batch_size, columns=block.columns())
                self.probes += put_block(self.store, self.sweep_id, ref.id, record)
            else:
                record_interval(self.store, self.sweep_id, ref.id, size, size)


def remembered(store: Store) -> LookUp:
    """Operators from the store, traced and stored where it has none."""
    known: dict[str, OperatorSet] = {}

    def look_up(request: CaptureRequest) -> OperatorSet:
        key = request.key
        if key not in known:
            stored = get_operators(store, [key])
            known[key] = from_json(stored[key]) if key in stored else _captured(store, request)
        return known[key]

    return look_up


def _captured(store: Store, request: CaptureRequest) -> OperatorSet:
    traced = capture(request)
    put_operators(store, [OperatorSetRecord(key=request.key, payload=to_json(traced), torch_version=version("torch"))])
    return traced
