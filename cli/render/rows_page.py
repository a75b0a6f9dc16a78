"""Rows of a statement as a page that a browser shows: a table with units and meanings, and the statement."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sweepdb.asking import dictionary
from sweepdb.reporting import paragraph, plain_page, preformatted, table_text
from sweepdb.stores import written_whole

if TYPE_CHECKING:
    from sweepdb.statements import SqlRows

_MOST_ROWS = 10_000


def write_page(rows: SqlRows, statement: str, values: Mapping[str, object], output: Path | None) -> Path:
    """Write the page, to a file of its own where none is named."""
    path = output or _own_file()
    with written_whole(path) as temporary:
        temporary.write_text(rows_page(rows, statement, values), encoding="utf-8")
    return path


def rows_page(rows: SqlRows, statement: str, values: Mapping[str, object]) -> str:
    """The page."""
    units = {column.name: column.unit for relation in dictionary() for column in relation.columns}
    heads = [f"{name} [{units[name]}]" if units.get(name, "none") != "none" else name for name in rows.columns]
    left = len(rows.rows) - _MOST_ROWS
    given = "".join(f"\n${name} = {value!r}" for name, value in values.items())
    asked = preformatted(f"{statement.strip()}{given and chr(10)}{given}")
    told = paragraph(f"{len(rows.rows):,} rows{f', the first {_MOST_ROWS:,} of them' if left > 0 else ''}")
    table = table_text(heads, rows.rows[:_MOST_ROWS], named="Rows")
    return plain_page("Rows of a statement", [asked, told, table])


def _own_file() -> Path:
    number, name = tempfile.mkstemp(prefix="sweepdb-", suffix=".html")
    os.close(number)
    return Path(name)
