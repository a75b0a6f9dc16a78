"""A statement with the columns that a table shows, and all that is made for others left out.

DuckDB plans every column of a relation that is named, read or not, which took a third of a small answer."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache

from queries.asking.variables import literal
from store.schema import VIEW_COLUMNS, probe_select, shown_columns, words_of

_PROBE = re.compile(r"\b(?:FROM|JOIN) probe\b")


@lru_cache(maxsize=512)  # of the same texts at every question
def only_told(written: str, told: frozenset[str], stored_rows: str | None) -> str:
    """Of a statement without calls, in the order of its rows and columns.

    Whatever is read of a relation is named somewhere, or comes by a star: words that stand nowhere are columns that
    nobody asks for. `stored` rows are then read from parts, instead of by the view `probe`."""
    text = _without_others(written.rstrip().rstrip(";"), told)
    words = words_of(text) | told
    known = words_of(text).union(one.name for one in VIEW_COLUMNS)
    asked = f"SELECT COLUMNS(lambda name: list_contains({literal(sorted(told & known))}, name)) FROM ({text})"  # noqa: S608
    if stored_rows is None:
        return asked
    return f"WITH probe AS NOT MATERIALIZED ({probe_select(stored_rows, words)}) {asked}"


def reads_probes(sql: str) -> bool:
    return _PROBE.search(sql) is not None


def _without_others(text: str, told: Collection[str]) -> str:
    """Lists of all shown columns become lists of those that are told or named elsewhere."""
    lists = {", ".join(columns.values()): columns for columns in shown_columns().values()}
    rest = text
    for whole in lists:
        rest = rest.replace(whole, "")
    wanted = words_of(rest).union(told)
    for whole, columns in lists.items():
        text = text.replace(whole, ", ".join(sql for name, sql in columns.items() if name in wanted))
    return text
