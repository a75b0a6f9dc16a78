"""Fits the shipped priors for learning from own runs.

`python -m tools.learning_priors serving.csv closed.csv` predicts every usable closed loop by an engine fitted without
its pair, and fits priors to log(measured / predicted) by marginal likelihood. The first file is one laboratory's
(`known`), the rest others' (`foreign`); `data_sheet` predicts the first by data sheets. Nothing is random."""

from __future__ import annotations

import json
import math
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from evaluator.inputs import load_device
from evaluator.ledger import Values, asked_of, evaluated, predicted, read_measurements
from queries.learning import OwnPoint, Predicted, Prior, Process, Run, run_of
from queries.learning.priors import FILE, Region, Two
from sweepdb.own_runs import group_of, point_or_reason
from tools.apart_runs import apart_groups_of
from tools.ledger_summary import Point, points_of

LEAST_SETTINGS = 6  # of a group that shapes are learned from
MOST_RUNS = 60  # of a group: larger ones are thinned, so that none outweighs the others
DEGREES = 4.0
DIGITS = 4
_Z80 = 1.2815515655446004
START = Prior(common=(0.4, 0.13), common_correlation=0.0, shape=(0.6, 0.19), shape_correlation=0.0, own=(0.15, 0.05),
               own_correlation=0.0, noise=(0.1, 0.03), length=1.0, degrees=DEGREES, bare=(1.0, 1.0))  # fmt: skip

_Group = tuple[str, ...]
Groups = Mapping[_Group, Sequence[Run]]
_FITTED = ("common", "common_correlation", "shape", "shape_correlation", "own", "own_correlation", "noise", "length")
_OF_REGION = ("common", "shape")  # what another region's prior has of its own


def groups_of(points: Sequence[Point], family: str = "auto", *, by_source: bool = False) -> dict[_Group, list[Run]]:
    """By device, model, engine, formats, and source where there are several."""
    there = []
    for point in points:
        one = point.deployment
        if one.mode == "aggregated" and not one.batched:
            device = load_device(one.device.name, family="theoretical") if family == "theoretical" else one.device
            there.append((point, replace(one, device=device)))
    asked = {id(point): asked_of(one, "asked") for point, one in there}
    probes = evaluated(asked.values())
    found: dict[_Group, list[Run]] = defaultdict(list)
    for point, one in there:
        run = _run_of(point, predicted(one, "asked", asked[id(point)], probes))
        if run is not None:
            extra = json.loads(point.record.extra)
            source = str(extra.get("source_name") or extra.get("source") or "") if by_source else ""
            found[*group_of(one), source].append(run)
    return dict(found)


def _run_of(point: Point, values: Values) -> Run | None:
    """None where it says nothing of stored rows."""
    own = point_or_reason(point.record)
    if not isinstance(own, OwnPoint) or not values:
        return None
    predictions = Predicted(**{name: values[name] for name in Predicted.__slots__})
    run = run_of(own, own.setting, predictions)
    return run if run.observed() else None


def fit(groups: Sequence[Sequence[Run]], start: Prior, names: Sequence[str]) -> Prior:
    """Highest marginal likelihood over the named numbers.

    Each moves by a step that grows where it helps, else halves (Hooke and Jeeves 1961)."""
    groups = [_thinned(runs) for runs in groups]
    places = [(name, place) for name in names for place in range(2 if isinstance(getattr(start, name), tuple) else 1)]
    steps = np.full(len(places), 0.4)
    best, value = start, _likelihood(groups, start)
    for _ in range(80):
        for number, (name, place) in enumerate(places):
            for sign in (1.0, -1.0):
                moved = _moved(best, name, place, sign * steps[number])
                if (gained := _likelihood(groups, moved)) > value + 1e-3:
                    best, value = moved, gained
                    steps[number] *= 1.3
                    break
            else:
                steps[number] *= 0.5
        if steps.max() < 0.01:
            break
    return best


