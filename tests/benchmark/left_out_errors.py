"""How well the errors that ship keep their promise on what was left out of them, as JSON lines.

    python tests/benchmark/left_out_errors.py [--unseen-widths]

`scheme` is `pair` (a device and a model left out within the laboratories), `source` (all points of one source of others'
servers left out) or `learned` (the points that the shipped statements were learned from). A line has the shares of
points within the stated median and p90, and of measured values that are at most what `--confidence` 0.5, 0.8 and 0.9
take for them. `each` says what counts alike: points, servers or sources. With `--unseen-widths` (minutes) pairs are
left out of what widens statements, too. The figures of docs/explanation/expected-errors.md and accuracy.md."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from cli.render.expected_error import LEAST_AGREEING, NOTED_BIAS_PERCENT
from queries.errors import ANY, DEVICES, ENGINE, KNOWN_NAMES, LEVELS, OTHERS, POINTS, SERVER_POINTS, Stated
from tools.error_regions import fields_of, left_out, places_of, read_points, width_key, widths_of
from tools.error_statements import Width, stated
from tools.server_spreads import ServerError, left_out_sources, read_server_errors, spreads_of, steps_of

LEAST_JUDGED = 20
READ_WITH = (0.5, 0.8, 0.9)
Judged = list[tuple[float, float, float, Sequence[float]]]  # log(measured / predicted), median and p90 in %, quantiles


def say(**values: object) -> None:
    sys.stdout.write(json.dumps(values) + "\n")


def say_shares(points: Judged, weights: Sequence[float] | None = None, **about: object) -> None:
    """The shares of a group of points, each counting alike without `weights`."""
    sizes = np.asarray([[100 * abs(math.expm1(-ratio)), median, p90] for ratio, median, p90, _ in points])
    kept = {
        f"within_confidence_{level}": float(
            np.average([row[0] <= row[3][LEVELS.index(level)] for row in points], weights=weights)
        )
        for level in READ_WITH
    }
    shares = {
        "within_median": float(np.average(sizes[:, 0] <= sizes[:, 1], weights=weights)),
        "within_p90": float(np.average(sizes[:, 0] <= sizes[:, 2], weights=weights)),
        **kept,
    }
    figures = {
        "measured_median_ape": float(np.median(sizes[:, 0])),
        "stated_median_ape": float(np.median(sizes[:, 1])),
        "stated_p90_ape": float(np.median(sizes[:, 2])),
    }
    rounded = {name: round(value, 3) for name, value in shares.items()}
    say(**about, points=len(points), **rounded, **{name: round(value, 1) for name, value in figures.items()})


def judged_regions(fields, donors):
    for field, pairs in fields.items():
        for place in places_of(field, pairs, donors):
            if place.reach == "device" and place.kind != ANY and (place.engine != ANY or field.serving_model != ENGINE):
                yield field, place, pairs


def rows_of(one, width) -> Judged:
    said = stated(one.sample, width)
    return [(float(-np.log1p(error)), said.median_ape, said.p90_ape, said.quantiles) for error in one.errors]


def pairs_left_out(fields, donors, widths) -> Iterator[tuple[tuple[str, ...], Judged, object]]:
    """Of every left-out pair: serving model, basis, engine and metric, its points, and the pair."""
    for field, place, pairs in judged_regions(fields, donors):
        for one in left_out(place, pairs, donors):
            key = (field.serving_model, field.basis, place.engine, field.metric)
            yield key, rows_of(one, widths.get(width_key(field, place), Width())), one.pair


def say_pairs(scheme: str, found: Iterable[tuple[tuple[str, ...], Judged, object]]) -> None:
    """A line an engine and metric, then one a metric."""
    groups: dict[tuple[str, ...], Judged] = defaultdict(list)
    for (model, basis, engine, metric), points, _ in found:
        groups[model, basis, engine, metric] += points
        if model == ENGINE:
            groups[model, basis, "every engine", metric] += points
    for (model, basis, engine, metric), points in sorted(groups.items()):
        if len(points) >= LEAST_JUDGED:
            say_shares(points, scheme=scheme, serving_model=model, basis=basis, engine=engine, metric=metric)


def say_sources() -> None:
    """A line a way to predict and metric: sources left out, and the points that the statements were learned from."""
    errors = read_server_errors(SERVER_POINTS)
    with KNOWN_NAMES.open(encoding="utf-8", newline="") as file:
        families = frozenset(row["name"] for row in csv.DictReader(file) if row["what"] == "family")
    spreads = {(one.convention, one.serving_model, one.metric): one for one in spreads_of(errors, OTHERS, families)}
    learned = [
        (one, spreads[one.convention, one.serving_model, one.metric].stated(steps_of(one, families))) for one in errors
    ]
    left_out_points = list(left_out_sources(errors, families))
    say(scheme="source", points=len(errors), nothing_stated=round(1 - len(left_out_points) / len(errors), 3))
    for scheme, found in (("source", left_out_points), ("learned", learned)):
        groups: dict[tuple[str, ...], list[tuple[ServerError, Stated]]] = defaultdict(list)
        for pair in found:
            one = pair[0]
            groups[one.convention, one.serving_model, one.metric, "every source"].append(pair)
            groups[one.convention, one.serving_model, one.metric, one.source].append(pair)
        for (convention, model, metric, source), members in sorted(groups.items()):
            if source == "every source" or (model == ENGINE and scheme == "source"):
                about = {"scheme": scheme, "convention": convention, "serving_model": model, "metric": metric}
                say_counted(members, **about, source=source)


def say_counted(members: Sequence[tuple[ServerError, Stated]], **about: object) -> None:
    """A line where each point counts alike, one where each server does, and one where each source does."""
    rows: Judged = [(one.ratio, said.median_ape_percent, said.p90_ape_percent, said.quantiles) for one, said in members]
    say_shares(rows, **about, each="point")
    for each in ("server", "source") if about["source"] == "every source" else ("server",):
        units = [getattr(one, each) for one, _ in members]
        counts = Counter(units)
        say_shares(rows, [1.0 / counts[unit] for unit in units], **about, each=each)


def say_signs(fields, donors, widths) -> None:
    """How often the sign of a bias of at least 10 % and half of the median is right on the pair left out."""
    signs = defaultdict(list)
    for field, place, pairs in judged_regions(fields, donors):
        own = [one for one in pairs if place.holds(one, donors)]
        for one in left_out(place, pairs, donors):
            said = stated(one.sample, widths[width_key(field, place)])
            medians = [float(np.median(other.errors)) for other in own if other.pair != one.pair]
            agreed = len(medians) >= LEAST_AGREEING and all(median * said.bias > 0 for median in medians)
            if abs(said.bias) >= max(NOTED_BIAS_PERCENT, said.median_ape / 2):
                right = float(np.median(one.errors)) * said.bias > 0
                signs[field.serving_model, "any pairs"].append(right)
                if agreed:
                    signs[field.serving_model, "three agree"].append(right)
    for (model, said_of), right in sorted(signs.items()):
        say(scheme="sign", serving_model=model, of=said_of, pairs=len(right), right=round(float(np.mean(right)), 3))


def main(*, unseen_widths: bool) -> None:
    with DEVICES.open(encoding="utf-8", newline="") as file:
        donors = {row["device"]: row["calibrated_from"] for row in csv.DictReader(file)}
    say_sources()
    fields = fields_of(read_points(POINTS))
    widths = widths_of(fields, donors)
    say_pairs("pair", pairs_left_out(fields, donors, widths))
    say_signs(fields, donors, widths)
    if not unseen_widths:
        return
    engines = {field: pairs for field, pairs in fields.items() if field.serving_model == ENGINE}
    found = []
    for unseen in sorted({one.pair for pairs in engines.values() for one in pairs}):
        rest = {field: [one for one in pairs if one.pair != unseen] for field, pairs in engines.items()}
        found += [row for row in pairs_left_out(engines, donors, widths_of(rest, donors)) if row[2] == unseen]
    say_pairs("pair, widths too", found)


if __name__ == "__main__":
    main(unseen_widths="--unseen-widths" in sys.argv[1:])
