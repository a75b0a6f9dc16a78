"""Statements with the tables that they call written out in place of each call.

DuckDB plans a macro when it is created, and once more where it is called: for a new process, creating took as long as
answering."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

from queries.asking.macros import (
    JUDGED,
    SCOPED,
    SERVED,
    Macro,
    macros,
    macros_of,
    read_macros,
    read_sql,
    scoped_view,
    without_comments,
)

_FOLDER = Path(__file__).parent
_DEFINITION = re.compile(
    r"CREATE OR REPLACE TEMP (?:VIEW \w+ AS|MACRO \w+\((?P<parameters>[^)]*)\) AS TABLE)\s+(?P<body>.*);\s*$", re.DOTALL
)
_PLACES = re.compile(r"'[^']*'|[()\[\]{},]")
_NAMED_ARGUMENT = re.compile(r"\s*(\w+)\s*:=(.*)", re.DOTALL)
_FRONTIER = "frontier_of(device)"
_SIMPLE = re.compile(r"'[^']*'|[\w.]+|getvariable\('\w+'\)")
_ALIAS = re.compile(r"\s+AS\b")


class Look(NamedTuple):
    """The rows that relations of a scope show."""

    of_loads: bool = False  # points are loads rather than probes
    served: bool = True  # engines serve some of the scope
    measured: bool = False  # measured settings are among the rows
    narrow: bool = False  # judged rows come from a narrow table
    confident: bool = False  # limits are compared with bounds of measured values, by the table `factors`


class _Table(NamedTuple):
    body: str
    parameters: Mapping[str, str]  # with what each is by default


@cache
def _macros(look: Look) -> Mapping[str, Macro]:
    """Macros by name, as they are where rows are of such a kind."""
    known = dict(macros(of_loads=look.of_loads))
    if not look.served:
        known |= read_macros((_FOLDER / "unserved.sql").read_text(encoding="utf-8"))
    if look.measured:
        known = {name: _of_both(macro) for name, macro in known.items()}
        known |= {f"predicted_{name}": known[name] for name in SERVED}  # that measured ones stand in place of
        known |= read_macros((_FOLDER / "measured_pairs.sql").read_text(encoding="utf-8"))
    return known


def _of_both(macro: Macro) -> Macro:
    """A macro where measured settings are among the rows: these have a frontier of their own, beside the predicted."""
    if macro.name != "unbeaten_points":
        return macro
    beside = f"concat({_FRONTIER}, CASE WHEN NOT contains(point, ':') THEN ', measured' END)"
    return replace(macro, text=macro.text.replace(f"{_FRONTIER} AS", f"{beside} AS", 1))


@cache
def _judged_measured() -> str:
    """The view of judged rows. A server that ran had memory enough: what is not known counts as none left."""
    text = macros()[JUDGED].sql
    before, _, select = text.partition(f"VIEW {JUDGED} AS\n")
    return (
        f"{before}VIEW {JUDGED} AS\nSELECT * REPLACE (CASE WHEN scenario_id < 0 THEN 0 ELSE memory_free_bytes END"
        f" AS memory_free_bytes) FROM (\n{select.rstrip().rstrip(';')}\n);"
    )


def _text(name: str, look: Look) -> str:
    """The statement that would create a macro or a view."""
    if name == SCOPED:
        return scoped_view(confident=look.confident)
    if name == JUDGED and look.narrow:
        return read_sql(_FOLDER / "judged.sql", confident=look.confident)
    if name == JUDGED and look.measured:
        return _judged_measured()
    return _macros(look)[name].sql


@cache
def _table(name: str, look: Look) -> _Table:
    found = _DEFINITION.search(without_comments(_text(name, look)))
    if found is None:
        raise ValueError(f"{name} is no table")
    named = (one.partition(":=") for one in (found["parameters"] or "").split(",") if one.strip())
    return _Table(found["body"], {name.strip(): default.strip() for name, _, default in named})


@cache
def _called(look: Look) -> re.Pattern[str]:
    """Calls of tables, and views that are selected from."""
    names = "|".join(name for name, macro in _macros(look).items() if macro.is_table)
    return re.compile(rf"'[^']*'|\b({names})\s*\(|\b(?:FROM|JOIN)\s+({SCOPED}|{JUDGED})\b(?!\s*\()")


@lru_cache(maxsize=512)  # of the same texts at every question
def written_out(sql: str, look: Look) -> str:
    """A statement in which every table that it calls is a subquery."""
    return "".join(_pieces(without_comments(sql), look))


@lru_cache(maxsize=512)
def functions_of(written: str, *, of_loads: bool) -> list[Macro]:
    """Macros of values that a statement calls after its tables were written out, each after those it calls."""
    return [one for one in macros_of(written, of_loads=of_loads) if not (one.is_table or one.name in {SCOPED, JUDGED})]


def _pieces(text: str, look: Look) -> Iterator[str]:
    end = 0
    while (found := _called(look).search(text, end)) is not None:
        name = found[1] or found[2]
        if not name:
            yield text[end : found.end()]
            end = found.end()
            continue
        table = _table(name, look)
        given, after = _arguments(text, found.end()) if found[1] else ({}, found.end())
        yield text[end : found.start(1 if found[1] else 2)]
        yield f"({''.join(_pieces(_substituted(table, given), look))})"
        yield "" if _ALIAS.match(text, after) else f" AS {name}"
        end = after
    yield text[end:]


def _arguments(text: str, start: int) -> tuple[Mapping[int | str, str], int]:
    """The arguments of a call, whose first begins at `start`, by place or by name; and where the call ends."""
    given: dict[int | str, str] = {}
    depth = 0
    for place in _PLACES.finditer(text, start):
        sign = place[0]
        if sign in "([{":
            depth += 1
        elif sign in ")]}" and depth:
            depth -= 1
        elif sign in ",)" and not depth:
            argument = text[start : place.start()]
            if named := _NAMED_ARGUMENT.match(argument):
                given[named[1]] = named[2].strip()
            elif argument.strip():
                given[len(given)] = argument.strip()
            if sign == ")":
                return given, place.end()
            start = place.end()
    raise ValueError(f"a call without an end: {text[start - 100 : start]}")


def _substituted(table: _Table, given: Mapping[int | str, str]) -> str:
    """The text of a table with arguments in place of parameters."""
    if not table.parameters:
        return table.body
    values = {
        name: given.get(place, given.get(name, default))
        for place, (name, default) in enumerate(table.parameters.items())
    }
    values = {name: value if _is_whole(value) else f"({value})" for name, value in values.items()}
    read = re.compile(rf"'[^']*'|(?<![\w.])({'|'.join(values)})\b(?!\s*:=)")
    return read.sub(lambda one: values[one[1]] if one[1] else one[0], table.body)


def _is_whole(value: str) -> bool:
    """Whether a value needs no brackets beside an operator."""
    return _SIMPLE.fullmatch(value) is not None or (value[0] == "(" and _arguments(value, 1)[1] == len(value))
