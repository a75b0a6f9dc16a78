"""How well the errors that ship keep their promise on pairs of device and model left out of them.

`python tests/benchmark/left_out_errors.py` prints, for each engine and metric, the shares of left-out points within the
stated median and p90, once with widths that saw the pair and once (minutes) with widths that did not; and how often the
sign of a bias that is said is right. The figures of docs/explanation/expected-errors.md."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from cli.render.expected_error import LEAST_AGREEING, NOTED_BIAS_PERCENT
from queries.errors import ANY, DEVICES, ENGINE, POINTS
from sweepdb.measuring.error_regions import fields_of, left_out, places_of, read_points, width_key, widths_of
from sweepdb.measuring.error_statements import PROMISED, Width, coverage, stated

LEAST_JUDGED = 20


def judged(fields, donors):
    """(field, place, pairs) of regions of one device, kind and engine."""
    for field, pairs in fields.items():
        for place in places_of(field, pairs, donors):
            if place.reach == "device" and place.kind != ANY and (place.engine != ANY or field.serving_model != ENGINE):
                yield field, place, pairs


def shares_of(members):
    """Shares within median and p90, and points."""
    sizes = [one.errors.size for one, _ in members]
    found = [coverage([one], width) for one, width in members]
    return (*np.average(found, axis=0, weights=sizes), sum(sizes))


def print_shares(title, groups):
    """A line an engine and metric, then one a metric."""
    sys.stdout.write(f"\n{title}\n")
    by_metric, kept, lines = defaultdict(list), 0, 0
    for key, members in sorted(groups.items()):
        median, p90, points = shares_of(members)
        by_metric[key[0], key[1], key[3]] += members
        if points >= LEAST_JUDGED:
            lines += 1
            kept += all(low <= share <= high for share, (low, high) in zip((median, p90), PROMISED, strict=True))
            pairs = len({one.pair for one, _ in members})
            sys.stdout.write(f"{' '.join(key):55} {pairs:3} pairs {points:5} points {median:.2f} {p90:.2f}\n")
    for key, members in sorted(by_metric.items()):
        median, p90, points = shares_of(members)
        sys.stdout.write(f"{' '.join(key):55} every engine {points:5} points {median:.2f} {p90:.2f}\n")
    sys.stdout.write(f"both promises kept: {kept} of {lines}\n")


def main() -> None:
    """Print everything."""
    with DEVICES.open(encoding="utf-8", newline="") as file:
        donors = {row["device"]: row["calibrated_from"] for row in csv.DictReader(file)}
    fields = fields_of(read_points(POINTS))
    widths = widths_of(fields, donors)
    groups, unseen_groups, signs = defaultdict(list), defaultdict(list), defaultdict(list)
    for field, place, pairs in judged(fields, donors):
        own = [one for one in pairs if place.holds(one, donors)]
        for one in left_out(place, pairs, donors):
            width = widths[width_key(field, place)]
            groups[field.serving_model, field.basis, place.engine, field.metric].append((one, width))
            said = stated(one.sample, width)
            medians = [float(np.median(other.errors)) for other in own if other.pair != one.pair]
            agreed = len(medians) >= LEAST_AGREEING and all(median * said.bias > 0 for median in medians)
            if abs(said.bias) >= max(NOTED_BIAS_PERCENT, said.median_ape / 2):
                right = float(np.median(one.errors)) * said.bias > 0
                signs[field.serving_model, "any pairs"].append(right)
                if agreed:
                    signs[field.serving_model, "three agree"].append(right)
    print_shares("pairs left out; widths saw them", groups)
    sys.stdout.write("\nsign of a bias of at least 10 % and half of the median\n")
    for key, found in sorted(signs.items()):
        sys.stdout.write(f"{' '.join(key):25} {len(found):4} left-out pairs, right {np.mean(found):.2f}\n")
    engines = {field: pairs for field, pairs in fields.items() if field.serving_model == ENGINE}
    for unseen in sorted({one.pair for pairs in engines.values() for one in pairs}):
        rest = {field: [one for one in pairs if one.pair != unseen] for field, pairs in engines.items()}
        narrower = widths_of(rest, donors)
        for field, place, pairs in judged(engines, donors):
            for one in left_out(place, pairs, donors):
                if one.pair == unseen:
                    width = narrower.get(width_key(field, place), Width())
                    key = (field.serving_model, field.basis, place.engine, field.metric)
                    unseen_groups[key].append((one, width))
    print_shares("pairs left out of the widths too", unseen_groups)


if __name__ == "__main__":
    main()
