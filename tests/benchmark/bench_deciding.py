"""How good decisions are after a few runs that were chosen for them, on measured servers: JSON lines.

    python tests/benchmark/bench_deciding.py [serving.csv] [--decisions 20] [--kept FILE]

A server group is a model, device, engine and precision with six settings or more; the engine's numbers are those that were fitted
without its pair. A decision is about one pair of lengths of a group: limits are 1.0 to 1.3 times what one of its settings
measured, and the setting with the most tokens/s a device within both is wanted. Runs are chosen as `sweepdb decide` chooses
them; what they measure is what the file says. Broken: the answer misses a limit. Nothing: there is no answer. Lost: of the
best rate, by answers that keep the limits; `lost_all` counts the others as lost altogether. `--kept` holds predictions.
First of predictions alone, each time at most the limit itself or its bound with a confidence on tuned servers."""

from __future__ import annotations

import argparse
import csv
import json
import math
import platform
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1])]

# ruff: noqa: E402  the paths come first
from shared_data import ROOT

from evaluator.inputs import load_model
from evaluator.inputs.model import MoeMlp
from evaluator.ledger import read_measurements
from queries.asking import Limits, PairOptions
from queries.errors import LEVELS, TUNED
from queries.errors.expected import NOTHING_STORED, Subject, nearest_error
from queries.errors.spreads import devices
from queries.learning import Process, Run, prior_of
from sweepdb.deciding.settings import Server, Setting
from sweepdb.deciding.stored import OwnRun, Teaching
from sweepdb.deciding.worlds import BELIEVED, OwnSettings, Wanted
from sweepdb.measuring.validating import compare

AIMS = {  # percent, by way, whether a start gives a ladder, and starts
    ("chosen", False, 3): {"broken": 1.0, "nothing": 4.0, "lost": 4.0},
    ("chosen", True, 1): {"broken": 1.5, "nothing": 9.0, "lost": 9.0},
    ("chosen", True, 2): {"broken": 0.5, "nothing": 4.0, "lost": 2.5},
}
BY_PREDICTIONS = {  # percent, by the confidence in each limit
    None: {"broken": 18.0},
    0.7: {},
    0.8: {"broken": 9.0, "lost": 25.0},
    0.9: {},
}
LEAST_SETTINGS, LEAST_CHOICE, MOST_RUNS, MOST_STARTS = 6, 4, 5, 3
METRICS = {"ttft": "ttft_ms", "tpot": "tpot_ms"}


def compared(path):
    """(group, lengths, setting, measured) of every aggregated point that has both metrics, predicted as asked."""
    records = {one.key: one for one in read_measurements(path).records}
    found = compare(tuple(records.values()))
    values = defaultdict(dict)
    for one in found.of("asked"):
        if one.mode == "aggregated" and one.metric in METRICS:
            values[one.record_key][METRICS[one.metric]] = (one.measured, one.predicted)
    for key, both in values.items():
        if len(both) == len(METRICS):
            point, plan = found.points[key], found.points[key].plan
            yield {
                "key": key, "model": point.model_name, "device": point.device.name, "engine": point.engine or "",
                "precision": records[key].precision or "", "users": point.users, "input": point.input_length,
                "output": point.output_length, "devices": point.num_devices, "tp": plan.tp, "pp": plan.pp,
                "dp": plan.dp, "ep": plan.ep, "plan": str(plan),
                **{f"{name}_{kind}": value for name, pair in both.items()
                   for kind, value in zip(("measured", "predicted"), pair, strict=True)},
            }  # fmt: skip


def points_of(path, kept):
    if kept is not None and kept.exists():
        with kept.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    rows = list(compared(path))
    if kept is not None:
        with kept.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return rows


def choices(rows):
    """Lists of (setting, measured) of one group and pair of lengths; of settings measured twice the first."""
    groups = defaultdict(dict)
    for row in rows:
        plan = tuple(int(row[name]) for name in ("tp", "pp", "dp", "ep"))
        server = Server(row["plan"], 0, row["model"], row["device"], row["engine"], row["precision"], *plan,
                        int(row["devices"]), float(row["input"]), float(row["output"]))  # fmt: skip
        setting = Setting(probe=row["key"], server=server, plan=row["plan"], concurrency=int(row["users"]), batch_size=int(row["users"]),
                          ttft_ms=float(row["ttft_ms_predicted"]), tpot_ms=float(row["tpot_ms_predicted"]))  # fmt: skip
        measured = {name: float(row[f"{name}_measured"]) for name in METRICS.values()}
        groups[server.group].setdefault((server, setting.concurrency), (setting, measured))
    for found in groups.values():
        if len(found) < LEAST_SETTINGS:
            continue
        pairs = defaultdict(list)
        for setting, measured in found.values():
            pairs[setting.server.input_length, setting.server.output_length].append((setting, measured))
        yield from (one for one in pairs.values() if len(one) >= LEAST_CHOICE)


