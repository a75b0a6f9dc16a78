"""Whether a server is as planned: each number that it states beside the planned one, and how sure a difference is.

A difference is said where it is larger than the tolerance and chance makes one as large in less than one of 100 cases.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

from store.schema import Phase
from sweepdb.watching.curves import TIMES, Curve, Lengths
from sweepdb.watching.windows import Mean, Seen

SURE = 2.5758293035489004  # standard deviations within which 99 % of a normal lie
LOADS: Mapping[Phase, tuple[str, str]] = {  # what load is counted by, and its unit
    "aggregated": ("in_flight", "requests"),
    "prefill": ("requests_per_s", "requests/s"),
    "decode": ("in_flight", "requests"),
}
SHOWN = {"ttft_ms": "TTFT", "tpot_ms": "TPOT"}
_LENGTHS_SAID = {
    "prompt_tokens": "prompts of {:,.0f} tokens, not {:,.0f}",
    "output_tokens": "answers of {:,.0f} tokens, not {:,.0f}",
    "cached_share": "{:.2f} of prompt tokens cached, not {:.2f}",
}
_SHAPE = 0.1  # by which log(measured / predicted) moves where load or a length is e times another: an assumption
_LENGTHS = 2.0  # times the tolerance of times: benchmarks spread lengths below those that they name
_LEAST_SHARE = 0.05  # of prompts, by which a cache holds more or less than planned

Verdict = Literal["as planned", "slower", "faster", "other lengths", "unsure", "missed", "overloaded", "seen"]


class Judged(NamedTuple):
    """One number: as seen, as the stored row has it at this load, and as it has it for the requests that were seen."""

    metric: str
    unit: str
    measured: float | None
    planned: float | None
    expected: float | None
    change_percent: float | None  # of measured over expected
    least_percent: float | None
    most_percent: float | None
    error_percent: float | None  # that chance leaves in what was measured: a standard error
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Expected:
    """Curves of the server: as stored, and of the requests that were seen; and how far off these may be."""

    stored: Curve
    seen: Curve
    lengths: Lengths
    sd: Mapping[str, float]  # of log(measured / expected), by metric


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The same server when it was as planned, beside what rows say of that load and those lengths."""

    seen: Seen
    expected: Expected


def differing_lengths(seen: Seen, planned: Lengths, tolerance: float) -> list[Judged]:
    found = [
        _judged(metric, "tokens", mean, value, value, _LENGTHS * tolerance, sd=mean.error, differs="other lengths")
        for metric, mean, value in (
            ("prompt_tokens", seen.prompt_tokens, planned.prompt),
            ("output_tokens", seen.output_tokens, planned.output),
        )
        if mean is not None
    ]
    if seen.cached_share is not None:
        apart = abs(seen.cached_share - planned.cached_share) > _LEAST_SHARE and not seen.is_idle
        verdict: Verdict = "other lengths" if apart else "as planned"
        share = (seen.cached_share, planned.cached_share, planned.cached_share)
        found.append(Judged("cached_share", "of prompt tokens", *share, None, None, None, None, verdict))
    return found


def lengths_seen(planned: Lengths, judged: list[Judged]) -> Lengths | None:
    """The lengths of the requests that came, where some differ from the planned ones; None where none does."""
    other = {one.metric: one.measured for one in judged if one.verdict == "other lengths"}
    if not other:
        return None
    return Lengths(
        prompt=other.get("prompt_tokens") or planned.prompt,
        output=other.get("output_tokens") or planned.output,
        cached_share=planned.cached_share if (share := other.get("cached_share")) is None else share,
    )


def judged_times(seen: Seen, load: Mean, expected: Expected, tolerance: float, earlier: Earlier | None) -> list[Judged]:
    """Times of requests beside those of the row at this load; beside those of another day where there are some."""
    found = []
    for metric in TIMES:
        mean: Mean | None = getattr(seen, metric)
        if mean is None:
            continue
        ratio, sd = _of_earlier(metric, load, expected, earlier)
        value = float(ratio * expected.seen.at(metric, load.value))
        slope = expected.seen.slope(metric, load.value)
        whole = math.hypot(mean.error, slope * load.error, sd)
        if seen.is_idle:
            whole = math.inf
        found.append(
            _judged(metric, "ms", mean, float(expected.stored.at(metric, load.value)), value, tolerance, sd=whole)
        )
    return found


