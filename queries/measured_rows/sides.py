"""Measured runs by a user's name: tag, engine version, or days."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import date
from typing import Protocol, TypeVar

from store.errors import InputError

_DAYS = re.compile(r"(?P<first>\d{4}-\d\d-\d\d)?(?P<many>\.\.)?(?P<last>\d{4}-\d\d-\d\d)?")
_MOST_NAMED = 12


class SidedRun(Protocol):
    @property
    def key(self) -> str: ...

    @property
    def version(self) -> str:
        """Empty where not stated."""

    @property
    def tags(self) -> frozenset[str]: ...

    @property
    def day(self) -> date | None: ...


_Run = TypeVar("_Run", bound=SidedRun)


def side_of(runs: Iterable[_Run], name: str, option: str | None = None) -> dict[str, _Run]:
    """By key: a tag before a version before days. `option` is its keyword."""
    runs, told = list(runs), name if option is None else f"`{option}={name}`"
    tests = (
        lambda run: name in run.tags,
        lambda run: name == run.version,
        lambda run: run.day is not None and _holds(name, run.day, told),
    )
    for is_of in tests:
        found = {run.key: run for run in runs if is_of(run)}
        if found:
            return found
    known = sorted({tag for run in runs for tag in run.tags}) + sorted({run.version for run in runs} - {""})
    days = sorted({run.day for run in runs if run.day is not None})
    span = f"days from {days[0]} to {days[-1]}" if days else "no days"
    said = ", ".join(known[:_MOST_NAMED]) + (", ..." if len(known) > _MOST_NAMED else "")
    raise InputError(f"{told} is no run's tag, version or day", hint=f"stored: {said or 'no tags'}; {span}")


def _holds(name: str, day: date, told: str) -> bool:
    """2026-05-01, 2026-05-01.., ..2026-05-31 or both ends."""
    match = _DAYS.fullmatch(name)
    if match is None or not (match["first"] or match["last"]):
        return False
    try:
        first, last = (date.fromisoformat(match[end]) if match[end] else None for end in ("first", "last"))
    except ValueError as error:
        raise InputError(f"{told} names no day of the calendar", hint="days are written 2026-05-01") from error
    if match["many"] is None:
        return day == (first or last)
    if first is not None and last is not None and last < first:
        raise InputError(f"{told} ends before it begins", hint=f"write {last}..{first}")
    return (first is None or first <= day) and (last is None or day <= last)