def run_of(setting, measured):
    """A run that measures what the file says, as it is read and as it teaches."""
    ratios = {name: math.log(measured[name] / getattr(setting, name)) for name in METRICS.values()}
    place = Teaching(prior=None).located(setting)
    run = OwnRun(
        measurement=setting.probe,
        server=setting.server,
        plan=setting.plan,
        users=place.users,
        setting=setting,
        measured=measured,
    )
    return run, Run(key=setting.probe, setting=place, ttft=ratios["ttft_ms"], tpot=ratios["tpot_ms"])


class PerDevice(Wanted):
    """Rates a device, as the file's servers are compared: one instance each."""

    __slots__ = ()

    def instances(self, one):
        return 1 / one.server.num_devices


class Bench:
    def __init__(self, choice, prior):
        self.settings = tuple(setting for setting, _ in choice)
        self.runs = [run_of(*one) for one in choice]
        self.prior, self._kept = prior, {}

    def known(self, wanted, run):
        """The settings with some runs; what is the same for all limits is worked out once."""
        if run not in self._kept:
            made = [self.runs[place] for place in sorted(run)]
            process = Process([observed for _, observed in made], self.prior)
            teaching = Teaching(prior=self.prior, processes={self.settings[0].server.group: process})
            runs = tuple(one for one, _ in made)
            self._kept[run] = OwnSettings(settings=self.settings, runs=runs, wanted=wanted, teaching=teaching)
        kept = self._kept[run]
        fresh = OwnSettings(settings=kept.settings, runs=kept.runs, wanted=wanted, teaching=kept.teaching)
        vars(fresh).update({name: value for name, value in vars(kept).items() if name not in vars(fresh)})
        worlds = fresh.worlds()
        vars(kept).update({name: value for name, value in vars(fresh).items() if name not in vars(kept)})
        return worlds

    def decide(self, wanted, ladders, most, choose=None):
        """(broken, nothing, lost) after each number of starts; `choose` takes the place of the rule."""
        true = wanted.worth(self.settings, *(np.array([run.measured[name] for run, _ in self.runs])
                                             for name in METRICS.values()))  # fmt: skip
        run = frozenset()
        for starts in range(most + 1):
            worlds = self.known(wanted, run)
            if not ladders:
                worlds = type(worlds)(starts=np.arange(len(self.settings)), worth=worlds.worth,
                                      measured=worlds.measured, believed=worlds.believed)  # fmt: skip
            answer = worlds.chosen
            yield (
                starts,
                answer is not None and true[answer] == 0.0,
                answer is None,
                (None if answer is None or true[answer] == 0.0 else 1.0 - true[answer] / true.max()),
            )
            if (start := next(worlds.first_starts(1), None) if choose is None else choose(worlds)) is not None:
                start = start[0] if choose is None else start
                run |= set(np.flatnonzero((worlds.starts == start) & np.isnan(worlds.measured)).tolist())


def drawn(bench, random):
    at, wide = random.integers(len(bench.runs)), random.uniform(1.0, 1.3, 2)
    ttft, tpot = (
        bench.runs[at][0].measured[name] * factor for name, factor in zip(METRICS.values(), wide, strict=True)
    )
    return PerDevice(limits=Limits(ttft_ms=ttft, tpot_ms=tpot), pairs=PairOptions(num_devices=1), prices={},
                     tpot_rule="exclusive", believed=BELIEVED)  # fmt: skip


