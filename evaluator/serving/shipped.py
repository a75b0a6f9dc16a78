"""Engine profiles that come with the program, and the one command that writes them.

`python -m evaluator.serving.shipped FILE...` fits every engine to the usable points of these files and writes
evaluator/serving/profiles/<engine>.yaml: the fit to all of them, and one without each (device, model) pair to score
that pair with. Nothing is random: the same files give the same profiles."""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from evaluator.measured.deployments import Deployment, deployment_of
from evaluator.measured.models import Unmatched
from evaluator.measured.prediction import as_launched, central_metrics, loop_of, predictions, tables_of
from evaluator.measured.scoring import usable
from evaluator.measurements import read_measurements
from evaluator.serving.engines import FOLDER, STARTS, EngineProfile, FittedEngine, as_yaml
from evaluator.serving.fit import FitPoint, Measured, fit_engine
from evaluator.serving.step_tables import StepTable
from store.errors import InputError
from store.records import MeasurementRecord

POINTS_A_PAIR = 60  # a pair measured more often does not count for more
LEAST_POINTS = 8
LATENCIES = ("ttft_ms_mean", "tpot_exclusive_ms_mean")
# What the measured points of many servers identify across models: more numbers fit them better and predict pairs that
# were left out worse (docs/explanation/accuracy.md). For trtllm that is no time a request: its points differ by server
# and client, from 10 ms to 130. A user's own points of one server identify them all.
SHIPPED_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "sglang": ("request_ms",),
    "vllm": ("request_ms",),
    "trtllm": ("step_ms",),
    "trtllm_v0": ("step_ms",),
    "vllm_v0": ("step_ms", "step_per_decode_ms"),
    "eager": ("layer_ms", "prefill_factor"),
}
HEAD = "# Written by python -m evaluator.serving.shipped; do not edit.\n"


@dataclass(frozen=True, slots=True)
class EnginePoint:
    """A point to fit to, with the pair that is left out together."""

    pair: tuple[str, str]
    point: Measured


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchedPoint:
    """Both latencies of a closed loop, of an engine with the launch flags that are known of the deployment."""

    deployment: Deployment
    point: FitPoint
    weight: float = 1.0

    def log_errors(self, engine: EngineProfile) -> tuple[float, float]:
        """Of TTFT and TPOT."""
        return self.point.log_errors(as_launched(self.deployment, engine))


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricPoint:
    """One published figure: a phase, a static batch or a rate, by its own definition."""

    deployment: Deployment
    table: StepTable
    metric: str
    measured: float
    weight: float = 1.0

    def log_errors(self, engine: EngineProfile) -> tuple[float]:
        """Of the figure."""
        return (math.log(predictions(self.deployment, self.table, engine)[self.metric] / self.measured),)


def points_of(records: Iterable[MeasurementRecord], engine: str) -> list[EnginePoint]:
    """Points of one engine, at most POINTS_A_PAIR of each pair, evenly over users and lengths.

    Those with both latencies of a closed loop where there are any, else every figure we can predict."""
    # What an estimate of the memory decides says little of the host.
    matched = [one for one in _matched(records) if one[1].engine == engine and not one[1].saturated]
    both = [one for one in matched if one[1].mode == "aggregated" and set(LATENCIES) <= set(one[0].metrics)]
    by_pair: dict[tuple[str, str], list[tuple[MeasurementRecord, Deployment]]] = defaultdict(list)
    for record, deployment in both or matched:
        by_pair[deployment.pair].append((record, deployment))
    chosen = [one for pair in sorted(by_pair) for one in _thinned(by_pair[pair])]
    tables = tables_of([deployment for _, deployment in chosen])
    return [
        EnginePoint(deployment.pair, point)
        for (record, deployment), table in zip(chosen, tables, strict=True)
        for point in (_closed_loop if both else _figures)(record, deployment, table)
    ]


def _closed_loop(record: MeasurementRecord, deployment: Deployment, table: StepTable) -> Iterable[Measured]:
    ttft, tpot = (record.metrics[name] / 1000 for name in LATENCIES)
    point = FitPoint(table=table, loop=loop_of(deployment), ttft_s=ttft, tpot_exclusive_s=tpot)
    yield LaunchedPoint(deployment=deployment, point=point)


def _figures(record: MeasurementRecord, deployment: Deployment, table: StepTable) -> Iterable[Measured]:
    known = predictions(deployment, table, STARTS["eager"])
    for metric, measured in sorted(central_metrics(record.metrics).items()):
        if metric in known:
            yield MetricPoint(deployment=deployment, table=table, metric=metric, measured=measured)


def _matched(records: Iterable[MeasurementRecord]) -> Iterable[tuple[MeasurementRecord, Deployment]]:
    for record in usable(records).records:
        with suppress(Unmatched):
            yield record, deployment_of(record)


def _thinned(
    pairs: Sequence[tuple[MeasurementRecord, Deployment]],
) -> list[tuple[MeasurementRecord, Deployment]]:
    ordered = sorted(pairs, key=lambda one: (one[1].users, one[1].input_length, one[1].output_length, one[0].key))
    if len(ordered) <= POINTS_A_PAIR:
        return ordered
    return [ordered[index * len(ordered) // POINTS_A_PAIR] for index in range(POINTS_A_PAIR)]


def fit_with_pairs_held_out(
    points: Sequence[EnginePoint],
    start: EngineProfile,
    source: str,
    on_pair: Callable[[str], None] = lambda _: None,
) -> FittedEngine:
    """The fit to every point, and one without each pair. Every fit begins at `start`: none has seen its pair."""
    if len(points) < LEAST_POINTS:
        raise InputError(f"{len(points)} points of {start.name}: a fit needs at least {LEAST_POINTS}")
    whole = _fit(points, start)
    on_pair(f"{start.name}: {len(points)} points")
    held_out = {}
    for pair in sorted({one.pair for one in points}):
        held_out[pair] = _fit([one for one in points if one.pair != pair], start)
        on_pair(f"{start.name} without {pair[1]} on {pair[0]}")
    return FittedEngine(profile=whole, held_out=held_out, source=source)


def _fit(points: Sequence[EnginePoint], start: EngineProfile) -> EngineProfile:
    names = SHIPPED_NUMBERS[start.name]
    return fit_engine([one.point for one in points], start, names=names) if points and names else start


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def main(files: Sequence[Path]) -> None:
    """Fit and write every engine."""
    records = [record for path in files for record in read_measurements(path).records]
    source = f"{', '.join(path.name for path in files)}: {len(records)} rows read"
    target = Path(str(resources.files("evaluator").joinpath(FOLDER)))
    target.mkdir(parents=True, exist_ok=True)
    for name, start in STARTS.items():
        fitted = fit_with_pairs_held_out(points_of(records, name), start, source, _say)
        (target / f"{name}.yaml").write_text(HEAD + as_yaml(fitted), encoding="utf-8")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
