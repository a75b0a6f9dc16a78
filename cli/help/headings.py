"""The heading of each option in help."""

from __future__ import annotations

import csv
from collections.abc import Collection, Mapping
from pathlib import Path

from sweepdb.asking import PARTS, declared
from sweepdb.evaluating import options_by_keyword
from sweepdb.planning import HEADINGS_OF_ASKED, PlanOptions

OTHERS = "Options"
_PARTS = {
    "scope": "Which stored rows",
    "limits": "Limits",
    "definitions": "Definitions, where sources disagree",
    "pairs": "Devices, and prefill and decode instances",
    "options": "What the report shows",
}
# `shared` options are of all commands, `commands` of evaluations have theirs; `few` is what `--help` shows of commands
# with many options, among them those `asked` of questions, and `--help-all` shows the rest, too.
_LISTS: dict[str, dict[str, tuple[str, ...]]] = {}
with Path(__file__).with_suffix(".csv").open(encoding="utf-8", newline="") as _file:
    for _line in csv.DictReader(_file):
        _LISTS.setdefault(_line["list"], {})[_line["name"]] = tuple(_line["options"].split())
_ASKED = _LISTS["few"].pop("asked")
FEW: Mapping[str, frozenset[str]] = {
    command: frozenset(options + _ASKED if "asked" in options else options) - {"asked"}
    for command, options in _LISTS["few"].items()
}


def _turned(listed: str) -> Mapping[str, str]:
    return {name: heading for heading, names in _LISTS[listed].items() for name in names}


def _of_questions() -> Mapping[str, str]:
    found = {item.keyword: _PARTS[part] for part, kind in PARTS.items() for item in declared(kind)}
    return {**found, "preset": _PARTS["definitions"], "report": OTHERS, "names": OTHERS}


def _of_evaluations() -> Mapping[str, str]:
    stated = {keyword: item.option.heading for keyword, item in options_by_keyword().items()}
    return {**stated, **_turned("commands"), **_turned("shared")}


def _of_plans() -> Mapping[str, str]:
    limits = {item.keyword: _PARTS["limits"] for item in declared(PARTS["limits"])}
    own = {item.keyword: item.option.heading for item in declared(PlanOptions)}
    return {**_of_evaluations(), **own, **HEADINGS_OF_ASKED, **limits}


HEADINGS: Mapping[str, Mapping[str, str]] = {
    "query": {**_of_questions(), **_turned("shared")},
    "report": {**_of_questions(), **_turned("shared")},
    "evaluate": _of_evaluations(),
    "plan": _of_plans(),
    "export": {**_of_questions(), **_turned("shared"), **_turned("export")},
    "decide": {**_of_plans(), **_turned("decide")},
}


# What comes first where a command has it; the rest follows in the order of its options.
_FIRST = ("What is served", *(_PARTS[part] for part in ("limits", "options", "pairs", "scope", "definitions")))


def in_order(found: Collection[str]) -> list[str]:
    first = [one for one in ("Arguments", *_FIRST) if one in found]
    last = [one for one in (OTHERS,) if one in found and len(found) > 1]
    return [*first, *(one for one in found if one not in first and one not in last), *last]


def heading_of(command: str, parameter: str) -> str:
    return HEADINGS.get(command, _turned("shared")).get(parameter, OTHERS)