def _thinned(runs: Sequence[Run]) -> list[Run]:
    most = min(MOST_RUNS, len(runs))
    return [runs[place * len(runs) // most] for place in range(most)]


def _likelihood(groups: Sequence[Sequence[Run]], prior: Prior) -> float:
    """Correlations are shrunk a little towards none."""
    drawn = sum(math.atanh(getattr(prior, name)) ** 2 for name in _FITTED if name.endswith("correlation"))
    return sum(Process(runs, prior).likelihood() for runs in groups) - 0.05 * drawn


def _moved(prior: Prior, name: str, place: int, step: float) -> Prior:
    before: Any = getattr(prior, name)
    after: Any
    if isinstance(before, tuple):
        after = tuple(one * math.exp(step) if index == place else one for index, one in enumerate(before))
    else:
        after = math.tanh(math.atanh(before) + step) if name.endswith("correlation") else before * math.exp(step)
    return replace(prior, **{name: after})


def with_bare(groups: Sequence[Sequence[Run]], prior: Prior) -> Prior:
    """Servers without runs: what 80 % of their points keep."""
    spreads = Process([], replace(prior, bare=(1.0, 1.0))).at([groups[0][0].setting]).sd[0]
    noisy = np.sqrt(spreads**2 + np.square(prior.noise))

    def reached(metric: int) -> float:
        told = [run.ttft if metric == 0 else run.tpot for runs in groups for run in runs]
        return float(np.quantile([abs(value) for value in told if value is not None], 0.8) / noisy[metric] / _Z80)

    return replace(prior, bare=(reached(0), reached(1)))


def settled_prior(groups: Sequence[Sequence[Run]]) -> Prior:
    """One laboratory's servers, with many settings each."""
    return with_bare(groups, fit(groups, START, _FITTED))


def with_region(base: Prior, groups: Sequence[Sequence[Run]]) -> Prior:
    """The same shape, with these servers' sizes."""
    return with_bare(groups, fit(groups, base, _OF_REGION))


def apart_prior(groups: Groups, start: Prior) -> Prior:
    """All their own, since waits for prompts are far less certain."""
    runs = list(groups.values())
    return with_bare(runs, fit(runs, start, _FITTED))


def priors_of(known: Groups, data_sheet: Groups, foreign: Groups, apart: Groups) -> dict[Region, Prior]:
    """Other people's additions also apply to disaggregated ones."""
    base = settled_prior(
        [list(runs) for runs in known.values() if len({run.setting for run in runs}) >= LEAST_SETTINGS]
    )
    other = with_region(base, list(foreign.values()))
    by_data_sheet = fit(list(data_sheet.values()), base, _OF_REGION)
    others_apart = _wider(apart_prior(apart, START), base, other)
    return {
        "known": base,
        "foreign": other,
        "data_sheet": _wider(other, base, by_data_sheet),
        "apart": others_apart,
        "apart_data_sheet": _wider(others_apart, base, by_data_sheet),
    }


def _wider(other: Prior, narrow: Prior, wide: Prior) -> Prior:
    """Adds the variance that others add where both were measured."""

    def with_more(name: str) -> Two:
        parts = (getattr(prior, name) for prior in (other, wide, narrow))
        first, second = (
            math.sqrt(own**2 + max(much**2 - little**2, 0.0)) for own, much, little in zip(*parts, strict=True)
        )
        return first, second

    return replace(other, common=with_more("common"), shape=with_more("shape"))


def write(priors: Mapping[Region, Prior], path: Path = FILE) -> None:
    """Rounded."""

    def rounded(value: object) -> object:
        return [rounded(one) for one in value] if isinstance(value, tuple) else round(float(str(value)), DIGITS)

    told = {
        region: {name: rounded(getattr(prior, name)) for name in Prior.__slots__} for region, prior in priors.items()
    }
    path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def main(files: Sequence[Path], say: Callable[[str], object] = sys.stderr.write) -> None:
    first, *others = [points_of(read_measurements(path).records) for path in files]
    foreign = groups_of([point for points in others for point in points], by_source=True)
    found = priors_of(groups_of(first), groups_of(first, "theoretical"), foreign, apart_groups_of(first))
    for region, prior in found.items():
        say(f"{region}: {prior}\n")
    write(found)


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]])
