"""Prometheus' text format as samples and histograms."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import NormalDist
from typing import NamedTuple

from store.errors import InputError

_SAMPLE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)\s*(?:\{(?P<labels>(?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*)\})?\s*"
    r"(?P<value>[-+.\w]+)(?:\s+(?P<moment>[-+.\deE]+))?\s*(?:#.*)?"
)
_LABEL = re.compile(r"\s*(?P<name>[a-zA-Z_]\w*)\s*=\s*\"(?P<value>(?:[^\"\\]|\\.)*)\"\s*(?:,|$)")
_ESCAPED = {"n": "\n", '"': '"', "\\": "\\"}
_BOUND, _END = "le", "# EOF"  # of OpenMetrics
_LONGEST_SHOWN = 60
_NORMAL = NormalDist()
_SPREADS = tuple(0.02 * 1.06**step for step in range(86))  # of logarithms, 0.02 to 2.8
_NOT_UNLIKELY = 1.92  # half of the 95th percentile of chi squared with one degree of freedom
_LEAST_SHARE = 1e-12
_LARGEST = 1e18  # that a server counts


class MetricSample(NamedTuple):
    labels: Mapping[str, str]
    value: float


Page = Mapping[str, Sequence[MetricSample]]  # samples by name, in the order of the page


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram:
    """Count, sum, and how many were at most each bound."""

    count: float
    total: float
    buckets: tuple[tuple[float, float], ...] = ()  # (bound, count up to it), ascending

    @property
    def mean(self) -> float:
        return self.total / self.count

    def since(self, before: Histogram) -> Histogram:
        earlier = dict(before.buckets)
        return Histogram(
            count=self.count - before.count,
            total=self.total - before.total,
            buckets=tuple((bound, count - earlier.get(bound, 0.0)) for bound, count in self.buckets),
        )

    def spread(self) -> float:
        """Deviation over mean, at most; 1 without bounds.

        Lognormal around the mean that the sum states: the largest spread not unlikely (within 1.92 of the best log
        likelihood, Wilks, 1938). Worked: 600 values around 8, all below 10: 6 in 1,000 above it would be seen, so
        0.09."""
        filled = [one for one in self._filled() if one[2] > 0]
        if not filled or self.count <= 0 or self.total <= 0:
            return 1.0
        likely = [(one, self._log_likelihood(one, filled)) for one in _SPREADS]
        best = max(value for _, value in likely)
        widest = max(one for one, value in likely if value >= best - _NOT_UNLIKELY)
        return math.sqrt(math.expm1(widest * widest))

    def _filled(self) -> Iterator[tuple[float, float, float]]:
        lower, below = 0.0, 0.0
        for bound, up_to in self.buckets:
            yield lower, bound, up_to - below
            lower, below = bound, up_to

    def _log_likelihood(self, spread: float, filled: Iterable[tuple[float, float, float]]) -> float:
        middle = math.log(self.mean) - spread * spread / 2.0

        def share(bound: float) -> float:
            return 0.0 if bound <= 0 else _NORMAL.cdf((math.log(bound) - middle) / spread)

        shares = ((values, share(upper) - share(lower)) for lower, upper, values in filled)
        return math.fsum(values * math.log(max(one, _LEAST_SHARE)) for values, one in shares)


def parse_page(text: str, where: str) -> Page:
    if not text.strip():
        raise InputError(f"{where} is empty", hint="take the address of the server's metrics, such as /metrics")
    if not text.endswith(("\n", _END)):
        raise InputError(f"{where} ends within line {text.count(chr(10)) + 1}", hint="read the page again, whole")
    found: defaultdict[str, list[MetricSample]] = defaultdict(list)
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            name, sample = _sample(stripped, f"{where} line {number}")
            found[name].append(sample)
    _check_histograms(found, where)
    return found


def _sample(line: str, place: str) -> tuple[str, MetricSample]:
    match = _SAMPLE.fullmatch(line)
    try:
        return _read(match)
    except ValueError:
        shown = line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}..."
        raise InputError(
            f"{place}: {shown!r} is no line of Prometheus metrics",
            hint="take the address of the server's metrics, such as http://127.0.0.1:8000/metrics",
        ) from None


def _read(match: re.Match[str] | None) -> tuple[str, MetricSample]:
    if match is None or _LARGEST < abs(value := float(match["value"])) < math.inf:
        raise ValueError
    return match["name"], MetricSample(dict(_labels(match["labels"] or "")), value)


def _labels(text: str) -> Iterator[tuple[str, str]]:
    place = 0
    while place < len(text.rstrip()):
        match = _LABEL.match(text, place)
        if match is None:
            raise ValueError(text)
        yield match["name"], re.sub(r"\\(.)", lambda found: _ESCAPED.get(found[1], found[0]), match["value"])
        place = match.end()


def _check_histograms(page: Page, where: str) -> None:
    """One without its end: the page was cut."""
    for name in page:
        family = name.removesuffix("_bucket")
        if family != name and not {f"{family}_sum", f"{family}_count"} <= page.keys():
            raise InputError(f"{where} ends within {family}", hint="read the page again, whole")


def sums_of(samples: Iterable[MetricSample]) -> float | None:
    values = [one.value for one in samples if math.isfinite(one.value)]
    return math.fsum(values) if values else None


def histogram_of(page: Page, family: str) -> Histogram | None:
    count, total = (sums_of(page.get(f"{family}_{part}", ())) for part in ("count", "sum"))
    if count is None or total is None:
        return None
    buckets: defaultdict[float, float] = defaultdict(float)
    for one in page.get(f"{family}_bucket", ()):
        bound = _bound(one.labels.get(_BOUND, ""))
        if bound is None or not math.isfinite(one.value):
            raise InputError(f"a bucket of {family} has no bound or no count", hint="read the page again, whole")
        buckets[bound] += one.value
    ascending = tuple(sorted(buckets.items()))
    if any(above[1] < below[1] for below, above in pairwise(ascending)):
        raise InputError(f"buckets of {family} do not ascend", hint="read the page again, whole")
    return Histogram(count=count, total=total, buckets=ascending)


def _bound(text: str) -> float | None:
    try:
        bound = float(text)
    except ValueError:
        return None
    return None if math.isnan(bound) else bound
