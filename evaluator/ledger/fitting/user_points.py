"""Fits an engine profile to the measured points of one user.

It also says how well the profile predicts points that were left out of its fit. Not here: the fit itself
(evaluator.ledger.fitting.engine_fit), profiles that come with the program (shipped_engines)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.inputs.engines.engine_profiles import NUMBERS, EngineProfile, list_engines, unfitted_engine, with_numbers
from evaluator.ledger.deployments import Deployment, deployment_of
from evaluator.ledger.fitting.drift_fit import drifted
from evaluator.ledger.fitting.engine_fit import FITTED, fit_engine, log_errors
from evaluator.ledger.fitting.fit_points import LATENCIES, FitPoint, fit_points
from evaluator.ledger.fitting.near_fit import near_fit
from evaluator.ledger.matching import Unmatched
from evaluator.ledger.metrics import central_metrics
from evaluator.ledger.predicting import LookUp
from evaluator.ledger.scoring import Exclusion, Figures, figures, usable
from store.errors import InputError
from store.records import MeasurementRecord

FOLDS = 5  # every point is left out once: by its place, modulo 5, in the order of content keys
LEAST_POINTS = 2 * FOLDS
WEIGHT = 8.0  # of a point: all are of one server, which the starting values know nothing about
SHORT = {"ttft_ms": "ttft", "tpot_exclusive_ms": "tpot"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPoints:
    """Closed-loop points of one engine, ordered by content key, and what rules took out."""

    engine: str
    records: tuple[MeasurementRecord, ...]
    deployments: tuple[Deployment, ...]
    excluded: tuple[Exclusion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFit:
    """A profile fitted to all points. Figures by (short metric name, stage): before, in sample, held out.

    `held_out` are signed relative errors under the fit without a point's fifth: a row a point, a column of LATENCIES.
    """

    profile: EngineProfile
    start: EngineProfile
    points: ServedPoints
    figures: dict[tuple[str, str], Figures]
    held_out: FloatArray


def served_points(records: Iterable[MeasurementRecord], engine: str | None) -> ServedPoints:
    """The points of `records` that a fit can use: those of `engine`, or of the only engine there is."""
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
    if not set(LATENCIES) <= set(central_metrics(record.metrics)):
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
    raise InputError(f"points of several engines: {listed}", hint="sweepdb calibrate `serving` ENGINE")


def fit_own(points: ServedPoints, start: EngineProfile, name: str, captured: LookUp | None = None) -> OwnFit:
    """Fit from `start`, whose token budget and client stay as they are; the profile is called `name`."""
    if len(points.records) < LEAST_POINTS:
        raise InputError(
            f"{len(points.records)} points of {points.engine} are left: a fit needs at least {LEAST_POINTS}",
            hint="; ".join(f"{one.rows} {one.rule}" for one in points.excluded)
            or "measure more batch sizes and lengths",
        )
    measured = _fit_points(points, start, captured)
    numbers = _fitted_numbers(measured, start)
    profile = _corrected(measured, start, numbers)
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
            (SHORT[metric], stage): found
            for column, metric in enumerate(LATENCIES)
            for stage, errors in stages.items()
            if (found := figures((np.exp(errors[:, column]) - 1.0).tolist())) is not None
        },
        held_out=np.exp(stages["held out"]) - 1.0,
    )


def fitted_to(measured: Sequence[FitPoint], start: EngineProfile) -> EngineProfile:
    """The profile nearest to these points of one server, each with the weight of a point of one's own."""
    own = own_points(measured)
    return _corrected(own, start, _fitted_numbers(own, start))


def own_points(measured: Sequence[FitPoint]) -> list[FitPoint]:
    """Points of one server: each weighs as one, and drifts as its engine does where nobody stated the client."""
    return [replace(point, weight=WEIGHT, drifts=point.deployment.client is None) for point in measured]


def _corrected(measured: Sequence[FitPoint], start: EngineProfile, numbers: Sequence[str]) -> EngineProfile:
    """The fit of an engine's drift and numbers, and of what these leave to predictions near the points."""
    start = drifted(measured, start)
    fitted = fit_engine(measured, replace(start, near=()), names=numbers)
    fitted = with_numbers(fitted, {number: round(getattr(fitted, number), 6) for number in NUMBERS})
    places = [one.replica.place(one.batch_size) for one in measured]
    return replace(fitted, near=near_fit(places, log_errors(measured, fitted)))


def _fit_points(points: ServedPoints, start: EngineProfile, captured: LookUp | None) -> list[FitPoint]:
    # What a profile of the user's says of the client is believed before what its points look like.
    wanted, usual = [], start.client == unfitted_engine(points.engine).client
    for record, deployment in zip(points.records, points.deployments, strict=True):
        known = central_metrics(record.metrics)
        asked = deployment if usual else replace(deployment, client=start.client)
        wanted.append((asked, {metric: known[metric] for metric in LATENCIES}))
    return own_points(fit_points(wanted, start, captured))


def _fitted_numbers(measured: Sequence[FitPoint], start: EngineProfile) -> tuple[str, ...]:
    """Names of the engine's numbers that these points can say something about."""
    silent = set()
    if all(one.deployment.plan.dp == 1 for one in measured):
        silent.add("replica_wait_steps")
    if start.layer_ms == 0.0:
        silent.add("layer_ms")  # a stack without graphs is another starting profile
    if start.latent_layer_ms == 0.0:
        silent.add("latent_layer_ms")
    return tuple(number for number in FITTED if number not in silent)


def _held_out(measured: Sequence[FitPoint], start: EngineProfile, numbers: Sequence[str]) -> FloatArray:
    """Errors of every point under the fit that left its fifth out."""
    errors = np.zeros((len(measured), len(LATENCIES)))
    for fold in range(FOLDS):
        others = [one for place, one in enumerate(measured) if place % FOLDS != fold]
        errors[fold::FOLDS] = log_errors(measured[fold::FOLDS], _corrected(others, start, numbers))
    return errors