@cache
def factor(server, name, confidence):
    """By which a prediction is multiplied, so that the measured value is less with the confidence."""
    if confidence is None:
        return 1.0
    spec = load_model(server.model)[1]
    subject = Subject(
        device=server.device, kind="moe" if any(isinstance(one.mlp, MoeMlp) for one in spec.layers) else "dense",
        phase="aggregated", family="calibrated" if devices()[server.device].calibrated_key else "theoretical",
        convention="physical", serving_model=server.engine, known_family=True,
    )  # fmt: skip
    metric = {"ttft_ms": "ttft_ms", "tpot_ms": "tpot_exclusive_ms"}[name]
    return math.exp(nearest_error(subject, metric, NOTHING_STORED, TUNED).quantiles[LEVELS.index(confidence)])


def by_predictions(bench, wanted, confidence):
    """(broken, nothing, lost) of the setting with the most predicted tokens/s a device within both bounds."""
    settings = bench.settings
    predicted = [np.array([getattr(one, name) for one in settings]) for name in METRICS.values()]
    factors = [np.array([factor(one.server, name, confidence) for one in settings]) for name in METRICS.values()]
    bounds = [value * by for value, by in zip(predicted, factors, strict=True)]
    devices_each = np.array([one.server.num_devices for one in settings])
    within = np.where(wanted.worth(settings, *bounds) > 0.0, wanted.rates(settings, *predicted) / devices_each, 0.0)
    measured = wanted.worth(settings, *(np.array([run.measured[name] for run, _ in bench.runs])
                                        for name in METRICS.values()))  # fmt: skip
    answer = int(np.argmax(within))
    if within[answer] == 0.0:
        return False, True, None
    return (
        measured[answer] == 0.0,
        False,
        (None if measured[answer] == 0.0 else 1.0 - measured[answer] / measured.max()),
    )


def at_random(random):
    def choose(worlds):
        left = np.unique(worlds.starts[np.isnan(worlds.measured)])
        return int(random.choice(left)) if left.size else None

    return choose


def figures(way, ladders, found):
    for starts, outcomes in sorted(found.items()):
        after = f"after {starts} {way} {'ladders' if ladders else 'runs'}"
        yield from figures_of(after, outcomes, AIMS.get((way, ladders, starts), {}))


def figures_of(after, outcomes, aims):
    lost = [one for *_, one in outcomes if one is not None]
    values = {
        "broken": float(np.mean([broken for broken, *_ in outcomes])),
        "nothing": float(np.mean([nothing for _, nothing, _ in outcomes])),
        "lost": float(np.mean(lost)),
        "lost p90": float(np.quantile(lost, 0.9)),
        "lost_all": (sum(lost) + len(outcomes) - len(lost)) / len(outcomes),
    }
    for name, value in values.items():
        yield {
            "name": f"{name} {after}", "value": round(100 * value, 2), "unit": "%", "decisions": len(outcomes),
            **({"aim": f"<= {aims[name]}"} if name in aims else {}),
        }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="?", default=ROOT / "e2e" / "serving.csv")
    parser.add_argument("--decisions", type=int, default=10, help="of each choice")
    parser.add_argument("--kept", type=Path)
    parser.add_argument("--region", default="known", help="of the prior: known, data_sheet or foreign")
    given = parser.parse_args()
    benches = [Bench(one, prior_of(given.region)) for one in choices(points_of(given.file, given.kept))]
    sizes = [len(one.settings) for one in benches]
    plans = [len({setting.server for setting in one.settings}) for one in benches]
    print(json.dumps({"machine": platform.machine(), "choices": len(benches), "settings": round(np.mean(sizes), 1),
                      "plans": round(np.mean(plans), 1), "region": given.region}))  # fmt: skip
    for confidence, aims in BY_PREDICTIONS.items():
        random = np.random.default_rng(2026)
        found = [by_predictions(one, drawn(one, random), confidence) for one in benches for _ in range(given.decisions)]
        way = f"by predictions {'at even odds' if confidence is None else f'at {confidence}'}"
        for line in figures_of(way, found, aims):
            print(json.dumps(line), flush=True)
    for way, ladders, most in (
        ("chosen", False, MOST_RUNS),
        ("chosen", True, MOST_STARTS),
        ("random", False, MOST_STARTS),
    ):
        random = np.random.default_rng(2026)
        found = defaultdict(list)
        for bench in benches:
            for _ in range(given.decisions):
                choose = None if way == "chosen" else at_random(random)
                for starts, *outcome in bench.decide(drawn(bench, random), ladders, most, choose):
                    found[starts].append(outcome)
        for line in figures(way, ladders, found):
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
