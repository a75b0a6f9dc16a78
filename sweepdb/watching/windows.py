"""A server between two readings: load, lengths and times with chance errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, stdev

from store.schema import Phase
from sweepdb.watching.engines import Reading, average_of
from sweepdb.watching.prometheus import Histogram

FEWEST = 20  # requests, below which means say nothing
_STRETCHES = 10  # from which on their differences say more than the bounds of histograms
_MS = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """With its relative standard error."""

    value: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """Over a stretch, or since its start. None: not stated."""

    engine: str
    seconds: float | None
    finished: float
    load: Mean | None  # requests that are served, those that wait not among them; of a prefill server those of a second
    waiting: float | None
    requests_per_s: float | None
    prompt_tokens: Mean | None
    output_tokens: Mean | None
    cached_share: float | None  # of prompt tokens
    ttft_ms: Mean | None
    tpot_ms: Mean | None
    cache_use: float | None
    room_tokens: float | None

    @property
    def is_idle(self) -> bool:
        return self.finished < FEWEST


def seen_over(readings: Sequence[Reading], *, phase: Phase = "aggregated", drafts: bool = False) -> Seen:
    """Readings in order.

    Of a prefill server only prompts count; of a decode server only answers, since its TTFT includes prefill. With
    `drafts` a step yields several tokens, so gaps are no TPOT."""
    last = readings[-1]
    window = last if len(readings) == 1 else last.since(readings[0])
    seconds = None if len(readings) == 1 else last.at - readings[0].at
    finished = _finished(window)
    load = _rate(seconds, finished) if phase == "prefill" else _in_flight(readings, window, seconds, finished, phase)
    return Seen(
        engine=last.engine,
        seconds=seconds,
        finished=finished,
        load=load,
        waiting=average_of(readings, "waiting"),
        requests_per_s=finished / seconds if seconds else None,
        prompt_tokens=_length(window.prompts, window.prompt_tokens, finished),
        output_tokens=None if phase == "prefill" else _length(window.outputs, window.output_tokens, finished),
        cached_share=None if phase == "decode" else _share(window.cached_tokens, window.looked_up_tokens),
        ttft_ms=None if phase == "decode" else _over_time(readings, lambda one: _mean_of(one.ttft)),
        tpot_ms=None if phase == "prefill"
        else _over_time(readings, lambda one: _tpot(one, _finished(one), drafts=drafts)),
        cache_use=average_of(readings, "cache_use"),
        room_tokens=last.room_tokens,
    )  # fmt: skip


def _finished(window: Reading) -> float:
    ended = window.e2e.count if window.e2e is not None else window.finished
    if ended is None:
        ended = window.ttft.count if window.ttft is not None else 0.0
    return ended


def _mean_of(values: Histogram | None, count: float | None = None) -> Mean | None:
    """`count` independent values, where counted ones correlate."""
    if values is None or values.count <= 0 or values.total <= 0:
        return None
    return Mean(value=values.mean, error=values.spread() / math.sqrt(max(count or values.count, 1.0)))


def _over_time(readings: Sequence[Reading], mean_of: Callable[[Reading], Mean | None]) -> Mean | None:
    """In ms; many stretches give the error by their differences."""
    first, last = readings[0], readings[-1]
    mean = mean_of(last if len(readings) == 1 else last.since(first))
    if mean is None:
        return None
    parts = [part.value for before, after in pairwise(readings) if (part := mean_of(after.since(before))) is not None]
    error = mean.error if len(parts) < _STRETCHES else stdev(parts) / fmean(parts) / math.sqrt(len(parts))
    return Mean(value=_MS * mean.value, error=error)


def _rate(seconds: float | None, finished: float) -> Mean | None:
    return Mean(value=finished / seconds, error=1.0 / math.sqrt(finished)) if seconds and finished else None


def _in_flight(
    readings: Sequence[Reading], window: Reading, seconds: float | None, finished: float, phase: Phase
) -> Mean | None:
    """Served at once; of a decode server from first tokens on.

    Time spent over time passed (Little, 1961), since gauges are moments. Worked: 120 requests of 5 s, 1 s of it
    queued, in 60 s: 120 x 4 / 60 = 8. Only requests across an end are wrong: as many as in flight, and half of both
    ends' difference. Worked: 9 at once and 300 ended: 3 / 300 = 1 %."""
    if seconds and window.e2e is not None and finished >= FEWEST:
        before = window.ttft if phase == "decode" else window.queued
        mean = (window.e2e.total - (0.0 if before is None else before.total)) / seconds
        ends = [one.running for one in (readings[0], readings[-1]) if one.running is not None]
        moved = ends[-1] - ends[0] if ends else 0.0
        return Mean(value=mean, error=math.hypot(math.sqrt(mean), moved / 2.0) / finished) if mean > 0 else None
    running = average_of(readings, "running")
    if running is None or running <= 0:
        return None
    return Mean(value=running, error=1.0 / math.sqrt(running * len(readings)))


def _length(values: Histogram | None, tokens: float | None, finished: float) -> Mean | None:
    """Counters say no spread; 1 is assumed."""
    if (mean := _mean_of(values)) is not None:
        return mean
    if not tokens or not finished:
        return None
    return Mean(value=tokens / finished, error=1.0 / math.sqrt(finished))


def _tpot(window: Reading, finished: float, *, drafts: bool) -> Mean | None:
    """Seconds after the first token: by requests, gaps, or whole times."""
    if (mean := _mean_of(window.request_tpot)) is not None:
        return mean
    if not drafts and (mean := _mean_of(window.token_gaps, finished)) is not None:
        return mean
    length = _length(window.outputs, window.output_tokens, finished)
    if window.e2e is None or window.ttft is None or length is None or finished <= 0 or length.value <= 1.0:
        return None
    after = window.e2e.mean - window.ttft.mean
    error = window.e2e.spread() / math.sqrt(finished)
    return Mean(value=after / (length.value - 1.0), error=error) if after > 0 else None


def _share(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
