"""Macros of reports, with what each calls and which variables it reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path

from queries.asking.limit_sql import with_limits
from queries.asking.variables import read_in
from store.light_dataclass import dataclass
from store.schema import FORMULA_MODELS, filled

_FOLDER = Path(__file__).parents[1]
FILES = tuple(
    _FOLDER / f"{name}.sql"
    for name in (
        "scoped",
        "waits",
        "counts",
        "paired",
        "ranked",
        "deployed",
        "loaded",
        "looked_up",
        "paired_loads",
        "joined_loads",
        "changed",
        "points",
    )
)
_KINDS = {of_loads: _FOLDER / "points" / f"{name}.sql" for of_loads, name in ((False, "probes"), (True, "loads"))}
# What the program declares and SQL asks.
_DECLARED = f"""-- Whether a serving model is a formula; every other one is an engine.
CREATE OR REPLACE TEMP MACRO is_formula(serving_model) AS
    serving_model IN ({", ".join(f"'{name}'" for name in FORMULA_MODELS)});
"""
SCOPED = "scoped"  # the view that all of them select from: the probes of a question's scope
# What a session has over the store or over memory (queries/narrow): the probes of a question's scope, what limits and
# ranks read of these, and what engines make of them.
SCOPED, JUDGED = "scoped", "judged_rows"
SERVED = frozenset({"engine_pairs", "engine_frontier", "engine_enough", "engine_deployments"})
_CREATED, _APART = "CREATE OR REPLACE TEMP ", "\n\n"
_COMMENT = re.compile(r"--[^\n]*")
_NAMED = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)|\b(\w+)\s*\(", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Macro:
    """A macro or view with its comment, or the view `scoped`."""

    name: str
    text: str  # with names that stand for what is declared of columns and limits
    beside: frozenset[str]  # every macro of its text

    @property
    def sql(self) -> str:
        return _filled_in(self.text)

    @property
    def calls(self) -> frozenset[str]:
        """A question looks at a fifth of all."""
        return (self.beside & names_in(self.sql)) - {self.name}

    @property
    def is_table(self) -> bool:
        return ") AS TABLE" in self.text


@cache  # a question needs the twentieth part of all text
def _filled_in(text: str) -> str:
    return with_limits(filled(text))


def read_sql(path: Path, *, confident: bool = False) -> str:
    """Columns and limits are filled in."""
    return with_limits(filled(path.read_text(encoding="utf-8")), confident=confident)


@cache
def scoped_view(*, confident: bool) -> str:
    """Limits are compared with predictions or, `confident`, with bounds of measured values."""
    text = macros(of_loads=False)[SCOPED].text
    return with_limits(filled(text), confident=confident)


@cache
def shared_text(*, of_loads: bool = False) -> str:
    """SQL under reports of probes, or of loads.

    Macros of points are named alike (queries/points)."""
    *before, points = FILES
    paths = (*before, _KINDS[of_loads], points)
    return "\n".join((_DECLARED, *(path.read_text(encoding="utf-8") for path in paths)))


@cache
def macros(*, of_loads: bool = False) -> Mapping[str, Macro]:
    """Each after those that it calls."""
    return read_macros(shared_text(of_loads=of_loads))


def read_macros(text: str) -> dict[str, Macro]:
    found = {}
    for statement in text.split(";\n"):
        above, created, rest = statement.partition(_CREATED)
        if created:
            name = rest.split(maxsplit=2)[1].partition("(")[0]
            found[name] = f"{above.rpartition(_APART)[2].lstrip()}{created}{rest};"
    names = frozenset(found)
    return {name: Macro(name=name, text=statement, beside=names) for name, statement in found.items()}


@lru_cache(maxsize=512)  # of the same texts at every question
def names_in(sql: str) -> frozenset[str]:
    return frozenset(table or function for table, function in _NAMED.findall(without_comments(sql)))


def without_comments(sql: str) -> str:
    return _COMMENT.sub("", sql)


def macros_of(sql: str, *, of_loads: bool = False, closed: frozenset[str] = frozenset()) -> list[Macro]:
    """Directly or through others, in order of creation; calls of `closed` ones are left out."""
    known = macros(of_loads=of_loads)
    wanted: set[str] = set()
    pending = set(names_in(sql) & known.keys())
    while pending:
        wanted |= pending
        pending = {name for one in pending - closed for name in known[one].calls} - wanted
    return [macro for name, macro in known.items() if name in wanted]


def variables_of(sql: str, *, of_loads: bool = False) -> frozenset[str]:
    texts = (sql, *(macro.sql for macro in macros_of(sql, of_loads=of_loads)))
    return frozenset().union(*(read_in(without_comments(text)) for text in texts))
