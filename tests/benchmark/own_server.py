"""The second tier of docs/reference/accuracy.md: errors where a dozen points of a server were measured.

    python tests/benchmark/own_server.py FOLDER      # holds serving.csv; minutes of one core

Points of one device, model, engine and format are those of one server. Of each with enough points some go into the fit that
`sweepdb calibrate --serving` makes, from the profile that never saw the pair, and all others are scored. Which, is decided
before anything is measured: by what is worth measuring, as `sweepdb measurements suggest` has it, or evenly by their order in
users and lengths. Prints Markdown."""

# ruff: noqa: E402  the paths come first

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[depth]) for depth in (1, 2)]

from evaluated_blocks import fitted_to

from evaluator.inputs import EngineProfile, engine_profile
from evaluator.ledger import (
    LATENCIES,
    Deployment,
    Figures,
    FitPoint,
    Unmatched,
    central_metrics,
    deployment_of,
    figures,
    fit_points,
    read_measurements,
    usable,
    worth_measuring,
)
from evaluator.ledger.fitting.user_points import own_points

LEAST_ROWS = 20  # of a server: five points at least are left to score after the largest fit
FITTED_POINTS = (5, 10, 15)
CHOICES = ("worth measuring", "in their order")
Measured = tuple[Deployment, Mapping[str, float]]
Errors = dict[str, list[float]]


def main(folder: Path) -> None:
    """Every server with points enough, with none, five, ten and fifteen of them in the fit."""
    found: dict[tuple[str, int], Errors] = defaultdict(lambda: defaultdict(list))
    print("| server | rows | points in the fit | TPOT | TTFT |\n|---|---|---|---|---|")
    for name, measured in sorted(_servers(folder / "serving.csv").items()):
        points = _points(measured)
        for choice in CHOICES:
            for count, errors in _scored(points, choice).items():
                for metric in LATENCIES:
                    found[choice, count][metric] += errors[metric]
                if (choice, count) == (CHOICES[0], FITTED_POINTS[1]):
                    print(f"| {name} | {len(measured)} | {count} | {_cells(errors)} |")
    print("\n| points in the fit | chosen | rows scored | TPOT | TTFT |\n|---|---|---|---|---|")
    for (choice, count), errors in found.items():
        print(f"| {count} | {choice} | {len(errors[LATENCIES[0]])} | {_cells(errors)} |")


def _servers(file: Path) -> dict[str, list[Measured]]:
    servers: dict[str, list[Measured]] = defaultdict(list)
    for record in usable(read_measurements(file).records).records:
        with suppress(Unmatched):
            deployment, known = deployment_of(record), central_metrics(record.metrics)
            if deployment.mode == "aggregated" and deployment.engine and set(LATENCIES) <= set(known):
                pair = " ".join(deployment.pair)
                server = f"{pair}, {deployment.engine}, {record.precision or 'published format'}"
                servers[server].append((deployment, {metric: known[metric] for metric in LATENCIES}))
    return {name: found for name, found in servers.items() if len(found) >= LEAST_ROWS}


def _points(measured: Sequence[Measured]) -> list[FitPoint]:
    ordered = sorted(
        measured, key=lambda one: (one[0].users, one[0].input_length, one[0].output_length, str(one[0].plan))
    )
    deployment = ordered[0][0]
    return fit_points(ordered, engine_profile(str(deployment.engine), unseen=deployment.pair), weight=1.0)


def _scored(points: Sequence[FitPoint], choice: str) -> dict[int, Errors]:
    """Errors of the points that no fit has seen, by how many are in the fit: the same ones for every number of them."""
    start = engine_profile(str(points[0].deployment.engine), unseen=points[0].deployment.pair)
    most = FITTED_POINTS[-1]
    points = own_points(points)
    sought = choice == CHOICES[0]
    places = [point.replica.place(point.batch_size) for point in points]
    chosen = worth_measuring(places, most) if sought else [index * len(points) // most for index in range(most)]
    left = [point for index, point in enumerate(points) if index not in chosen]
    found = {0: _errors(left, start)}
    for count in FITTED_POINTS:
        first = chosen[:count] if sought else [chosen[index * most // count] for index in range(count)]
        known = [points[index] for index in first]
        found[count] = _errors(left, fitted_to(known, start))
    return found


def _errors(points: Sequence[FitPoint], engine: EngineProfile) -> Errors:
    rows = np.exp(np.asarray([point.log_errors(engine) for point in points])) - 1.0
    return {metric: rows[:, column].tolist() for column, metric in enumerate(LATENCIES)}


def _cells(errors: Errors) -> str:
    return " | ".join(_line(figures(errors[metric])) for metric in reversed(LATENCIES))


def _line(found: Figures | None) -> str:
    return "none" if found is None else f"{found.median_ape:.1f}/{found.mean_ape:.1f}/{found.p90_ape:.1f}"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
