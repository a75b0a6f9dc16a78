"""Parts preparation into published tables and statements for the reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from queries.narrow.tokens import statements_of, text_at, text_of, tokens_of
from queries.replaying.recording import Recorded

_MAKES = ["CREATE", "OR", "REPLACE", "TEMP"]  # before what is made, and its name
_OF_SCOPE = "lots"  # the one table that is made of the scope alone
STORED_TABLES = ("probe", "device")  # not made by statements
_NARROW = "narrow_"  # before the names of narrow tables
_SELECTED = frozenset({"FROM", "JOIN"})
# Rows of a narrow table are of a piece of a scenario; a scope is of pieces, which it numbers in its own way.
_IN_SCOPE = """CREATE OR REPLACE TEMP TABLE {0} AS
SELECT stored.* REPLACE (lots.lot AS lot, scope.question_group AS question_group)
FROM main.{0} AS stored
JOIN pieces ON pieces.scenario_id = stored.scenario_id AND pieces.question_group = stored.question_group
JOIN scope ON scope.scenario_id = pieces.scenario_id AND scope.first_batch_size = pieces.first_batch_size
    AND scope.last_batch_size = pieces.last_batch_size
JOIN lots ON lots.scenario_id = scope.scenario_id AND lots.question_group = scope.question_group
ORDER BY lots.lot, stored.batch_size"""


class Parted(NamedTuple):
    tables: tuple[str, ...]
    """The tables to write, by names that `statements` and `sql` read."""
    statements: list[str]
    sql: str


def parted(recorded: Recorded) -> Parted:
    """Only what the report reads, found from its end: a view that was made anew in between is left out."""
    read, tables, statements = _read(recorded.sql), [], list[str]()
    known = set[str]()
    for kind, name, text in reversed([*_made(recorded.statements)]):
        if name in known or (kind == "MACRO", name) not in read:
            continue
        known.add(name)
        if kind == "TABLE" and name != _OF_SCOPE:
            tables.append(name)
            if not name.startswith(_NARROW):
                continue
        statements.insert(0, _IN_SCOPE.format(name) if name in tables else text)
        read |= _read(statements[0])
    tables += [name for name in STORED_TABLES if name not in known and (False, name) in read]
    return Parted(tuple(tables), statements, recorded.sql)


def _made(statements: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    for tokens in (one for text in statements for one in statements_of(tokens_of(text))):
        first = [token.text for token in tokens[:6]]
        if first[:4] == _MAKES:
            yield first[4], first[5], text_of(tokens)


def _read(text: str) -> set[tuple[bool, str]]:
    """Names that a statement calls or reads; each with whether it is called, as a macro is."""
    tokens = tokens_of(text)
    return {
        (called, token.text)
        for place, token in enumerate(tokens)
        if (called := text_at(tokens, place + 1) == "(") or text_at(tokens, place - 1) in _SELECTED
    }
