"""Fits an engine to measured points and keeps it; the fit is evaluator's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from evaluator import inputs
from evaluator.ledger import LATENCIES, OwnFit, Problem, central_metrics, fit_own, served_points
from evaluator.serving import keep_engine
from queries.errors import figures_of
from store.errors import InputError
from store.location import parse_url
from store.migrating import create_if_missing
from store.opening import Store, open_store
from store.records import MeasurementRecord
from store.writing import get_measurements, put_files
from sweepdb.measuring.measurement_files import read_files, refuse_existing, write_profile
from sweepdb.measuring.recording import remembered

ENGINE_COLUMNS = (
    "metric",
    "stage",
    "points",
    "median_ape_percent",
    "mean_ape_percent",
    "p90_ape_percent",
    "bias_percent",
    "converged",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFit:
    """Written and stored."""

    fit: OwnFit
    output: Path
    version: int
    read: int
    problems: tuple[Problem, ...]

    @property
    def label(self) -> str:
        return inputs.label_of_engine(self.fit.profile)

    def rows(self) -> list[list[object]]:
        """Errors before, in sample and held out, as ENGINE_COLUMNS."""
        return [
            [metric, stage, one.rows, one.median_ape, one.mean_ape, one.p90_ape, one.bias, self._converged(stage)]
            for (metric, stage), one in self.fit.figures.items()
        ]

    def _converged(self, stage: str) -> str | None:
        return None if stage == "before" else "no" if stage in self.fit.unconverged else "yes"

    def changes(self) -> list[tuple[str, float, float]]:
        before, after = self.fit.start, self.fit.profile
        moved = [name for name in inputs.NUMBERS if getattr(before, name) != getattr(after, name)]
        return [(name, getattr(before, name), getattr(after, name)) for name in moved]


def fit_serving(
    engine: str | None,
    files: Sequence[Path],
    output: Path | None,
    store_url: str | None,
    *,
    only: Sequence[str] = (),
) -> KeptFit:
    """`engine` is a name, or a profile's file to start from; by default the only one measured.

    Points are those of `files`, imported too, or all stored, with every text of `only` in device, model or engine
    version. Overwrites no file."""
    start = None if engine is None or engine in inputs.list_engines() else _start_from_file(engine)
    location = parse_url(store_url)
    found = read_files(files) if files else None
    if files:
        create_if_missing(location)
    with open_store(store_url) as store:
        if found is not None:
            put_files(store, found.records, files=found.whole)
        every = get_measurements(store) if found is None else found.records
        records = [one for one in every if _matches(one, only)]
        name = engine if start is None else (start.name if start.name in inputs.list_engines() else None)
        points = served_points(records, name)
        chosen = start or inputs.engine_profile(points.engine)
        called = (
            chosen.name
            if start is not None and start.name not in inputs.list_engines()
            else f"{chosen.name}-calibrated"
        )
        target = output or Path(f"{called}.yaml")
        refuse_existing(target)
        fit = fit_own(points, chosen, called, remembered(store))
        expected = expected_of(fit)
        fitted = inputs.FittedEngine(
            profile=fit.profile, held_out={}, source=_source(fit), expected=expected, unconverged=fit.unconverged
        )
        write_profile(target, inputs.as_yaml(fitted))
        version = _keep(store, fit, expected)
    return KeptFit(
        fit=fit, output=target, version=version, read=len(records), problems=() if found is None else found.problems
    )


def _matches(record: MeasurementRecord, only: Sequence[str]) -> bool:
    known = [str(value).lower() for value in (record.device, record.model, record.engine_version) if value]
    return all(any(text.lower() in value for value in known) for text in only)


def _start_from_file(engine: str) -> inputs.EngineProfile:
    if Path(engine).suffix not in {".yaml", ".yml"}:
        raise InputError(
            f"unknown engine {engine!r}", hint=f"known: {', '.join(inputs.list_engines())}, or a profile FILE.yaml"
        )
    return inputs.engine_profile(engine)


def _source(fit: OwnFit) -> str:
    files = sorted({record.source.rpartition(":")[0] or record.source for record in fit.points.records})
    shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return f"{len(fit.points.records)} points of {shown}, from {inputs.label_of_engine(fit.start)}"


def expected_of(fit: OwnFit) -> dict[str, object]:
    """Of held-out points, by metric.

    End-to-end follows from both latencies: 100 ms and 10 ms a token over 11 tokens are 200 ms; predicted 110 and 9 ms
    they are 200 as well, so errors of 10 % and -10 % make 0 %."""
    by_metric: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for deployment, record, errors in zip(fit.points.deployments, fit.points.records, fit.held_out, strict=True):
        measured = central_metrics(record.metrics)
        first, later = (measured[metric] for metric in LATENCIES)
        more = max(deployment.output_length - 1, 0)
        predicted = first * (1 + errors[0]) + more * later * (1 + errors[1])
        whole = predicted / (first + more * later)
        for metric, error in (
            *zip(LATENCIES, errors, strict=True),
            ("tpot_inclusive_ms", whole - 1.0),
            ("output_tokens_per_s", 1.0 / whole - 1.0),
        ):
            by_metric[metric][" on ".join(reversed(deployment.pair))].append(float(error))
    figures = {metric: asdict(figures_of(errors)) for metric, errors in by_metric.items()}
    return {
        "devices": sorted({one.device.name for one in fit.points.deployments}),
        "metrics": {metric: {**one, "quantiles": list(one["quantiles"])} for metric, one in figures.items()},
    }


def keep_given_profile(path: Path, store_url: str | None) -> None:
    """Keeps its held-out errors, so that answers show them."""
    given = inputs.engine_from_file(path)
    if given.expected:
        create_if_missing(parse_url(store_url))
        with open_store(store_url) as store:
            keep_engine(store, given.profile, source=given.source, errors={"expected": given.expected})


def _keep(store: Store, fit: OwnFit, expected: object) -> int:
    errors = {f"{metric}, {stage}": asdict(one) for (metric, stage), one in fit.figures.items()}
    return keep_engine(store, fit.profile, source=_source(fit), errors={**errors, "expected": expected})
