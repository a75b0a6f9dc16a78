"""Lines of CSV: text that a spreadsheet would run begins with an apostrophe, which makes it text there.

Numbers stay as they are. Reading such a text takes the apostrophe off again."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

# What begins a formula, in full width too, behind apostrophes of texts that begin with one already.
_RUN = re.compile("'*[=+\\-@\t\r\uff1d\uff0b\uff0d\uff20]")
_NUMBER = re.compile(r"[+-]?(\d[\d,]*(\.\d*)?|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def csv_line(cells: Sequence[object], *, exact: bool = False) -> str:
    """One line. `exact`: texts as they are, for programs; halves of characters are escaped in any case."""
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(["" if cell is None else cell for cell in _told(cells, exact)])
    return buffer.getvalue().encode("utf-8", "backslashreplace").decode()


def _told(cells: Sequence[object], exact: bool) -> Sequence[object]:
    return cells if exact else [as_text(cell) if isinstance(cell, str) else cell for cell in cells]


def as_text(cell: str) -> str:
    """A cell that a spreadsheet takes for text."""
    return f"'{cell}" if _RUN.match(cell) and not _NUMBER.fullmatch(cell) else cell


def from_text(cell: str) -> str:
    """A cell as it was before `as_text`."""
    return cell[1:] if cell[:1] == "'" and _RUN.match(cell[1:]) else cell
