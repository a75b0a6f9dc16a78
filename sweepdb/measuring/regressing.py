"""Compare two sides of the measured runs, and find where a setting's level stepped over time.

Not here: the statistics (evaluator.ledger.regressions, evaluator.ledger.steps)."""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from statistics import fmean
from typing import Any, NamedTuple

from evaluator.ledger import Change, central_metrics, changes_of, level_steps
from queries.connect import connect
from queries.measured_rows import side_of
from store.errors import InputError

_SETTING = (
    "model", "device", "engine", "mode", "precision", "kv_precision", "num_devices", "prefill_instances", "prefill_tp",
    "decode_instances", "decode_tp", "decode_pp", "decode_dp", "decode_ep", "input_length", "output_length",
    "concurrency", "request_rate",
)  # fmt: skip
_RUNS = f"""
    SELECT key, {", ".join(_SETTING)}, coalesce(engine_version, '') AS engine_version, coalesce(tags, '') AS tags,
        CAST(measured_at AS DATE) AS day, metrics
    FROM measurement
    WHERE family = 'measured' AND server_failed IS NULL
        AND ($model IS NULL OR contains(lower(model), lower($model)))
        AND ($device IS NULL OR contains(lower(device), lower($device)))
    ORDER BY measured_at, key
"""  # noqa: S608  our own columns
_COMPARED = re.compile(r"(ttft|tpot_exclusive|itl|e2e)_ms(_p\d[\d.]*)?|(output_tokens|requests)_per_s")


class _Run(NamedTuple):
    key: str
    setting: str
    version: str
    tags: frozenset[str]
    day: date | None
    metrics: Mapping[str, float]


class Trend(NamedTuple):
    """A step of a setting's metric: the day from which the new level holds."""

    setting: str
    metric: str
    day: date
    version: str
    before: float
    after: float
    change_percent: float
    days: int
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """Changes, the worst first, and what only one side has."""

    changes: tuple[Change, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]

    def worse(self, percent: float = 0.0) -> list[Change]:
        """Changes that are surely worse, by more than so many percent."""
        return [one for one in self.changes if one.verdict == "worse" and one.worse_percent > percent]

    @property
    def verdict(self) -> str:
        """One sentence."""
        count = {kind: sum(one.verdict == kind for one in self.changes) for kind in ("worse", "better", "unknown")}
        settings = len({one.setting for one in self.changes})
        said = f"{settings} settings, {len(self.changes)} numbers compared: {count['worse']} surely worse"
        said += f", {count['better']} surely better"
        if count["unknown"]:
            said += f", {count['unknown']} unknown (no setting was run twice, so nothing says how runs spread)"
        left = [(self.only_before, "the baseline"), (self.only_after, "what it is compared with")]
        return said + "".join(f"; {len(names)} only in {side}" for names, side in left if names) + "."


def regressions(
    store_url: str | None, *, baseline: str, against: str, model: str | None = None, device: str | None = None
) -> Regression:
    """Compare runs of two sides: each a tag, an engine's version, or days (2026-05-01, 2026-05-01..2026-05-31)."""
    runs = _runs(store_url, model, device)
    before, after = (side_of(runs, name, option) for name, option in ((baseline, "baseline"), (against, "against")))
    both = before.keys() & after.keys()
    if both:
        raise InputError(
            f"{len(both)} runs are of both sides, {baseline} and {against}",
            hint="name sides that share no run: two tags, two versions or two spans of days",
        )
    old, new = _logs(before.values()), _logs(after.values())
    shared = old.keys() & new.keys()
    if not shared:
        raise InputError(
            f"{baseline} and {against} have no setting in common",
            hint="a setting is a model, device, engine, formats, plan, lengths and load: sweepdb measurements runs",
        )
    settings_old, settings_new = {name for name, _ in old}, {name for name, _ in new}
    return Regression(
        changes=tuple(changes_of({key: (old[key], new[key]) for key in sorted(shared)})),
        only_before=tuple(sorted(settings_old - settings_new)),
        only_after=tuple(sorted(settings_new - settings_old)),
    )


def trends(store_url: str | None, *, model: str | None = None, device: str | None = None) -> list[Trend]:
    """Every step of every setting and metric over the days on which it was measured, the newest first."""
    series: defaultdict[tuple[str, str], defaultdict[date, list[tuple[float, str]]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for run in _runs(store_url, model, device):
        if run.day is not None:
            for metric, value in run.metrics.items():
                series[run.setting, metric][run.day].append((value, run.version))
    if not series:
        raise InputError(
            "no run says when it was measured",
            hint="correct it by `set=measured_at=2026-05-01` of sweepdb measurements set",
        )
    found = [step for key, days in series.items() for step in _steps(*key, days)]
    return sorted(found, key=lambda one: (-one.day.toordinal(), one.setting, one.metric))


def _steps(setting: str, metric: str, days: Mapping[date, Sequence[tuple[float, str]]]) -> Iterable[Trend]:
    ordered = sorted(days)
    means = [math.exp(fmean(math.log(value) for value, _ in days[day])) for day in ordered]
    runs = [len(days[day]) for day in ordered]
    for step in level_steps(means, runs):
        day = ordered[step.at]
        version = ", ".join(sorted({version for _, version in days[day]}))
        levels = (step.before, step.after, step.change_percent)
        yield Trend(setting, metric, day, version, *levels, len(ordered), sum(runs))


def _runs(store_url: str | None, model: str | None, device: str | None) -> list[_Run]:
    with connect(store_url) as connection:
        answer = connection.execute(_RUNS, {"model": model, "device": device})
        names = [column[0] for column in answer.description]
        rows = [dict(zip(names, row, strict=True)) for row in answer.fetchall()]
    if not rows:
        raise InputError("no measured run is stored for this", hint="sweepdb measurements import FILE...")
    return [_run(row) for row in rows]


def _run(row: Mapping[str, Any]) -> _Run:
    measured = json.loads(row["metrics"])
    values = {name: value for name, value in {**measured, **central_metrics(measured)}.items() if value > 0}
    return _Run(
        key=row["key"],
        setting=_named(row),
        version=row["engine_version"],
        tags=frozenset(filter(None, row["tags"].split(","))),
        day=row["day"],
        metrics={name: value for name, value in values.items() if _COMPARED.fullmatch(name)},
    )


def _named(row: Mapping[str, Any]) -> str:
    """A setting in words: what is not known is left out."""
    given = {name: f"{row[name]:g}" if isinstance(row[name], float) else row[name] for name in _SETTING}
    text = " ".join(str(given.pop(name)) for name in ("model", "device", "engine", "mode") if given[name] is not None)
    lengths = [given.pop(name) for name in ("input_length", "output_length")]
    words = [text, "/".join("-" if length is None else str(length) for length in lengths)]
    return " ".join([*words, *(f"{name}={value}" for name, value in given.items() if value is not None)])


def _logs(runs: Iterable[_Run]) -> dict[tuple[str, str], list[float]]:
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for run in runs:
        for metric, value in run.metrics.items():
            found[run.setting, metric].append(math.log(value))
    return found
