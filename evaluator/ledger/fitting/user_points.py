"""Fits an engine profile to the measured points of one user.

How far its users drift apart is chosen among a few values. It also says how well the profile predicts points that were
left out of its fit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.inputs.engines.engine_profiles import NUMBERS, EngineProfile, list_engines, unfitted_engine, with_numbers
from evaluator.ledger.deployments import Deployment, central_metrics, deployment_of
from evaluator.ledger.fitting.engine_fit import FITTED, EngineFit, fit_engine, log_errors, loss_of
from evaluator.ledger.fitting.fit_points import LATENCIES, FitPoint, fit_points
from evaluator.ledger.fitting.near_fit import near_fit
from evaluator.ledger.matching import Unmatched
from evaluator.ledger.predicting import LookUp
from evaluator.ledger.scoring import Exclusion, Figures, figures, setting_of, usable
from store.errors import InputError
from store.records import MeasurementRecord

FOLDS = 5  # every setting is left out once: by its place, modulo 5, in the order of their digests
LEAST_POINTS = 2 * FOLDS
WEIGHT = 8.0  # of a point: all are of one server, which the starting values know nothing about
SHORT = {"ttft_ms": "ttft", "tpot_exclusive_ms": "tpot"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPoints:
    """Closed-loop points of one engine, ordered by setting, and what rules took out."""

    engine: str
    records: tuple[MeasurementRecord, ...]
    deployments: tuple[Deployment, ...]
    excluded: tuple[Exclusion, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFit:
    """A profile fitted to all points. Figures by (short metric name, stage): before, in sample, held out.

    `held_out` are signed relative errors under the fit without a point's fifth: a row a point, a column of LATENCIES.
    `unconverged` names the stages whose numbers were still moving when the fit ended.
    """

    profile: EngineProfile
    start: EngineProfile
    points: ServedPoints
    figures: dict[tuple[str, str], Figures]
    held_out: FloatArray
    unconverged: tuple[str, ...] = ()


def served_points(records: Iterable[MeasurementRecord], engine: str | None) -> ServedPoints:
    chosen = usable(records)
    rules = Counter({one.rule: one.rows for one in chosen.excluded})
    found: list[tuple[MeasurementRecord, Deployment]] = []
    for record in chosen.records:
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
        raise Unmatched("not aggregated: a phase alone, or disaggregated")
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
    settings = len({setting_of(record) for record in points.records})
    if settings < FOLDS:
        raise InputError(
            f"{len(points.records)} points of {points.engine} have {settings} settings: a fit needs at least {FOLDS}",
            hint="measure other numbers of users or lengths; a repeated run adds none",
        )
    measured = _fit_points(points, start, captured)
    numbers = _fitted_numbers(measured, start)
    whole = _corrected(measured, start, numbers)
    held_out, unconverged = _left_out(measured, _folds(points), start, numbers)
    stages = {
        "before": log_errors(measured, start),
        "in sample": log_errors(measured, whole.profile),
        "held out": held_out,
    }
    return OwnFit(
        profile=replace(whole.profile, name=name),
        start=start,
        points=points,
        figures={
            (SHORT[metric], stage): found
            for column, metric in enumerate(LATENCIES)
            for stage, errors in stages.items()
            if (found := figures((np.exp(errors[:, column]) - 1.0).tolist())) is not None
        },
        held_out=np.exp(held_out) - 1.0,
        unconverged=(() if whole.converged else ("in sample",)) + unconverged,
    )


def _left_out(
    measured: Sequence[FitPoint], folds: Sequence[int], start: EngineProfile, numbers: Sequence[str]
) -> tuple[FloatArray, tuple[str, ...]]:
    """Log errors of every point under the fit without its fifth, and the stage's name where one did not converge."""
    errors, converged = np.zeros((len(measured), len(LATENCIES))), True
    for fold in range(FOLDS):
        others = _corrected([one for one, mine in zip(measured, folds, strict=True) if mine != fold], start, numbers)
        mine = [place for place, number in enumerate(folds) if number == fold]
        errors[mine] = log_errors([measured[place] for place in mine], others.profile)
        converged = converged and others.converged
    return errors, () if converged else ("held out",)