def _of_earlier(metric: str, load: Mean, expected: Expected, earlier: Earlier | None) -> tuple[float, float]:
    """By how much rows were off on another day, and how far off they may be beyond that."""
    before = None if earlier is None else getattr(earlier.seen, metric)
    if earlier is None or before is None or earlier.seen.load is None:
        return 1.0, expected.sd.get(metric, math.inf)
    then, curve = earlier.seen.load, earlier.expected.seen
    moved = (
        math.log(load.value / then.value),
        math.log(expected.lengths.prompt / earlier.expected.lengths.prompt),
        math.log(expected.lengths.output / earlier.expected.lengths.output),
    )
    sd = math.hypot(before.error, curve.slope(metric, then.value) * then.error, _SHAPE * math.hypot(*moved))
    return before.value / curve.at(metric, then.value), sd


def _judged(  # noqa: PLR0917  what a row has
    metric: str,
    unit: str,
    mean: Mean,
    planned: float,
    expected: float,
    tolerance: float,
    *,
    sd: float,
    differs: Verdict | None = None,
) -> Judged:
    log, reach = math.log(mean.value / expected), SURE * sd
    least, most = (None if math.isinf(reach) else _percent(end) for end in (log - reach, log + reach))
    verdict: Verdict = "as planned"
    if abs(log) > math.log1p(tolerance):
        sure = abs(log) > reach
        verdict = (differs or ("slower" if log > 0 else "faster")) if sure else "unsure"
    return Judged(
        metric, unit, mean.value, planned, expected, _percent(log), least, most, 100.0 * mean.error, verdict
    )  # fmt: skip


def _percent(log: float) -> float:
    return 100.0 * math.expm1(log)


def said_of(judged: list[Judged], *, compared: bool) -> Iterator[str]:
    for one in judged:
        if one.measured is None or one.expected is None:
            continue
        if one.verdict == "other lengths":
            yield f"Other lengths than planned: {_LENGTHS_SAID[one.metric].format(one.measured, one.planned)}."
        if one.metric not in TIMES:
            continue
        what = f"{SHOWN[one.metric]} is {one.measured:.4g} ms, {one.expected:.4g} ms were expected"
        if one.verdict in {"slower", "faster"}:
            reach = f"{one.least_percent:+.0f} to {one.most_percent:+.0f} %"
            yield f"{one.verdict.capitalize()} by {abs(one.change_percent or 0):.0f} % ({reach}): {what}."
        if one.verdict == "unsure":
            why = "wait for more requests" if compared else "compare with a day when it was right: `baseline`"
            yield f"Not sure: {what} ({one.change_percent:+.0f} %), within what predictions are off; {why}."


class AtLimits(NamedTuple):
    """The largest load within limits on the mean times."""

    load: float
    requests_per_s: float
    breaks: str | None  # the limit that is missed beyond it; None where stored rows end first


def within_limits(curve: Curve, output: float, limits: Mapping[str, float]) -> AtLimits | None:
    most, breaks = float(curve.load[-1]), None
    for metric, limit in limits.items():
        crossing = _crossing(curve, metric, limit)
        if crossing is not None and crossing < most:
            most, breaks = crossing, metric
    if most < float(curve.load[0]):
        return None
    return AtLimits(most, requests_per_s(curve, most, output), breaks)


def _crossing(curve: Curve, metric: str, limit: float) -> float | None:
    """The first load from which a time is above a limit; below the first row where that misses it."""
    times = getattr(curve, metric)
    above = [place for place, time in enumerate(times) if time > limit]
    if not above:
        return None
    place = above[0]
    if place == 0:
        return -math.inf
    low, high = float(times[place - 1]), float(times[place])
    start, end = float(curve.load[place - 1]), float(curve.load[place])
    return start + (limit - low) / (high - low) * (end - start)


def requests_per_s(curve: Curve, load: float, output: float) -> float:
    """Requests that a load ends in a second: of many in flight each stays for its tokens (Little)."""
    if curve.by_rate:
        return load
    whole_ms = float(curve.at("ttft_ms", load) + max(output - 1.0, 0.0) * curve.at("tpot_ms", load))
    return 1000.0 * load / whole_ms
