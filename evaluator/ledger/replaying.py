"""Replays of measured logs: the requests of a deployment, at their own times and with their own lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.arrivals import ArrivalProcess, PlaySettings, replayed_times, unplayable
from evaluator.evaluate import cost_of
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.ledger.deployments import Deployment
from evaluator.ledger.matching import Unmatched
from evaluator.ledger.predicting import LookUp, operators_of
from evaluator.ledger.scenarios import scenario_of
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from store.errors import SweepdbError
from store.loads import MeasuredRequests

_NO_FILE = "0" * 64


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredLog:
    """The log of a measured point, and the most requests that its server was said to hold."""

    point: str
    deployment: Deployment
    requests: MeasuredRequests
    seats: int | None = None


PlayedLog = Mapping[str, FloatArray] | str  # times by metric, or the rule by which a log is left out


def replayed_all(logs: Sequence[MeasuredLog], captured: LookUp | None = None) -> list[PlayedLog]:
    return [played_or_why(log, captured) for log in logs]


def played_or_why(log: MeasuredLog, captured: LookUp | None = None) -> PlayedLog:
    try:
        return replayed_log(log.deployment, log.requests, captured, seats=log.seats)
    except Unmatched as reason:
        return reason.rule
    except SweepdbError as error:
        return f"log not replayed: {error}"


def replayed_scenario(deployment: Deployment) -> Scenario:
    if deployment.prefill_plan is not None or deployment.mode != "aggregated":
        raise Unmatched("log of a disaggregated server")
    return scenario_of(deployment, "known")


def replayed_log(
    deployment: Deployment, log: MeasuredRequests, captured: LookUp | None = None, *, seats: int | None = None
) -> Mapping[str, FloatArray]:
    """Milliseconds of the completed requests of a log, by metric; those that failed are not played.

    Raises Unmatched where the log cannot be replayed."""
    completed = log.completed & (log.prompt > 0) & (log.answer > 0)
    scenario = replayed_scenario(deployment)
    if not log.timed:
        raise Unmatched("log without the times of sending")
    if completed.sum() < log.completed.sum():
        raise Unmatched("log without the lengths of its requests")
    times = log.sent_us[completed] / 1_000_000
    if times.size < 2 or times[-1] <= times[0]:
        raise Unmatched("log of fewer than two times of sending")
    trace = TracedArrivals(
        times=times, input_lengths=log.prompt[completed], output_lengths=log.answer[completed], sha256=_NO_FILE
    )
    model = serving_model_of(scenario)
    run = Run(
        scenario=scenario,
        operators=operators_of(scenario, captured),
        source=model.source(scenario),
        cost=cost_of(scenario),
        batch_sizes=np.asarray([1], dtype=np.int64),
    )
    engine = serving_engine(scenario)
    refused = unplayable(run, engine)
    if refused is not None or engine is None:
        raise Unmatched(f"log not replayed: {refused.message if refused is not None else 'no engine'}")
    process = ArrivalProcess(kind="trace", requests=times.size, trace_sha256=_NO_FILE)
    settings = PlaySettings(process=process) if seats is None else PlaySettings(process=process, seats=seats)
    found = replayed_times(run, engine, settings, trace)
    return {"ttft": found.ttft, "tpot": found.tpot, "e2e": found.e2e}
