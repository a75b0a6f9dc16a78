"""How much longer steps take than simulated, by own runs at a request rate.

With steps c times as long, requests at rate r take c times what those at rate c r take now (queries/loaded.sql), so a
run's TPOT tells one c. A ladder of loads is one setting."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from queries.learning.conditioning import Known, Learned, Lessons, Taught, lessons_of
from queries.learning.own_points import MOST_RUNS, OwnPoint
from queries.learning.priors import prior_of
from queries.learning.process import Run, Setting, log_factor, median_percent
from store.light_dataclass import dataclass
from store.reading import ReadTransaction

_LOADS = (
    "SELECT scenario_id, settings_key, arrivals_per_s, load_tpot_mean_ms FROM load WHERE prefill_policy IS NULL"
    " AND load_tpot_mean_ms > 0 AND scenario_id IN "
)


class LongerSteps(NamedTuple):
    """One scenario's, by own runs."""

    scenario: str  # content key
    factor: float
    error: float  # half of measured steps are nearer, as a share
    bare_error: float  # without any run
    measured: bool
    near: int
    runs: int
    keys: frozenset[str]


class _Load(NamedTuple):
    scenario_id: int
    settings_key: str
    arrivals_per_s: float
    tpot_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLessons:
    """Steps by scenario, and points that no simulated load predicts."""

    steps: Mapping[int, LongerSteps]
    unpredicted: tuple[OwnPoint, ...] = ()


def longer_steps(transaction: ReadTransaction, points: Sequence[OwnPoint], asked: Collection[int]) -> RateLessons:
    """As runs at rates correct them."""
    own = [point for point in points if point.requests_per_s is not None]
    lessons = lessons_of(transaction, own, asked, at_rates=True) if own else None
    if lessons is None or not lessons.scenarios:
        return RateLessons(steps={})
    taught = _taught(lessons, _ladders(transaction, lessons.predicting))
    return RateLessons(steps=dict(_of_scenarios(taught)), unpredicted=taught.unpredicted)


def _ladders(transaction: ReadTransaction, scenarios: Sequence[int]) -> Mapping[int, list[_Load]]:
    """By rate; of several settings those of the first key."""
    if not scenarios:
        return {}
    by_settings: dict[int, dict[str, list[_Load]]] = defaultdict(lambda: defaultdict(list))
    for load in transaction.rows(_Load, f"{_LOADS}({', '.join(map(str, scenarios))}) ORDER BY arrivals_per_s, id"):
        by_settings[load.scenario_id][load.settings_key].append(load)
    return {number: ladders[min(ladders)] for number, ladders in by_settings.items()}


def _taught(lessons: Lessons, ladders: Mapping[int, Sequence[_Load]]) -> Learned:
    groups, unpredicted = {}, list(lessons.unpredicted)
    for group, matches in lessons.matched.items():
        runs = []
        for point, known, _ in matches[-MOST_RUNS:]:
            factor = step_factor(point, ladders.get(known.id, ()))
            if factor is None:
                unpredicted.append(point)
            else:
                runs.append(Run(key=point.key, setting=_ladder_of(known), tpot=factor, version=point.version))
        if runs:
            groups[group] = Taught(runs=tuple(runs), prior=prior_of(matches[0].known.region))
    return Learned(scenarios=lessons.scenarios, groups=groups, unpredicted=tuple(unpredicted))


def _ladder_of(known: Known) -> Setting:
    return known.setting(1.0)._replace(users=1.0)


def step_factor(point: OwnPoint, loads: Sequence[_Load]) -> float | None:
    """Log of the factor on steps that gives the measured TPOT at its rate; None beyond all loads.

    Loads of 2 and 4 requests/s with 10 and 16 ms a token: 32 ms at 2 requests/s means steps twice as long, since half
    of it was predicted at 4 requests/s."""
    measured, rate = point.measured["tpot_exclusive_ms"], point.requests_per_s or 0.0
    rates, times = (np.array([getattr(load, name) for load in loads]) for name in ("arrivals_per_s", "tpot_ms"))
    if not rates.size:
        return None
    found = log_factor(lambda longer: longer * float(np.interp(longer * rate, rates, times)) > measured)
    return found if math.exp(found) * rate <= rates[-1] else None


def _of_scenarios(learned: Learned) -> Iterator[tuple[int, LongerSteps]]:
    for group, process in learned.processes.items():
        own = [known for known in learned.told.values() if known.group == group]
        found = process.at([_ladder_of(known) for known in own])
        bare = median_percent(float(learned.bare(group).sd[0, 1])) / 100.0
        keys = frozenset(run.key for run in process.runs)
        for place, known in enumerate(own):
            yield (
                known.id,
                LongerSteps(
                    scenario=known.key,
                    factor=math.exp(float(found.mean[place, 1])),
                    error=median_percent(float(found.sd[place, 1])) / 100.0,
                    bare_error=bare,
                    measured=bool(found.measured[place]),
                    near=min(int(found.near[place]), len(keys)),
                    runs=len(keys),
                    keys=keys,
                ),
            )