def _folds(points: ServedPoints) -> list[int]:
    """The fifth of each point. Runs of one setting share it: a repeated run is no unseen point."""
    settings = [setting_of(record) for record in points.records]
    place = {setting: index for index, setting in enumerate(sorted(set(settings)))}
    return [place[setting] % FOLDS for setting in settings]


def own_points(measured: Sequence[FitPoint]) -> list[FitPoint]:
    """Points of one server: each weighs as one, and drifts as its engine does where nobody stated the client."""
    return [replace(point, weight=WEIGHT, drifts=point.deployment.client is None) for point in measured]


def _corrected(measured: Sequence[FitPoint], start: EngineProfile, numbers: Sequence[str]) -> EngineFit:
    start = drifted(measured, start)
    fit = fit_engine(measured, replace(start, near=()), names=numbers)
    fitted = with_numbers(fit.profile, {number: round(getattr(fit.profile, number), 6) for number in NUMBERS})
    places = [one.replica.place(one.batch_size) for one in measured]
    near, still = near_fit(places, log_errors(measured, fitted))
    return replace(fit, profile=replace(fitted, near=near), converged=fit.converged and still)


def _fit_points(points: ServedPoints, start: EngineProfile, captured: LookUp | None) -> list[FitPoint]:
    # What a profile of the user's says of the client is believed before what its points look like.
    wanted, usual = [], start.client == unfitted_engine(points.engine).client
    for record, deployment in zip(points.records, points.deployments, strict=True):
        known = central_metrics(record.metrics)
        asked = deployment if usual else replace(deployment, client=start.client)
        wanted.append((asked, {metric: known[metric] for metric in LATENCIES}))
    return own_points(fit_points(wanted, start, captured))


def _fitted_numbers(measured: Sequence[FitPoint], start: EngineProfile) -> tuple[str, ...]:
    silent = set()
    if all(one.deployment.plan.dp == 1 for one in measured):
        silent.add("replica_wait_steps")
    if start.layer_ms == 0.0:
        silent.add("layer_ms")  # a stack without graphs is another starting profile
    if start.latent_layer_ms == 0.0:
        silent.add("latent_layer_ms")
    return tuple(number for number in FITTED if number not in silent)


SHORTEST = (1.0, 0.998, 0.995, 0.99, 0.98)  # shares of a length, from users in step to those of servers that drift most
ROUNDS = 2
# What would else be taken for drift: prompts that are priced wrong, and the time to receive a request.
BESIDE = ("prefill_factor", "decode_factor", "request_ms")
SURE = 0.9  # of the loss of the start, below which another drift takes its place
BETTER = 0.99  # of the loss of an earlier drift, below which a later one is better: ties are no chance


def drifted(points: Sequence[FitPoint], start: EngineProfile) -> EngineProfile:
    """The profile with the drift that leaves these points least, where any drifts as its engine does.

    A point whose client is stated says nothing of drift: its lengths differ anyway. Near a tie the start stays."""
    free = [point for point in points if point.drifts]
    if not free:
        return start
    usual = found = fit_engine(free, start, names=BESIDE).profile
    for _ in range(ROUNDS):
        shortest = _least_drift(free, found)
        found = fit_engine(free, _with(start, shortest), names=BESIDE).profile
    return start if _loss(free, found) >= SURE * _loss(free, usual) else _with(start, found.client.shortest)


def _least_drift(free: Sequence[FitPoint], engine: EngineProfile) -> float:
    best, least = engine.client.shortest, _loss(free, engine)
    for shortest in SHORTEST:
        loss = _loss(free, _with(engine, shortest))
        if loss < BETTER * least:
            best, least = shortest, loss
    return best


def _loss(points: Sequence[FitPoint], engine: EngineProfile) -> float:
    return loss_of(points, log_errors(points, engine))


def _with(engine: EngineProfile, shortest: float) -> EngineProfile:
    return replace(engine, client=replace(engine.client, shortest=shortest))
