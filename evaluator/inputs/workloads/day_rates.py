"""A day of requests: its rate minute by minute, or a log of them. Not here: reading a log (arrival_times)."""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.inputs.workloads.arrival_times import TracedArrivals, read_arrivals
from evaluator.inputs.workloads.traces import lines_of
from evaluator.inputs.yaml_file import read_text
from store.errors import InputError

MOST_MINUTES = 7 * 24 * 60
MOST_REQUESTS = 5_000_000
_LARGEST_BYTES = 1_000_000
_MILLISECONDS = "where its times are in milliseconds: `trace_unit=ms`"
_EXAMPLE = "columns `minute,rate`: 0,12.5 then 1,13, rates in requests a second"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Day:
    """Requests a second of each minute; the requests themselves where there is a log, in seconds from its first."""

    rates_per_s: FloatArray
    log: TracedArrivals | None = None

    @property
    def requests(self) -> int:
        """How many come in all minutes together."""
        return max(1, round(60 * float(self.rates_per_s.sum())))


def read_day(path: Path, *, log_seconds: float = 1.0) -> Day:
    """Columns `minute` and `rate`, or a log whose times count `log_seconds` each.

    Refuses what goes back in time, minutes that are missing, and a day without requests."""
    columns = {name.strip() for name in next(lines_of(path, hashlib.sha256()), "").split(",")}
    if {"minute", "rate"} <= columns:
        return Day(rates_per_s=_rates(path))
    if {"minute", "rate"} & columns:
        raise InputError(f"{path}: the columns `minute` and `rate` are not both there", hint=_EXAMPLE)
    log = read_arrivals(path, most=MOST_REQUESTS + 1)
    times = log_seconds * (log.times - log.times[0])
    if times[-1] >= 60 * MOST_MINUTES:
        raise InputError(f"{path}: {times[-1] / 86_400:,.1f} days are more than a week", hint=_MILLISECONDS)
    rates = np.bincount((times // 60).astype(np.int64)) / 60
    return Day(rates_per_s=_simulated(rates, path), log=replace(log, times=times))


def _simulated(rates: FloatArray, path: Path) -> FloatArray:
    if not 1 <= rates.sum() * 60 <= MOST_REQUESTS:
        raise InputError(f"{path}: {60 * rates.sum():,.0f} requests are not simulated: 1 to {MOST_REQUESTS:,} are")
    return rates


def _rates(path: Path) -> FloatArray:
    text = read_text(path, largest_bytes=_LARGEST_BYTES, what="a day of rates", hint=_EXAMPLE)
    found: list[float] = []
    for where, minute, rate in _rows(text, path):
        if minute < len(found):
            raise InputError(f"{where}: minute {minute:g} goes back, or stands twice", hint=_EXAMPLE)
        if minute != len(found):
            raise InputError(
                f"{where}: minute {len(found)} is missing before {minute:g}", hint="write 0 where none came"
            )
        if not 0 <= rate < math.inf:
            raise InputError(f"{where}: the rate must be at least 0 requests a second, not {rate:g}")
        found.append(rate)
    if len(found) > MOST_MINUTES:
        raise InputError(f"{path}: {len(found):,} minutes are more than a week", hint=f"at most {MOST_MINUTES:,}")
    return _simulated(np.asarray(found), path)


def _rows(text: str, path: Path) -> Iterator[tuple[str, float, float]]:
    reader = csv.DictReader(text.splitlines())
    for row in reader:
        where = f"{path}, line {reader.line_num}"
        try:
            yield where, float(row["minute"]), float(row["rate"])
        except (TypeError, ValueError):
            said = f"{row['minute']!r} and {row['rate']!r} are not a minute and a rate"
            raise InputError(f"{where}: {said}", hint=_EXAMPLE) from None
