"""Learning from own runs, judged on servers whose other settings were measured too. Prints a JSON line a figure.

    python tests/benchmark/bench_learning.py FOLDER     # holds e2e/serving.csv and fresh/closed.csv

Each pair of device and model of `serving.csv`, and each source of `closed.csv`, is left out of the priors in turn (its
predictions never saw it either). 0, 1, 3, 5 and 8 of its settings are taken as runs, each the one that leaves the least
unknown; the others are judged: errors of what is said of them (median and mean), and the share within stated 80 %."""

# ruff: noqa: E402  the paths come first

import json
import math
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[2])]

from evaluator.ledger import read_measurements
from queries.learning import Process
from tools.learning_priors import LEAST_SETTINGS, groups_of, settled_prior, with_region
from tools.ledger_summary import points_of

RUNS = (0, 1, 3, 5, 8)
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


def print_figures(data, servers, prior_without):
    """A line for each number of runs and metric, over all servers, each with the prior that did not see it."""
    for count in RUNS:
        found = defaultdict(list)
        for left_out, runs in servers:
            if len(runs) > count:
                for metric, error, within in judged(runs, prior_without[left_out], count):
                    found[metric].append((abs(math.expm1(-error)), within))
        for metric, name in enumerate(("TTFT", "TPOT")):
            errors, within = zip(*found[metric], strict=True)
            print(
                json.dumps(
                    {"data": data, "runs": count, "metric": name, "points": len(errors),
                     "median_percent": round(100 * float(np.median(errors)), 1),
                     "mean_percent": round(100 * float(np.mean(errors)), 1),
                     "within_80_percent_bound": round(100 * float(np.mean(within)), 1)}
                ),
                flush=True,
            )  # fmt: skip


def main(folder: Path) -> None:
    """Both files, one after the other."""
    known = groups_of(points_of(read_measurements(folder / "e2e" / "serving.csv").records))
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
    print_figures("closed.csv by left-out sources", [(key[-1], runs) for key, runs in closed.items()], without)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
