"""Help of one report, from its header and SQL."""

from __future__ import annotations

from collections.abc import Sequence

from sweepdb import asking
from sweepdb.asking import OLD_NAMES, asked_reports, keywords_of, option_table, report

STORELESS = {
    "bandwidth": "when fetching a prefix beats computing it: the least bandwidth, a closed form over no store",
    "conforming": "the share of the requests of measured logs (FILE...) that met limits, read from the files",
}
OTHERS = {**STORELESS, "regress": "what got worse between measured runs, versions, days or sweeps, and on which day"}

_FEW = 3  # reports that take an option: so few are named beside it
_VALUES = {"vary": "tpot", "mix": "chat=0.6 --mix code=0.4", "rate": "5", "num_devices": "16"}
_NAMES = {"probes": " a1b2c3d4:175 e5f6a7b8:40", "sweeps": " 6903164904d0 0ed0f32ae614"}


def report_names() -> Sequence[str]:
    return sorted([*(item.name for item in asked_reports().values()), *OTHERS])


def named_report(words: Sequence[str]) -> asking.Report | None:
    known = {item.name: item for item in asked_reports().values()}
    return next((known[now] for word in words if (now := OLD_NAMES.get(word, word)) in known), None)


def taken(asked: asking.Report, parameter: str) -> bool:
    """Options about every answer stay."""
    if parameter == "names":
        return asked.names is not None
    if parameter == "report":
        return False
    return parameter not in option_table() or parameter in {one.name for one in keywords_of(asked)}


def few_takers() -> dict[str, str]:
    takers: dict[str, list[str]] = {}
    for item in asked_reports().values():
        for one in keywords_of(item):
            takers.setdefault(one.name, []).append(item.name)
    return {name: ", ".join(found) for name, found in takers.items() if len(found) <= _FEW}


def columns_of(asked: asking.Report) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    told: set[tuple[str, str]] = set()
    for form in (asked, *(report(other.report) for other in asked.others)):
        shown = {one.name for columns in form.shows.values() for one in columns}
        rows = [(one.name, one.meaning) for one in form.columns if one.name in shown]
        if rows := [one for one in rows if one not in told]:
            found[f"Columns of {form.name}"] = rows
            told.update(rows)
    return found


def report_examples(asked: asking.Report) -> Sequence[str]:
    compared = "" if asked.names is None else _NAMES[asked.names.options[0]]
    required = "".join(
        f" --{option.replace('_', '-')} {_VALUES[option]}"
        for one in asked.requires
        for option in one.options
        if option in _VALUES
    )
    first = f"query {asked.name}{compared}{required}"
    return first, f"{first} --format json"
