"""A day's request rate by minute, with length bins or a log."""

from __future__ import annotations

import csv
import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.inputs.workloads.arrival_times import LARGEST_PROMPT, TracedArrivals, read_arrivals
from evaluator.inputs.workloads.traces import lines_of, whole_tokens
from evaluator.inputs.yaml_file import read_text, shortened
from store.errors import InputError

MOST_MINUTES = 7 * 24 * 60
MOST_REQUESTS = 5_000_000
_LARGEST_BYTES = 8_000_000
_LENGTHS = ("input_length", "output_length")
_MILLISECONDS = "where its times are in milliseconds: `trace_unit=ms`"
_EXAMPLE = "columns `minute,rate`: 0,12.5 then 1,13, rates in requests a second"
_BINS = "columns `minute,rate,input_length,output_length`, a line for each bin of lengths: 0,9,500,60 then 0,1,8000,60"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LengthBins:
    """Rates of one length, by minute."""

    minute: Integers
    rate_per_s: FloatArray
    input_length: Integers
    output_length: Integers
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Day:
    """A log's times are seconds from its first."""

    rates_per_s: FloatArray
    log: TracedArrivals | None = None
    bins: LengthBins | None = None

    @property
    def requests(self) -> int:
        return max(1, round(60 * float(self.rates_per_s.sum())))


def read_day(path: Path, *, log_seconds: float = 1.0) -> Day:
    """Columns `minute` and `rate`, or a log in units of `log_seconds`.

    Refuses falling times, missing minutes, and a day without requests."""
    columns = {name.strip() for name in next(lines_of(path, hashlib.sha256()), "").split(",")}
    if {"minute", "rate"} <= columns:
        return _rated(path, columns)
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


def _rated(path: Path, columns: set[str]) -> Day:
    text = read_text(path, largest_bytes=_LARGEST_BYTES, what="a day of rates", hint=_EXAMPLE)
    known = tuple(name for name in _LENGTHS if name in columns)
    if len(known) == 1:
        raise InputError(f"{path}: `{known[0]}` stands there without the other length", hint=_BINS)
    last, rows = -1, list[tuple[int, float, int, int]]()
    for where, minute, rate, lengths in _rows(text, path, known):
        if minute != last + 1 and not (known and minute == last):
            raise _out_of_order(where, minute, last)
        if not 0 <= rate < math.inf:
            raise InputError(f"{where}: the rate must be at least 0 requests a second, not {rate:g}")
        last = int(minute)
        rows.append((last, rate, *lengths))
    if last >= MOST_MINUTES:
        raise InputError(f"{path}: {last + 1:,} minutes are more than a week", hint=f"at most {MOST_MINUTES:,}")
    return _day_of(rows, path, hashlib.sha256(text.encode()).hexdigest() if known else None)


def _day_of(rows: Sequence[tuple[int, float, int, int]], path: Path, sha256: str | None) -> Day:
    minutes, inputs, outputs = (np.asarray([row[place] for row in rows], dtype=np.int64) for place in (0, 2, 3))
    rates = np.asarray([row[1] for row in rows], dtype=np.float64)
    bins = None
    if sha256 is not None:
        bins = LengthBins(minute=minutes, rate_per_s=rates, input_length=inputs, output_length=outputs, sha256=sha256)
    return Day(rates_per_s=_simulated(np.bincount(minutes, weights=rates).astype(np.float64), path), bins=bins)


def _out_of_order(where: str, minute: float, last: int) -> InputError:
    if minute <= last:
        return InputError(f"{where}: minute {minute:g} goes back, or stands twice", hint=_EXAMPLE)
    return InputError(f"{where}: minute {last + 1} is missing before {minute:g}", hint="write 0 where none came")


def _rows(text: str, path: Path, lengths: tuple[str, ...]) -> Iterator[tuple[str, float, float, tuple[int, int]]]:
    reader = csv.DictReader(text.splitlines(), skipinitialspace=True)
    for row in reader:
        where = f"{path}, line {reader.line_num}"
        try:
            minute, rate = float(row["minute"]), float(row["rate"])
        except (TypeError, ValueError):
            said = f"{shortened(row['minute'])} and {shortened(row['rate'])} are not a minute and a rate"
            raise InputError(f"{where}: {said}", hint=_EXAMPLE) from None
        tokens = [whole_tokens(row[name], where) for name in lengths] or [1, 1]
        if min(tokens) < 1 or tokens[0] > LARGEST_PROMPT:
            said = f"lengths of {tokens[0]:,} and {tokens[1]:,} tokens are not simulated"
            raise InputError(f"{where}: {said}", hint=f"1 to {LARGEST_PROMPT:,} and 1 on")
        yield where, minute, rate, (tokens[0], tokens[1])
