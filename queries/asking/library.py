"""The named reports: every file of queries/reports. Not here: their headers (queries.asking.headers), running them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from queries.asking.headers import Report, read_header
from store.errors import InputError

FOLDER = Path(__file__).parents[1] / "reports"
CONFIDENT = (
    Path(__file__).parents[1] / "errors" / "confident.sql"
)  # its first view again, where limits are read with a confidence
SHARED = tuple(Path(__file__).parents[1] / name for name in ("scoped.sql", "paired.sql", "deployed.sql"))


@cache
def shared_sql() -> str:
    """The SQL that every report is built on: rows of the question's scope, and pairs of them."""
    return "\n".join(path.read_text(encoding="utf-8") for path in SHARED)


@cache
def reports() -> dict[str, Report]:
    """Every report by name."""
    return {report.name: report for report in map(read_header, sorted(FOLDER.glob("*.sql")))}


def _nearest(nearest: Sequence[str], known: Collection[str]) -> str:
    return f"nearest: {', '.join(nearest)}" if nearest else f"known: {', '.join(sorted(known))}"


def report(name: str) -> Report:
    """One report; an unknown name lists the nearest."""
    known = reports()
    if name not in known:
        nearest = difflib.get_close_matches(name, known, n=3, cutoff=0.3)
        raise InputError(f"unknown report {name!r}", hint=_nearest(nearest, known))
    return known[name]


def question_report(name: str) -> Report:
    """A report that can be asked for: parts of others cannot."""
    found = report(name)
    if found.part_of is not None:
        raise InputError(f"report {name} is part of another one", hint=f"ask {found.part_of}")
    return found
