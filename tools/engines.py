"""Fits the shipped engine profiles.

`python -m tools.engines FILE...` writes evaluator/inputs/engines/<engine>.yaml: a fit to all usable points, and one
without each (device, model) pair to score it with. Nothing is random. Handovers are fitted to disaggregated points on
a cheap grid, since they move TTFT alone."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.inputs import (
    ENGINES_FOLDER,
    HANDOVER_MS,
    EngineProfile,
    FittedEngine,
    as_yaml,
    fitted_engine,
    list_engines,
    unfitted_engine,
)
from evaluator.ledger import (
    LATENCIES,
    Asked,
    Deployment,
    Evaluations,
    FitPoint,
    Probe,
    Unmatched,
    asked_of,
    central_metrics,
    deployment_of,
    evaluated,
    fit_engine,
    fit_points,
    huber,
    lengths_of,
    read_measurements,
    sides_of,
    usable,
    values_of,
    values_of_sides,
)
from store.errors import InputError
from store.records import MeasurementRecord

FEW_USERS = 16  # that hardly wait for each other: their first tokens tell what a request takes by itself
HANDOVERS = tuple(float(value) for value in range(0, 301, 10))  # milliseconds
LEAST_PAIRS = 3  # of device and model: without any one of them two are left
FIRST_TOKEN = "ttft_ms"  # noqa: S105  a column


@dataclass(frozen=True, slots=True)
class HandoverPoint:
    """Log errors of a point's TTFT under each of HANDOVERS."""

    pair: tuple[str, str]
    errors: FloatArray


class _Ones:
    """A probe that has every number."""

    def value(self, column: str, batch_size: int) -> float:  # noqa: ARG002
        return 1.0


def metrics_of(deployment: Deployment) -> frozenset[str]:
    """By its probe."""
    return frozenset(values_of(deployment, "known", _Ones(), 1))


def handover_points(records: Iterable[MeasurementRecord], engine: str) -> list[HandoverPoint]:
    """Disaggregated points of few users, with their source's client and max-num-seqs.

    More users wait for each other's prompts and for seats."""
    found = [one for one in _apart(records) if one[1].engine == engine and one[1].users <= FEW_USERS]
    if len({deployment.pair for _, deployment in found}) < LEAST_PAIRS:
        return []
    asked = [asked_of(deployment, "known", engine=unfitted_engine(engine)) for _, deployment in found]
    probes = evaluated(asked)
    return [
        HandoverPoint(deployment.pair, _errors(record, deployment, one, probes))
        for (record, deployment), one in zip(found, asked, strict=True)
        if one.scenario in probes and one.prompts in probes
    ]


def fitted_handover(points: Sequence[HandoverPoint], without: tuple[str, str] | None = None) -> float:
    """Least Huber loss over other pairs; the usual one without any."""
    kept = [point.errors for point in points if point.pair != without]
    return HANDOVERS[int(huber(np.stack(kept)).sum(axis=0).argmin())] if kept else HANDOVER_MS


def _apart(records: Iterable[MeasurementRecord]) -> Iterable[tuple[MeasurementRecord, Deployment]]:
    for record in usable(records).records:
        if record.mode == "disaggregated" and f"{FIRST_TOKEN}_mean" in record.metrics:
            with suppress(Unmatched):
                yield record, deployment_of(record)


@dataclass(frozen=True, slots=True)
class _Sooner:
    """Its first tokens come so much sooner."""

    probe: Probe
    sooner_ms: float

    def value(self, column: str, batch_size: int) -> float:
        found = self.probe.value(column, batch_size)
        return found - self.sooner_ms if column == FIRST_TOKEN else found


def _errors(record: MeasurementRecord, deployment: Deployment, asked: Asked, probes: Evaluations) -> FloatArray:
    sides, lengths = sides_of(deployment, "known", asked, probes), lengths_of(deployment, "known")
    engine = sides.prompts_scenario.engine
    if engine is None:
        raise TypeError("evaluated under a shipped profile")
    predicted = []
    for handover in HANDOVERS:
        moved = replace(
            sides,
            prompts=_Sooner(sides.prompts, 0.5 * (engine.handover_ms - handover)),
            prompts_scenario=replace(sides.prompts_scenario, engine=replace(engine, handover_ms=handover)),
        )
        predicted.append(values_of_sides(deployment, lengths, moved)[FIRST_TOKEN])
    return np.asarray(np.log(np.asarray(predicted) / record.metrics[f"{FIRST_TOKEN}_mean"]))


# A request's own time is read off requests that hardly wait for each other's prompts, and whose own prompt is short.
OWN_TIME, SHORT_PROMPT = "request_ms", 1024
POINTS_A_PAIR = 60  # that a pair counts for at most, however often it was measured
LEAST_POINTS = 8
HEAD = "# Numbers under `profile` and `held_out` are written by python -m tools.engines, which keeps the rest.\n"


@dataclass(frozen=True, slots=True)
class EnginePoint:
    """With the pair that is left out together."""

    pair: tuple[str, str]
    point: FitPoint


