"""Parts preparation into published tables and statements for the reader."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from queries.replaying.recording import Recorded

_MADE = re.compile(r"\s*CREATE OR REPLACE TEMP (TABLE|VIEW|MACRO) (\w+)")
_END = re.compile(r";\s*\n")  # a literal of ours has none
_OF_SCOPE = "lots"  # the one table that is made of the scope alone
STORED_TABLES = ("probe", "device")  # not made by statements
_NARROW = re.compile(r"narrow_\w+")
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
    """Only statements that the report needs, from its end; replaced views are left out."""
    read, tables, statements = [recorded.sql], [], list[str]()
    known = set[str]()
    for kind, name, text in reversed([*_made(recorded.statements)]):
        if name in known or not _reads(read, kind, name):
            continue
        known.add(name)
        if kind != "TABLE" or name == _OF_SCOPE:
            statements.insert(0, text)
            read.append(text)
            continue
        tables.append(name)
        if _NARROW.fullmatch(name):
            statements.insert(0, _IN_SCOPE.format(name))
            read.append(statements[0])
    tables += [name for name in STORED_TABLES if name not in known and _reads(read, "TABLE", name)]
    return Parted(tuple(tables), statements, recorded.sql)


def _made(statements: Sequence[str]) -> list[tuple[str, str, str]]:
    singles = [one.strip().removesuffix(";") for text in statements for one in _END.split(text + "\n")]
    return [(found[1], found[2], one) for one in singles if (found := _MADE.match(one))]


def _reads(texts: Sequence[str], kind: str, name: str) -> bool:
    used = rf"\b{name}\(" if kind == "MACRO" else rf"\b(?:FROM|JOIN)\s+{name}\b"
    return any(re.search(used, text) for text in texts)
