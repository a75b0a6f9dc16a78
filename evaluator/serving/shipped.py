"""Engine profiles that come with the program, and the one command that writes them.

`python -m evaluator.serving.shipped FILE...` fits every engine to the usable points of these files and writes
evaluator/serving/profiles/<engine>.yaml: the fit to all of them, and one without each (device, model) pair to score
that pair with. Nothing is random: the same files give the same profiles."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from evaluator.deployments import Deployment, Unmatched, deployment_of
from evaluator.measurements import read_measurements
from evaluator.prediction import loop_of, tables_of
from evaluator.scoring import usable
from evaluator.serving.engines import FOLDER, STARTS, EngineProfile, FittedEngine, as_yaml
from evaluator.serving.fit import FitPoint, fit_engine
from store.errors import InputError
from store.records import MeasurementRecord

POINTS_A_PAIR = 60  # a pair measured more often does not count for more
LEAST_POINTS = 8
# What the measured points of many servers identify across models: more numbers fit them better and predict pairs that
# were left out worse (docs/explanation/accuracy.md). A user's own points of one server identify them all.
SHIPPED_NUMBERS = ("request_ms",)
HEAD = "# Written by python -m evaluator.serving.shipped; do not edit.\n"


@dataclass(frozen=True, slots=True)
class EnginePoint:
    """A point to fit to, with the pair that is left out together."""

    pair: tuple[str, str]
    point: FitPoint


def points_of(records: Iterable[MeasurementRecord], engine: str) -> list[EnginePoint]:
    """Points of one engine with both latencies, at most POINTS_A_PAIR of each pair, evenly over users and lengths."""
    matched = list(_matched(records, engine))
    by_pair: dict[tuple[str, str], list[tuple[MeasurementRecord, Deployment]]] = defaultdict(list)
    for record, deployment in matched:
        by_pair[deployment.pair].append((record, deployment))
    chosen = [one for pair in sorted(by_pair) for one in _thinned(by_pair[pair])]
    tables = tables_of([deployment for _, deployment in chosen])
    return [
        EnginePoint(
            deployment.pair,
            FitPoint(
                table=table,
                loop=loop_of(deployment),
                ttft_s=record.metrics["ttft_ms_mean"] / 1000,
                tpot_exclusive_s=record.metrics["tpot_exclusive_ms_mean"] / 1000,
            ),
        )
        for (record, deployment), table in zip(chosen, tables, strict=True)
    ]


def _matched(records: Iterable[MeasurementRecord], engine: str) -> Iterable[tuple[MeasurementRecord, Deployment]]:
    for record in usable(records).records:
        if not {"ttft_ms_mean", "tpot_exclusive_ms_mean"} <= set(record.metrics):
            continue
        try:
            deployment = deployment_of(record)
        except Unmatched:
            continue
        if deployment.engine == engine and deployment.mode == "aggregated":
            yield record, deployment


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
    whole = fit_engine([one.point for one in points], start, names=SHIPPED_NUMBERS)
    on_pair(f"{start.name}: {len(points)} points")
    held_out = {}
    for pair in sorted({one.pair for one in points}):
        others = [one.point for one in points if one.pair != pair]
        held_out[pair] = fit_engine(others, start, names=SHIPPED_NUMBERS) if others else start
        on_pair(f"{start.name} without {pair[1]} on {pair[0]}")
    return FittedEngine(profile=whole, held_out=held_out, source=source)


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
