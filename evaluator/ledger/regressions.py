"""Whether today's runs are worse, by means of logs with intervals from repeats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, variance

SURE = 0.95  # of an interval; and of what is called worse, at most a twentieth is not
_SHARED_RUNS = 4  # runs that the spread of all settings weighs beside a setting's own
_MOST_FREEDOM = 200  # beyond it Student's distribution is the normal one

Logs = Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One metric of one setting, `before` to `after` by medians, within `least` to `most`."""

    setting: str
    metric: str
    before: float
    after: float
    runs_before: int  # 0 of a prediction
    runs_after: int
    change_percent: float
    least_percent: float | None  # None where nothing says how runs spread, and of two predictions
    most_percent: float | None
    verdict: str  # worse, better, same, unknown

    @property
    def worse_percent(self) -> float:
        return -self.change_percent if is_rate(self.metric) else self.change_percent


def is_rate(metric: str) -> bool:
    """More is better for rates, less for times."""
    return "_per_s" in metric


Exact = tuple[bool, bool]  # whether the values before, and those after, are predicted: another run gives them again
_MEASURED: Exact = (False, False)
_ROUNDING = 1e-9  # of logarithms: nearer predictions are the same


def changes_of(sides: Mapping[tuple[str, str], tuple[Logs, Logs]], exact: Exact = _MEASURED) -> list[Change]:
    """From logs before and after, the worst first.

    A setting's variance is its own and all settings', weighed by runs. At most a twentieth of verdicts is by chance
    (Benjamini and Hochberg, 1995). `exact` sides do not spread."""
    shared = {metric: _shared(sides, metric) for metric in {metric for _, metric in sides}}
    tested = {key: _tested(*sides[key], *shared[key[1]], exact) for key in sides}
    sure = _sure({key: test.chance for key, test in tested.items() if test is not None})
    found = [_change(key, *sides[key], tested[key], exact, is_sure=key in sure) for key in sides]
    return sorted(found, key=lambda one: (_ORDER[one.verdict], -one.worse_percent, one.setting, one.metric))


_ORDER = {"worse": 0, "unknown": 1, "same": 2, "better": 3}


@dataclass(frozen=True, slots=True)
class _Test:
    difference: float
    error: float | None
    freedom: int
    chance: float


def _squares(logs: Logs) -> float:
    return variance(logs) * (len(logs) - 1) if len(logs) > 1 else 0.0


def _shared(sides: Mapping[tuple[str, str], tuple[Logs, Logs]], metric: str) -> tuple[float, int]:
    """Over all settings, with degrees of freedom."""
    groups = [logs for (_, name), pair in sides.items() if name == metric for logs in pair]
    freedom = sum(len(logs) - 1 for logs in groups)
    return (sum(map(_squares, groups)) / freedom if freedom else 0.0), freedom


def _tested(before: Logs, after: Logs, shared: float, freedom: int, exact: Exact) -> _Test | None:
    """And the chance of such a difference without a cause; None without repeats."""
    difference = fmean(after) - fmean(before)
    if all(exact):
        return _Test(difference, None, 0, 1.0 if abs(difference) < _ROUNDING else 0.0)
    if not freedom:
        return None
    own = len(before) + len(after) - 2
    weight = min(_SHARED_RUNS, freedom)
    spread = (weight * shared + _squares(before) + _squares(after)) / (weight + own)
    runs = [len(logs) for logs, fixed in zip((before, after), exact, strict=True) if not fixed]
    error = math.sqrt(spread * sum(1 / count for count in runs))
    return _Test(difference, error, weight + own, _chance(difference, error, weight + own))


def _chance(difference: float, error: float, freedom: int) -> float:
    if error == 0:
        return 1.0 if difference == 0 else 0.0
    return 1 - student_within(abs(difference) / error, freedom)


def _sure(chances: Mapping[tuple[str, str], float]) -> set[tuple[str, str]]:
    """Of those kept, at most 1 - SURE may be by chance."""
    ordered = sorted(chances, key=lambda key: chances[key])
    kept = [at for at, key in enumerate(ordered, 1) if chances[key] <= (1 - SURE) * at / len(ordered)]
    return set(ordered[: max(kept, default=0)])


def _change(
    key: tuple[str, str], before: Logs, after: Logs, test: _Test | None, exact: Exact, *, is_sure: bool
) -> Change:
    difference = fmean(after) - fmean(before)
    reach = None if test is None or test.error is None else test.error * student_quantile(SURE, test.freedom)
    verdict = "unknown" if test is None else "same"
    if is_sure:
        verdict = "better" if (difference > 0) == is_rate(key[1]) else "worse"
    return Change(
        setting=key[0],
        metric=key[1],
        before=math.exp(fmean(before)),
        after=math.exp(fmean(after)),
        runs_before=0 if exact[0] else len(before),
        runs_after=0 if exact[1] else len(after),
        change_percent=_percent(difference),
        least_percent=None if reach is None else _percent(difference - reach),
        most_percent=None if reach is None else _percent(difference + reach),
        verdict=verdict,
    )


def _percent(log_ratio: float) -> float:
    return 100 * math.expm1(log_ratio)


def student_within(t: float, freedom: int) -> float:
    """Student's share within +-t (Abramowitz and Stegun, Handbook, 26.7.3 and 26.7.4)."""
    freedom = min(freedom, _MOST_FREEDOM)
    angle = math.atan(t / math.sqrt(freedom))
    cosine, odd = math.cos(angle), freedom % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for step in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * step / (step + 1)
    if odd:
        return 2 / math.pi * (angle + math.sin(angle) * total)
    return math.sin(angle) * total


def student_quantile(share: float, freedom: int) -> float:
    least, most = 0.0, 1.0
    while student_within(most, freedom) < share:
        most *= 2
    for _ in range(60):
        middle = (least + most) / 2
        least, most = (middle, most) if student_within(middle, freedom) < share else (least, middle)
    return most
