"""The rate of requests of a day, minute by minute. Not here: logs of single requests (arrival_times)."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.inputs.yaml_file import read_text
from store.errors import InputError

MOST_MINUTES = 7 * 24 * 60
MOST_REQUESTS = 5_000_000
_LARGEST_BYTES = 1_000_000
_EXAMPLE = "columns `minute,rate`: 0,12.5 then 1,13, rates in requests a second"


def read_day_rates(path: Path) -> FloatArray:
    """Requests a second of each minute. Refuses minutes that go back or are missing, and a day without requests."""
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
    rates = np.asarray(found)
    if not 1 <= rates.sum() * 60 <= MOST_REQUESTS:
        raise InputError(f"{path}: {60 * rates.sum():,.0f} requests are not simulated: 1 to {MOST_REQUESTS:,} are")
    return rates


def requests_of_day(rates_per_s: FloatArray) -> int:
    """How many requests come in all minutes together."""
    return max(1, round(60 * float(rates_per_s.sum())))


def _rows(text: str, path: Path) -> Iterator[tuple[str, float, float]]:
    reader = csv.DictReader(text.splitlines())
    if not {"minute", "rate"} <= set(reader.fieldnames or ()):
        raise InputError(f"{path}: the columns `minute` and `rate` are not both there", hint=_EXAMPLE)
    for row in reader:
        where = f"{path}, line {reader.line_num}"
        try:
            yield where, float(row["minute"]), float(row["rate"])
        except (TypeError, ValueError):
            said = f"{row['minute']!r} and {row['rate']!r} are not a minute and a rate"
            raise InputError(f"{where}: {said}", hint=_EXAMPLE) from None
