"""Own runs beside a stored row: predicted and corrected times, and the nearest run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp

from queries.connect import StoreConnection
from queries.learning import Learned, Lessons, OwnPoint, Process, Setting, lessons_of, median_percent, taught_by
from queries.probes import find_probe, find_scenario, parse_reference
from store.location import StoreLocation
from store.reading import read_transaction
from store.texts import counted
from sweepdb.own_runs.reading import own_points

_METRICS = (("ttft_ms", "TTFT", 0), ("tpot_exclusive_ms", "TPOT", 1))
_TIMES = frozenset(column for column, *_ in _METRICS)
_KEY_LENGTH = 12  # of a measurement, as `measurements show` takes it


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """Predicted, corrected, and expected error of the latter."""

    name: str
    predicted_ms: float
    corrected_ms: float
    error_percent: float  # half of measured values lie nearer

    def __str__(self) -> str:
        corrected = f"{self.corrected_ms:.4g} ms (+-{self.error_percent:.0f} %)"
        return f"{self.name} {self.predicted_ms:.4g} ms becomes {corrected}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRunsOfARow:
    """One row, runs of its server."""

    probe: str
    runs: int
    times: tuple[Corrected, ...]
    nearest: OwnPoint
    measured: bool  # the row itself was run
    ratios: Mapping[str, float]  # measured over predicted of the nearest run

    def said(self) -> Iterator[str]:
        """Both numbers, then the nearest run."""
        runs = counted(self.runs, "run")
        yield f"{self.probe} with {runs} of yours: {', '.join(str(one) for one in self.times)}"
        at, key = self.nearest.setting, self.nearest.key[:_KEY_LENGTH]
        devices = counted(at.num_devices, "device")
        elsewhere = f"{at.users:g} users, {at.input_length:g} + {at.output_length:g} tokens, {devices}"
        ratios = ", ".join(f"{name} x{value:.2f}" for name, value in self.ratios.items())
        yield f"nearest run: {'this row' if self.measured else elsewhere}; measured against predicted {ratios}"
        yield f"more of it: sweepdb measurements show {key}"


def own_runs_of_a_row(location: StoreLocation, text: str) -> OwnRunsOfARow | None:
    reference = parse_reference(text)
    scenario = find_scenario(location, reference.scenario)
    points = own_points(location, [scenario]).points
    if not points:
        return None
    found = taught_of(location, points, frozenset({scenario}))
    known = None if found is None else found[1].told.get(scenario)
    if found is None or known is None:
        return None
    columns, row = find_probe(location, text)
    times = {name: float(str(value)) for name, value in zip(columns, row, strict=True) if name in _TIMES and value}
    return _beside(text, times, known.setting(reference.batch_size), found[1].processes[known.group], points)


def taught_of(
    location: StoreLocation, points: Sequence[OwnPoint], scenarios: frozenset[int]
) -> tuple[Lessons, Learned] | None:
    with read_transaction(location) as transaction:
        lessons = lessons_of(transaction, points, scenarios)
    if lessons is None:
        return None
    with StoreConnection(location) as connection:
        connection.narrow_to(lessons.predicting)
        connection.provide({"probe", "device"})
        return lessons, taught_by(connection.duckdb, lessons)


def _beside(
    text: str, predicted: Mapping[str, float], at: Setting, process: Process, points: Sequence[OwnPoint]
) -> OwnRunsOfARow:
    found = process.at([at])
    run = process.runs[int(found.nearest[0])]
    spreads = found.sd[0].tolist()
    apart = {"TTFT": run.ttft, "TPOT": run.tpot, "whole request": run.whole}
    return OwnRunsOfARow(
        probe=text,
        runs=len({one.key for one in process.runs}),
        times=tuple(
            Corrected(
                name=name,
                predicted_ms=predicted[column],
                corrected_ms=predicted[column] * exp(float(found.mean[0, place])),
                error_percent=median_percent(spreads[place]),
            )
            for column, name, place in _METRICS
            if column in predicted
        ),
        nearest=next(one for one in points if one.key == run.key),
        measured=bool(found.measured[0]),
        ratios={name: exp(value) for name, value in apart.items() if value is not None},
    )
