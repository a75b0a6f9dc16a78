"""The named reports: every file of queries/reports. Not here: their headers (queries.asking.headers), running them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from queries.asking.headers import Report, read_header
from queries.asking.macros import macros_of, names_in, variables_of
from queries.asking.options import option_table
from store.errors import InputError

NEAREST = "nearest"  # the report that is asked where nothing satisfies the limits
_LONGEST = 100  # letters of a name
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
FOLDER = Path(__file__).parents[1] / "reports"
# The view of a scope again, where limits are read with a confidence.
CONFIDENT = Path(__file__).parents[1] / "judging" / "confident.sql"


@cache
def reports() -> dict[str, Report]:
    """Every report by name."""
    read = (_complete(path) for path in sorted(FOLDER.glob("*.sql")))
    return {report.name: report for report in read}


@cache
def _header(path: Path) -> Report:
    return read_header(path)


@cache
def _complete(path: Path) -> Report:
    """A report with the columns of the report that it is like; its own words on a column come first."""
    report = _header(path)
    if report.columns_like is None:
        return report
    like = _header(_path_of(report.columns_like))
    columns = {column.name: column for column in (*like.columns, *report.columns)}
    return replace(report, columns=tuple(columns.values()))


def _path_of(name: str) -> Path:
    return FOLDER / f"{name.replace('-', '_')}.sql"


def _nearest(nearest: Sequence[str], known: Collection[str]) -> str:
    return f"nearest: {', '.join(nearest)}" if nearest else f"known: {', '.join(sorted(known))}"


@cache
def variables_read(name: str) -> frozenset[str]:
    """The variables that a report reads, itself and through the macros that it is built on."""
    return variables_of(report(name).sql)


@cache
def names_below(name: str) -> frozenset[str]:
    """Names that a report and the macros below it select from or call, public views among them."""
    asked = report(name)
    return asked.public_names.union(*(names_in(macro.sql) for macro in macros_of(asked.sql)))


@cache
def variables_taken(name: str) -> frozenset[str]:
    """The variables of a report that a question may set."""
    left_out = {option_table()[keyword].option.variable for keyword in report(name).leaves_out}
    return variables_read(name) - left_out


@cache  # a question asks for the same ones a dozen times
def report(name: str) -> Report:
    """One report, without reading the others; an unknown name lists the nearest."""
    if len(name) <= _LONGEST and _NAME.fullmatch(name) and _path_of(name).is_file():
        found = _complete(_path_of(name))
        if found.name == name:
            return found
    name = name[:_LONGEST]
    asked = [item.name for item in reports().values() if item.part_of is None]
    nearest = difflib.get_close_matches(name, asked, n=3, cutoff=0.3)
    raise InputError(f"unknown report {name!r}", hint=_nearest(nearest, asked))


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


def all_variables_taken(asked: Report) -> frozenset[str]:
    """Variables of the SQL that answers, and of reports that are asked on the way or in its place."""
    others = [one.report for one in asked.variants]
    others += [name for name in (asked.best_of, asked.answered_by and asked.answered_by.report) if name]
    return variables_taken(asked.name).union(*map(variables_taken, others))


def answering_for(asked: Report, values: Mapping[str, object]) -> tuple[Report, str]:
    """The report whose SQL answers, and the name it answers under."""
    other = asked.answered_by
    if other is not None and values[other.when]:
        return report(other.report), asked.name
    chosen = next((report(one.report) for one in asked.variants if values[one.when] not in {None, False}), asked)
    return chosen, chosen.name
