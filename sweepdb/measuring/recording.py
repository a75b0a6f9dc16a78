"""Keeps comparisons: scenarios, probes, and signed errors."""

from __future__ import annotations

import json
import secrets
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from evaluator import ledger
from evaluator.evaluate import assumptions_of
from evaluator.graph import CaptureRequest, OperatorSet, operators_from_json, operators_text
from evaluator.identity import RecordBuilder
from evaluator.inputs import EngineProfile, engine_profile, list_engines
from evaluator.probe_block import ProbeBlock
from evaluator.scenario import Scenario
from evaluator.serving import keep_engine
from evaluator.sweep import program_version
from store import writing
from store.errors import InputError
from store.loads import MeasuredRequests
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import Store, open_store
from store.records import (
    BlockRecord,
    MeasurementRecord,
    OperatorSetRecord,
    ScenarioRecord,
    ScenarioRef,
    SweepRecord,
    ValidationRecord,
)
from store.sealing import seal
from sweepdb.measuring.log_scoring import replays
from sweepdb.measuring.measurement_files import place_of
from sweepdb.measuring.open_loops import compared_at_rates
from sweepdb.measuring.validating import SHORT, Progress, Validation, compare
from sweepdb.working import Workers, comparing_by, replaying_by

LONG = {short: long for long, short in SHORT.items()}
PROMPT_METRICS = {"ttft", "kv_transfer_ms", "prefill_latency_ms"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    scenarios: int = 0
    probes: int = 0
    errors: int = 0


def compare_and_keep(
    records: Sequence[MeasurementRecord] | None,
    store_url: str | None,
    *,
    files: Collection[str] = (),
    requests: Mapping[str, MeasuredRequests] | None = None,
    engine: EngineProfile | None = None,
    on_progress: Progress = lambda _done, _all: None,
    on_kept: Progress = lambda _done, _all: None,
    workers: Workers | None = None,
) -> tuple[Validation, Kept]:
    """Of records, or of every stored point.

    Records are stored as those of `files`, with logs of `requests`. Errors under the caller's own `engine` are not
    kept: the ledger is about what ships. `workers` evaluate, or name a share."""
    evaluate, mine = (ledger.evaluated_or_why, None) if workers is None else comparing_by(workers)
    if records is not None:
        create_if_missing(parse_url(store_url))
    with open_store(store_url) as store:
        if records is None:
            records = writing.get_measurements(store)
        else:
            writing.put_files(store, records, files=files, requests=requests)
        if not records:
            raise InputError("there is no measured point to compare", hint="sweepdb measurements import FILE")
        captured = remembered(store)
        validation = compare(sorted(records, key=_in_file), captured, engine=engine, on_progress=on_progress,
                             evaluate=evaluate, mine=mine)  # fmt: skip
        logs = writing.get_requests(store, {one.key for one in records})
        seats = {one.key: None if one.decode.batch_size is None else int(one.decode.batch_size) for one in records}
        play = ledger.replayed_all if workers is None else replaying_by(workers)
        played, unplayed = replays(validation.points, logs, seats, captured, play)
        chosen = ledger.usable([record for record in records if mine is None or mine(record.key)]).records
        at_rates, excluded = compared_at_rates(chosen, store.location, validation.excluded, captured)
        validation = replace(validation, replays=played, at_rates=at_rates, excluded=(*excluded, *unplayed))
        if engine is not None:
            return validation, Kept()
        compared = {record.key for record in records if mine is None or mine(record.key)}
        writing.forget_validations(store, compared - set(validation.points))
        return validation, keep_comparison(store, validation, captured, on_kept)


def _in_file(record: MeasurementRecord) -> tuple[list[str | int], str]:
    """The first of equal points counts, from files as from the store."""
    return place_of(record.source), record.key


def keep_comparison(
    store: Store, validation: Validation, captured: ledger.LookUp, on_kept: Progress = lambda _done, _all: None
) -> Kept:
    """In one sweep; what is there stays."""
    if not validation.comparisons:
        return Kept()
    sides = _sides(validation)
    for scenario in sides.values():
        if scenario.engine is not None:
            keep_engine(store, scenario.engine, source="shipped, fitted without a pair of device and model")
        elif scenario.serving_model in list_engines():
            keep_engine(store, engine_profile(scenario.serving_model), source="shipped")
    sweep_id = writing.begin_sweep(store, _sweep(validation))
    keeper = _Keeper(store=store, sweep_id=sweep_id, captured=captured, probes=validation.probes)
    try:
        keeper.put(sides, validation, on_kept)
        errors = _once(_error(one, validation, keeper) for one in validation.comparisons)
        writing.put_validations(store, errors)
    except BaseException as error:
        writing.finish_sweep(store, sweep_id, "interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
        raise
    writing.finish_sweep(store, sweep_id, "finished")
    seal(store)
    return Kept(scenarios=len(keeper.records), probes=keeper.stored, errors=len(errors))


def _sides(validation: Validation) -> dict[tuple[ledger.Knowledge, str, str], Scenario]:
    found: dict[tuple[ledger.Knowledge, str, str], Scenario] = {}
    for (knowledge, key), asked in validation.asked.items():
        if asked.scenario in validation.probes:
            found[knowledge, key, "tokens"] = asked.scenario
        if asked.prompts is not None and asked.prompts in validation.probes:
            found[knowledge, key, "prompts"] = asked.prompts
    return found


def _sweep(validation: Validation) -> SweepRecord:
    devices = sorted({one.device for one in validation.comparisons})
    models = sorted({one.model for one in validation.comparisons})
    asked = {"kind": "validation", "models": models, "devices": devices, "points": len(validation.points)}
    return SweepRecord(
        key=secrets.token_hex(6),
        label="validation",
        kind="validation",
        arguments=json.dumps(asked, sort_keys=True),
        program_version=program_version(),
        started_at=datetime.now(UTC),
    )


def _once(errors: Iterable[ValidationRecord]) -> list[ValidationRecord]:
    """Where nothing more is known, as asked is as known."""
    found: dict[tuple[str, str, str], ValidationRecord] = {}
    for one in errors:
        key = (one.measurement_key, one.metric, one.scenario_key)
        found[key] = replace(one, knowledge="both") if key in found else one
    return list(found.values())


_OF_REGION = ("device", "kind", "engine", "mode", "batch_region", "length_region")


def _error(one: ledger.Comparison, validation: Validation, keeper: _Keeper) -> ValidationRecord:
    """Disaggregated TTFT belongs to the prefill probe."""
    asked = validation.asked[one.knowledge, one.record_key]
    of_prompts = asked.prompts is not None and one.metric in PROMPT_METRICS
    scenario = asked.prompts if of_prompts and asked.prompts is not None else asked.scenario
    return ValidationRecord(
        measurement_key=one.record_key,
        metric=LONG.get(one.metric, one.metric),
        scenario_key=keeper.records[scenario].key,
        batch_size=1 if of_prompts else one.batch_size,
        measured=one.measured,
        predicted=one.predicted,
        **{name: getattr(one, name) for name in _OF_REGION},
        knowledge=one.knowledge,
    )


@dataclass(slots=True, kw_only=True)
class _Keeper:
    """Probes on their way into the store."""

    store: Store
    sweep_id: int
    captured: ledger.LookUp
    probes: Mapping[Scenario, ledger.Evaluated]
    records: dict[Scenario, ScenarioRecord] = field(default_factory=dict)
    stored: int = 0

    def put(
        self, sides: Mapping[tuple[ledger.Knowledge, str, str], Scenario], validation: Validation, on_kept: Progress
    ) -> None:
        builder = RecordBuilder()
        names = {scenario: validation.points[key].model_name for (_, key, _), scenario in sides.items()}
        for scenario, model_name in names.items():
            said = "\n".join(assumptions_of(scenario, ledger.operators_of(scenario, self.captured))) or None
            self.records[scenario] = builder.scenario(model_name, scenario, assumptions=said)
        refs = writing.put_scenarios(self.store, self.sweep_id, list(self.records.values()))
        for done, (ref, scenario) in enumerate(zip(refs, self.records, strict=True), start=1):
            self._put_probes(ref, self.probes[scenario].block)
            on_kept(done, len(refs))

    def _put_probes(self, ref: ScenarioRef, block: ProbeBlock) -> None:
        for part in block.stretches():
            first, last = int(part.batch_size[0]), int(part.batch_size[-1])
            missing = writing.missing_intervals((first, last), ref.known)
            if not missing:
                writing.record_interval(self.store, self.sweep_id, ref.id, first, last)
            for start, end in missing:
                lacking = part.between(start, end)
                record = BlockRecord(batch_sizes=lacking.batch_size, columns=lacking.columns())
                self.stored += writing.put_block(self.store, self.sweep_id, ref.id, record)


def remembered(store: Store) -> ledger.LookUp:
    known: dict[str, OperatorSet] = {}

    def look_up(request: CaptureRequest) -> OperatorSet:
        key = request.key
        if key not in known:
            stored = writing.get_operators(store, [key])
            text = stored.get(key) or operators_text(request)[0]
            if key not in stored:
                writing.put_operators(store, [OperatorSetRecord(key=key, payload=text)])
            known[key] = operators_from_json(text)
        return known[key]

    return look_up
