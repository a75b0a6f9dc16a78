"""The named reports: every file of queries/reports. Not here: their headers (queries.asking.headers), running them."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from queries.asking.headers import Report, read_header
from queries.asking.macros import FILES, variables_of
from queries.asking.options import option_table
from store.errors import InputError

NEAREST = "nearest"  # the report that is asked where nothing satisfies the limits
FOLDER = Path(__file__).parents[1] / "reports"
# The view of a scope again, where limits are read with a confidence.
CONFIDENT = Path(__file__).parents[1] / "judging" / "confident.sql"


@cache
def shared_sql() -> str:
    """The SQL that every report is built on: rows of the question's scope, and pairs of them."""
    return "\n".join(path.read_text(encoding="utf-8") for path in FILES)


@cache
def reports() -> dict[str, Report]:
    """Every report by name."""
    read = {report.name: report for report in map(read_header, sorted(FOLDER.glob("*.sql")))}
    return {name: _with_columns(report, read) for name, report in read.items()}


def _with_columns(report: Report, known: Mapping[str, Report]) -> Report:
    """A report with the columns of the report that it is like; its own words on a column come first."""
    if report.columns_like is None:
        return report
    columns = {column.name: column for column in (*known[report.columns_like].columns, *report.columns)}
    return replace(report, columns=tuple(columns.values()))


def _nearest(nearest: Sequence[str], known: Collection[str]) -> str:
    return f"nearest: {', '.join(nearest)}" if nearest else f"known: {', '.join(sorted(known))}"


@cache
def variables_read(name: str) -> frozenset[str]:
    """The variables that a report reads, itself and through the macros that it is built on."""
    return variables_of(report(name).sql)


@cache
def variables_taken(name: str) -> frozenset[str]:
    """The variables of a report that a question may set."""
    left_out = {option_table()[keyword].option.variable for keyword in report(name).leaves_out}
    return variables_read(name) - left_out


def report(name: str) -> Report:
    """One report; an unknown name lists the nearest."""
    known = reports()
    if name not in known:
        asked = [item.name for item in known.values() if item.part_of is None]
        nearest = difflib.get_close_matches(name, asked, n=3, cutoff=0.3)
        raise InputError(f"unknown report {name!r}", hint=_nearest(nearest, asked))
    return known[name]


def asked_instead(name: str, given: Collection[str]) -> str:
    """The report that answers: one about loads or whole deployments, where an option that was given asks for it."""
    loaded, deployed = report(name).loaded, report(name).deployed
    if loaded is not None and loaded.when in given:
        return loaded.report
    if deployed is not None and set(deployed.when.split(", ")) & set(given):
        return deployed.report
    if "by" in given and not report(name).of_loads:
        takers = [one.name for one in reports().values() if one.loaded is not None and one.loaded.when == "by"]
        raise InputError(f"report {name} makes no use of `by`", hint=f"these do: {', '.join(takers)}")
    return name


def question_report(name: str) -> Report:
    """A report that can be asked for: parts of others cannot."""
    found = report(name)
    if found.part_of is not None:
        raise InputError(f"report {name} is part of another one", hint=f"ask {found.part_of}")
    return found
