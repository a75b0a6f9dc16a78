"""Each setting's metrics over days, and steps in their level."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import fmean
from typing import NamedTuple

from evaluator.ledger import is_rate, level_steps
from queries.connect import connect
from store.errors import InputError
from sweepdb.measuring.measured_runs import measured_runs, no_runs


class Trend(NamedTuple):
    """The day from which the new level holds."""

    setting: str
    metric: str
    day: date
    version: str
    before: float
    after: float
    change_percent: float
    days: int
    runs: int

    @property
    def worse_percent(self) -> float:
        return -self.change_percent if is_rate(self.metric) else self.change_percent


class Day(NamedTuple):
    """Mean log of a setting's runs on a day, and engine versions."""

    day: date
    value: float
    runs: int
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric of a setting, with steps by day."""

    setting: str
    metric: str
    days: tuple[Day, ...]
    steps: tuple[Trend, ...]

    @property
    def worst_percent(self) -> float:
        """Of the worst step; below 0 where all improved, 0 without any."""
        return max((one.worse_percent for one in self.steps), default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """The worst step first."""

    series: tuple[Series, ...]

    @property
    def steps(self) -> list[Trend]:
        """The newest first."""
        found = [step for one in self.series for step in one.steps]
        return sorted(found, key=lambda one: (-one.day.toordinal(), one.setting, one.metric))


def trends(store_url: str | None, *, model: str | None = None, device: str | None = None) -> Trends:
    """With steps."""
    with connect(store_url) as connection:
        runs = measured_runs(connection, model, device)
    if not runs:
        raise no_runs()
    found: defaultdict[tuple[str, str], defaultdict[date, list[tuple[float, str]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run in runs:
        if run.day is not None:
            for metric, value in run.metrics.items():
                found[run.setting, metric][run.day].append((value, run.version))
    if not found:
        raise InputError(
            "no run says when it was measured",
            hint="correct it by `set=measured_at=2026-05-01` of sweepdb measurements set",
        )
    series = [_series(*key, days) for key, days in found.items()]
    return Trends(series=tuple(sorted(series, key=_worst_first)))


def _worst_first(one: Series) -> tuple[bool, float, str, str]:
    return not one.steps, -one.worst_percent, one.setting, one.metric


def _series(setting: str, metric: str, runs: Mapping[date, Sequence[tuple[float, str]]]) -> Series:
    days = tuple(
        Day(day, math.exp(fmean(math.log(value) for value, _ in of_day)), len(of_day), _versions(of_day))
        for day, of_day in sorted(runs.items())
    )
    count = sum(one.runs for one in days)
    steps = (
        Trend(setting, metric, days[step.at].day, days[step.at].version, step.before, step.after, step.change_percent,
              len(days), count)
        for step in level_steps([one.value for one in days], [one.runs for one in days])
    )  # fmt: skip
    return Series(setting=setting, metric=metric, days=days, steps=tuple(steps))


def _versions(runs: Sequence[tuple[float, str]]) -> str:
    return ", ".join(sorted({version for _, version in runs} - {""}))
