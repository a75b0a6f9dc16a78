"""Fits an engine profile to the measured points of one user, and says how well it predicts points left out of it.

Not here: the fit itself (evaluator.serving.fit), profiles that come with the program (evaluator.serving.shipped)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.capture import CaptureRequest
from evaluator.measured.deployments import Deployment, deployment_of
from evaluator.measured.models import Unmatched
from evaluator.measured.prediction import central_metrics, loop_of, tables_of
from evaluator.measured.scoring import Exclusion, Figures, figures, usable
from evaluator.operators import OperatorSet
from evaluator.serving.engines import NUMBERS, Client, EngineProfile, list_engines, with_numbers
from evaluator.serving.fit import FITTED, FitPoint, fit_engine, log_errors
from evaluator.serving.shipped import LaunchedPoint
from evaluator.sums import FloatArray
from store.errors import InputError
from store.records import MeasurementRecord

FOLDS = 5  # every point is left out once: by its place, modulo 5, in the order of content keys
LEAST_POINTS = 2 * FOLDS
WEIGHT = 8.0  # of a point: all are of one server, which the starting values know nothing about
LATENCIES = {"ttft": "ttft_ms", "tpot": "tpot_exclusive_ms"}  # short name -> measured metric, in the order of a fit
LookUp = Callable[[CaptureRequest], OperatorSet]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPoints:
    """Closed-loop points of one engine, ordered by content key, and what rules took out."""

    engine: str
    records: tuple[MeasurementRecord, ...]
    deployments: tuple[Deployment, ...]
    excluded: tuple[Exclusion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFit:
    """A profile fitted to all points. Figures by (short metric name, stage): before, in sample, held out."""

    profile: EngineProfile
    start: EngineProfile
    points: ServedPoints
    figures: dict[tuple[str, str], Figures]


def served_points(records: Iterable[MeasurementRecord], engine: str | None) -> ServedPoints:
    """What a fit can use of `records`: points of `engine`, or of the only engine there is."""
    chosen = usable(records)
    rules = Counter({one.rule: one.rows for one in chosen.excluded})
    found: list[tuple[MeasurementRecord, Deployment]] = []
    for record in sorted(chosen.records, key=lambda one: one.key):
        try:
            deployment = deployment_of(record)
            _check_point(record, deployment)
        except Unmatched as reason:
            rules[reason.rule] += 1
            continue
        found.append((record, deployment))
    by_engine = Counter(str(deployment.engine) for _, deployment in found)
    name = engine or _only_engine(by_engine)
    rules["of another engine"] += sum(rows for other, rows in by_engine.items() if other != name)
    kept = [one for one in found if one[1].engine == name]
    return ServedPoints(
        engine=name,
        records=tuple(record for record, _ in kept),
        deployments=tuple(deployment for _, deployment in kept),
        excluded=tuple(Exclusion(rule=rule, rows=rows) for rule, rows in sorted(rules.items()) if rows),
    )


def _check_point(record: MeasurementRecord, deployment: Deployment) -> None:
    if deployment.engine not in list_engines():
        raise Unmatched("engine not stated, or not one we know")
    if deployment.mode != "aggregated":
        raise Unmatched("not aggregated: a phase alone, or sides apart")
    if deployment.batched:
        raise Unmatched("a static batch, no closed loop")
    if not set(LATENCIES.values()) <= set(central_metrics(record.metrics)):
        raise Unmatched("no TTFT with a TPOT: both are needed")


def _only_engine(by_engine: Counter[str]) -> str:
    if len(by_engine) == 1:
        return next(iter(by_engine))
    if not by_engine:
        raise InputError(
            "no measured point that a fit can use",
            hint="a point needs model, device, engine, lengths, concurrency, TTFT and TPOT: sweepdb measurements list",
        )
    listed = ", ".join(f"{name} ({rows} points)" for name, rows in sorted(by_engine.items()))
    raise InputError(f"points of several engines: {listed}", hint="sweepdb calibrate --serving ENGINE")


def fit_own(points: ServedPoints, start: EngineProfile, name: str, captured: LookUp | None = None) -> OwnFit:
    """Fit from `start`, whose token budget and client stay as they are; the profile is called `name`."""
    if len(points.records) < LEAST_POINTS:
        raise InputError(
            f"{len(points.records)} points of {points.engine} are left: a fit needs at least {LEAST_POINTS}",
            hint="; ".join(f"{one.rows} {one.rule}" for one in points.excluded)
            or "measure more batch sizes and lengths",
        )
    measured = _fit_points(points, start, captured)
    numbers = _fitted_numbers(points, start)
    profile = fit_engine(measured, start, names=numbers)
    profile = with_numbers(profile, {number: round(getattr(profile, number), 6) for number in NUMBERS})
    stages = {
        "before": log_errors(measured, start),
        "in sample": log_errors(measured, profile),
        "held out": _held_out(measured, start, numbers),
    }
    return OwnFit(
        profile=replace(profile, name=name),
        start=start,
        points=points,
        figures={
            (metric, stage): found
            for column, metric in enumerate(LATENCIES)
            for stage, errors in stages.items()
            if (found := figures((np.exp(errors[:, column]) - 1.0).tolist())) is not None
        },
    )


def _fit_points(points: ServedPoints, start: EngineProfile, captured: LookUp | None) -> list[LaunchedPoint]:
    deployments = [_with_client(one, start.client) for one in points.deployments]
    tables = tables_of(deployments, captured)
    made = []
    for record, deployment, table in zip(points.records, deployments, tables, strict=True):
        known = central_metrics(record.metrics)
        ttft, tpot = (known[metric] / 1000 for metric in LATENCIES.values())
        loop = replace(loop_of(deployment), prompts=start.client.prompts_per_user * deployment.users_of_replica)
        point = FitPoint(table=table, loop=loop, ttft_s=ttft, tpot_exclusive_s=tpot)
        made.append(LaunchedPoint(deployment=deployment, point=point, weight=WEIGHT))
    return made


def _with_client(deployment: Deployment, client: Client) -> Deployment:
    """What a profile says of the client is believed before what its points look like."""
    if client == Client():
        return deployment
    return replace(deployment, shortest=client.shortest, poll_steps=client.poll_steps)


def _fitted_numbers(points: ServedPoints, start: EngineProfile) -> tuple[str, ...]:
    """Those that these points can say something about."""
    silent = set()
    if all(one.plan.dp == 1 for one in points.deployments):
        silent.add("replica_wait_steps")
    if start.layer_ms == 0.0:
        silent.add("layer_ms")  # a stack without graphs is another starting profile
    return tuple(number for number in FITTED if number not in silent)


def _held_out(measured: Sequence[LaunchedPoint], start: EngineProfile, numbers: Sequence[str]) -> FloatArray:
    """Errors of every point under the fit that left its fifth out."""
    errors = np.zeros((len(measured), len(LATENCIES)))
    for fold in range(FOLDS):
        others = [one for place, one in enumerate(measured) if place % FOLDS != fold]
        errors[fold::FOLDS] = log_errors(measured[fold::FOLDS], fit_engine(others, start, names=numbers))
    return errors