def engine_points(records: Iterable[MeasurementRecord], engine: str) -> list[EnginePoint]:
    """A pair weighs at most POINTS_A_PAIR.

    Closed loops with both latencies if there are any, else every figure that we predict, under the usual client of
    that version."""
    # What an estimate of the memory decides, or kernels of no table, say little of the host.
    host = _host(engine)
    matched = [one for one in _matched(records) if _host(one[1].engine) == host and _tells(one[1])]
    means = {f"{name}_mean" for name in LATENCIES}
    both = [one for one in matched if one[1].mode == "aggregated" and means <= set(one[0].metrics)]
    by_pair: dict[tuple[str, str], list[tuple[MeasurementRecord, Deployment]]] = defaultdict(list)
    for record, deployment in both or matched:
        by_pair[deployment.pair].append((record, deployment))
    wanted = [
        (deployment, measured)
        for pair in sorted(by_pair)
        for record, deployment in by_pair[pair]
        for measured in (_latencies if both else _figures)(record, deployment)
    ]
    versions = sorted({str(deployment.engine) for deployment, _ in wanted})
    weight = {pair: min(1.0, POINTS_A_PAIR / len(measured)) for pair, measured in by_pair.items()}
    return [
        EnginePoint(point.deployment.pair, replace(point, weight=weight[point.deployment.pair]))
        for version in versions
        for point in fit_points([one for one in wanted if one[0].engine == version], unfitted_engine(version))
    ]


def _tells(deployment: Deployment) -> bool:
    return not deployment.saturated and not deployment.other_kernels


def _host(engine: str | None) -> str | None:
    return None if engine is None else fitted_engine(engine).points_of or engine


def _latencies(record: MeasurementRecord, deployment: Deployment) -> Iterable[Mapping[str, float]]:  # noqa: ARG001
    yield {name: record.metrics[f"{name}_mean"] for name in LATENCIES}


def _figures(record: MeasurementRecord, deployment: Deployment) -> Iterable[Mapping[str, float]]:
    for metric, measured in sorted(central_metrics(record.metrics).items()):
        if metric in metrics_of(deployment):
            yield {metric: measured}


def _matched(records: Iterable[MeasurementRecord]) -> Iterable[tuple[MeasurementRecord, Deployment]]:
    for record in usable(records).records:
        with suppress(Unmatched):
            yield record, deployment_of(record)


def fit_with_pairs_held_out(
    points: Sequence[EnginePoint],
    engine: FittedEngine,
    source: str,
    on_pair: Callable[[str], None] = lambda _: None,
) -> FittedEngine:
    """To all, and without each pair. Every fit begins unfitted: none has seen its pair."""
    name = engine.profile.name
    if len(points) < LEAST_POINTS:
        raise InputError(f"{len(points)} points of {name}: a fit needs at least {LEAST_POINTS}")
    whole = _fit(points, engine)
    on_pair(f"{name}: {len(points)} points")
    held_out = {}
    for pair in sorted({one.pair for one in points}):
        held_out[pair] = _fit([one for one in points if one.pair != pair], engine)
        on_pair(f"{name} without {pair[1]} on {pair[0]}")
    return replace(engine, profile=whole, held_out=held_out, source=source)


def _fit(points: Sequence[EnginePoint], engine: FittedEngine) -> EngineProfile:
    """Numbers that many servers identify across models.

    More fit the points better and predict left-out pairs worse (docs/reference/accuracy.md). A user's points of one
    server identify all."""
    if not points or not engine.fitted:
        return engine.unfitted
    fit = fit_engine([one.point for one in _telling(points, engine)], engine.unfitted, names=engine.fitted)
    if not fit.converged:
        raise InputError(
            f"{engine.profile.name}: the fit to {len(points)} points still moved after {fit.rounds} rounds"
        )
    return fit.profile


def _telling(points: Sequence[EnginePoint], engine: FittedEngine) -> Sequence[EnginePoint]:
    """Points that tell the number: where prompts stop the decodes, few users with short prompts tell their own time."""
    if engine.profile.admission != "prefill_first" or engine.fitted != (OWN_TIME,):
        return points
    asked = [(one, one.point.deployment) for one in points]
    few = [one for one, by in asked if by.users_of_replica <= FEW_USERS and by.input_length <= SHORT_PROMPT]
    return few if len(few) >= LEAST_POINTS else points


def with_handovers(engine: FittedEngine, points: Sequence[HandoverPoint]) -> FittedEngine:
    """Fitted to disaggregated points, and without each pair."""
    if not points:
        return engine
    pairs = {*engine.held_out, *(point.pair for point in points)}
    held_out = {
        pair: replace(engine.held_out.get(pair, engine.profile), handover_ms=fitted_handover(points, without=pair))
        for pair in pairs
    }
    return replace(engine, profile=replace(engine.profile, handover_ms=fitted_handover(points)), held_out=held_out)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main(files: Sequence[Path]) -> None:
    records = [record for path in files for record in read_measurements(path).records]
    source = f"{', '.join(path.name for path in files)}: {len(records)} rows read"
    target = Path(str(resources.files("evaluator").joinpath(ENGINES_FOLDER)))
    target.mkdir(parents=True, exist_ok=True)
    for name in list_engines():
        fitted = fit_with_pairs_held_out(engine_points(records, name), fitted_engine(name), source, _say)
        fitted = with_handovers(fitted, handover_points(records, name))
        (target / f"{name}.yaml").write_text(HEAD + as_yaml(fitted), encoding="utf-8")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
