"""Learning from own runs, judged on servers whose other settings were measured too. Prints a JSON line a figure.

    python tests/benchmark/bench_learning.py [FOLDER]     # holds e2e/serving.csv and fresh/closed.csv

Each pair of device and model of `serving.csv`, and each source of `closed.csv`, is left out of the priors in turn (its
predictions never saw it either). 0, 1, 3, 5 and 8 of its settings are taken as runs, each the one that leaves the least
unknown; the others are judged: errors of what is said of them (median and mean), and the share within stated 80 %.

Of `closed.csv` runs are also drawn anew twenty times: one script measured six of its servers, so that the same five
settings are chosen of each and the same four are judged, of which two are far from predicted on every server.

Of servers whose sides are apart one and three runs are drawn likewise. Beside them stands what their sides would be by
runs of whole requests under the same engine."""

# ruff: noqa: E402  the paths come first

import json
import math
import os
import sys
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # products here are small: threads make them many times slower

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

from shared_data import ROOT

from evaluator.ledger import read_measurements
from queries.learning import Process, prior_of
from tools.apart_runs import apart_groups_of
from tools.learning_priors import LEAST_SETTINGS, START, apart_prior, groups_of, settled_prior, with_region
from tools.ledger_summary import points_of

RUNS = (0, 1, 3, 5, 8)
DRAWS = 20
Z80 = 1.2815515655446004


def chosen(runs, prior, count):
    """The places of so many runs, each the one after which the least is left unknown of both metrics everywhere."""
    settings = [run.setting for run in runs]
    size = len(settings)
    unknown = Process([], prior).across(settings)
    spread = np.sqrt(np.diag(unknown))
    unknown = unknown / np.outer(spread, spread)
    noise = np.square(np.repeat(prior.noise, size) / spread)
    places = []
    for _ in range(min(count, size)):
        gains = []
        for place in range(size):
            both = [place, size + place]
            seen = unknown[np.ix_(both, both)] + np.diag(noise[both])
            gains.append(
                -1.0
                if place in places
                else np.einsum("ij,jk,ik->", unknown[:, both], np.linalg.inv(seen), unknown[:, both])
            )
        best = int(np.argmax(gains))
        both = [best, size + best]
        seen = unknown[np.ix_(both, both)] + np.diag(noise[both])
        unknown = unknown - unknown[:, both] @ np.linalg.inv(seen) @ unknown[:, both].T
        places.append(best)
    return places


def judged(runs, prior, count):
    """(metric, log error, whether within) of the settings that were not taken as runs."""
    process = Process([runs[place] for place in chosen(runs, prior, count)], prior)
    known = {run.setting for run in process.runs}
    rest = [run for run in runs if run.setting not in known]
    if not rest:
        return
    found = process.at([run.setting for run in rest])
    spread = np.hypot(found.sd, process.width * np.array(prior.noise))
    for place, run in enumerate(rest):
        for metric, value in enumerate((run.ttft, run.tpot)):
            if value is not None:
                error = value - found.mean[place, metric]
                yield metric, error, abs(error) <= Z80 * spread[place, metric]


def print_errors(data, count, found):
    """A line for each metric of (metric, log error, whether within; None where nothing is stated)."""
    for metric, name in enumerate(("TTFT", "TPOT")):
        errors = [abs(math.expm1(-error)) for one, error, _ in found if one == metric]
        within = [kept for one, _, kept in found if one == metric and kept is not None]
        print(
            json.dumps(
                {"data": data, "runs": count, "metric": name, "points": len(errors),
                 "median_percent": round(100 * float(np.median(errors)), 1),
                 "mean_percent": round(100 * float(np.mean(errors)), 1),
                 "within_80_percent_bound": round(100 * float(np.mean(within)), 1) if within else None}
            ),
            flush=True,
        )  # fmt: skip


def print_figures(data, servers, prior_without, judge=judged):
    for count in RUNS:
        found = []
        for left_out, runs in servers:
            if len(runs) > count:
                found += judge(runs, prior_without[left_out], count)
        print_errors(data, count, found)


def of_sides(runs):
    """The time of prompts of a run whose sides are apart stands for TTFT, that of decode steps for TPOT."""
    return [(place, metric, value) for place, run in enumerate(runs)
            for metric, value in enumerate((run.ttft, run.tpot)) if value is not None]  # fmt: skip


def judged_drawn(runs, prior, count):
    """(metric, log error, whether within) of points that were not taken as runs, over draws."""
    keys = sorted({run.key for run in runs})
    drawn = np.random.default_rng(2026)
    for _ in range(DRAWS if count else 1):
        taken = set(drawn.choice(keys, count, replace=False))
        process = Process([run for run in runs if run.key in taken], prior)
        rest = [run for run in runs if run.key not in taken]
        found = process.at([run.setting for run in rest])
        spread = np.hypot(found.sd, process.width * np.array(prior.noise))
        for place, metric, value in of_sides(rest):
            error = value - found.mean[place, metric]
            yield metric, error, abs(error) <= Z80 * spread[place, metric]


def print_sides(apart, known):
    """Sides apart by runs of their own, each pair of device and model left out, and by runs of whole requests."""
    pairs = {key: key[:2] for key in apart}
    without = {
        pair: apart_prior({key: runs for key, runs in apart.items() if pairs[key] != pair}, START)
        for pair in set(pairs.values())
    }
    for count in (0, 1, 3):
        found = [one for key, runs in apart.items() for one in judged_drawn(runs, without[pairs[key]], count)]
        print_errors("serving.csv, disaggregated, by left-out pairs", count, found)
    whole = {key: [run for other, some in known.items() if other[:6] == key for run in some][:200] for key in apart}
    for name in ("disaggregated, as predicted", "disaggregated, by runs of whole requests"):
        found = []
        for key, runs in apart.items():
            if whole[key]:
                process = Process(whole[key] if "by runs" in name else [], prior_of("foreign"))
                at = process.at([run.setting for run in runs])
                found += [(metric, value - at.mean[place, metric], None) for place, metric, value in of_sides(runs)]
        print_errors(name, None, found)


def main(folder: Path) -> None:
    points = points_of(read_measurements(folder / "e2e" / "serving.csv").records)
    known = groups_of(points)
    print_sides(apart_groups_of(points), known)
    many = {key: runs for key, runs in known.items() if len({run.setting for run in runs}) >= LEAST_SETTINGS}
    pairs = {key: key[:2] for key in many}
    without = {
        pair: settled_prior([runs for key, runs in many.items() if pairs[key] != pair]) for pair in set(pairs.values())
    }
    print_figures("serving.csv by left-out pairs", [(pairs[key], runs) for key, runs in many.items()], without)
    base = settled_prior(list(many.values()))
    closed = groups_of(points_of(read_measurements(folder / "fresh" / "closed.csv").records), by_source=True)
    without = {
        source: with_region(base, [runs for key, runs in closed.items() if key[-1] != source])
        for source in {key[-1] for key in closed}
    }
    servers = [(key[-1], runs) for key, runs in closed.items()]
    print_figures("closed.csv by left-out sources", servers, without)
    print_figures("closed.csv by left-out sources, runs drawn", servers, without, judged_drawn)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
