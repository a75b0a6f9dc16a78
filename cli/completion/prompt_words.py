"""Completion at the prompt of `sql`: views, columns and words of the language. Not here: completion of the shell."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from sweepdb.asking import dictionary

_WORDS = (
    "SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "USING", "DESC", "DISTINCT", "QUALIFY",
    "HAVING", "max(", "min(", "avg(", "count(", "arg_max(", "quantile_cont(",
)  # fmt: skip


@cache
def _names() -> tuple[str, ...]:
    """Every word that the prompt completes, in order."""
    relations = [one for one in dictionary() if one.kind != "raw"]
    columns = {column.name for relation in relations for column in relation.columns}
    return tuple(sorted({*_WORDS, *columns, *(relation.name for relation in relations)}))


def completer() -> Callable[[str, int], str | None]:
    """A completer for readline: the numbered word that begins as typed, capitals or not."""

    def complete(text: str, number: int) -> str | None:
        found = [name for name in _names() if name.lower().startswith(text.lower())]
        return found[number] if number < len(found) else None

    return complete
