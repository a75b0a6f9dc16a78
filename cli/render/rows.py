"""Renders rows as an aligned table, CSV, JSON or JSON lines. Numbers stay numbers, missing stays missing.

Pieces of text are what pipes and files get; a terminal may show them otherwise (cli.render.screen)."""

from __future__ import annotations

import json
import math
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from numbers import Number
from typing import Literal, Self

from cli.visible import is_exact, visible
from sweepdb.stores import csv_line, plain

WIDEST_TEXT = 120
_KEPT = "\N{NO-BREAK SPACE}"


class Aside(str):
    """A sentence of rules and assumptions, shown where it is to explain."""

    __slots__ = ()


class Paragraph(str):
    """Sentences that a terminal breaks at its own width."""

    __slots__ = ("indent", "sentences", "unbroken")
    sentences: str
    indent: str
    unbroken: bool

    def __new__(cls, sentences: str, *, indent: str = "", unbroken: bool = False) -> Self:
        """The sentences, filled for whom no width is known, or as one line."""
        made = super().__new__(cls, f"{sentences}\n" if unbroken else filled(sentences, WIDEST_TEXT, indent))
        made.sentences, made.indent, made.unbroken = sentences, indent, unbroken
        return made

    def in_words(self, words: Callable[[str], str]) -> Self:
        """The same in other words, which a terminal breaks as well."""
        return type(self)(words(self.sentences), indent=self.indent, unbroken=self.unbroken)


class Table(str):
    """An aligned table, with its cells as texts. Cells that only a terminal shows stand in `beside`."""

    __slots__ = ("beside", "columns", "may_miss", "numeric", "replaced", "rows")
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Sequence[bool]
    may_miss: bool  # whether a narrow terminal may leave columns out
    beside: Mapping[str, Sequence[str]]  # columns that a terminal has besides, or in place of one of the same name
    replaced: frozenset[str]  # columns that a terminal has not, since one besides says the same

    def __new__(
        cls, text: str, *, columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[bool]
    ) -> Self:
        """The drawn text and what it was drawn from."""
        made = super().__new__(cls, text)
        made.columns, made.rows, made.numeric = columns, rows, numeric
        made.may_miss, made.beside, made.replaced = False, {}, frozenset()
        return made


def filled(sentences: str, width: int, indent: str = "") -> str:
    """Lines of a width. A number keeps its percent sign: no line ends between them."""
    kept = sentences.replace(" %", f"{_KEPT}%")
    return textwrap.fill(kept, width, subsequent_indent=indent, break_long_words=False).replace(_KEPT, " ") + "\n"


_COMFORTABLE_WIDTH = 102  # of a terminal; tables that are wider break the names of their columns more often
_CONTROLS = "[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
_NUMBER = re.compile(r"-|-?{0}(-{0})*".format(r"[\d,]+(\.\d+)?(e[+-]?\d+)?"))  # one number, or an interval of two
Format = Literal["table", "csv", "json", "jsonl"]


def rendered(columns: Sequence[str], rows: Iterable[Sequence[object]], format_: Format) -> Iterator[str]:
    if format_ == "csv":
        return csv_lines(columns, rows)
    if format_ == "json":
        return json_array(columns, rows)
    if format_ == "jsonl":
        return (_object(columns, row) + "\n" for row in rows)
    return table_lines(columns, rows)


def csv_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """RFC 4180 with plain line breaks; missing is empty. Texts that a spreadsheet would run are told to it as texts."""
    exact = is_exact()
    yield csv_line(columns, exact=exact)
    for row in rows:
        yield csv_line([plain(value) for value in row], exact=exact)


def json_array(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    first = True
    for row in rows:
        yield ("[\n" if first else ",\n") + _object(columns, row)
        first = False
    yield "[]\n" if first else "\n]\n"


def _object(columns: Sequence[str], row: Sequence[object]) -> str:
    """One row. JSON escapes the controls of C0 by itself; the others are escaped too, which changes no value."""
    return json_text(_mapping(columns, row))


def json_text(value: object, *, indent: int | None = None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return re.sub(_CONTROLS, lambda found: f"\\u{ord(found[0]):04x}", text)


def _mapping(columns: Sequence[str], row: Sequence[object]) -> dict[str, object]:
    return {column: plain(value) for column, value in zip(columns, row, strict=True)}


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """An aligned table in one piece: a header, a rule, the rows; numbers to the right."""
    texts = [[cell(value) for value in row] for row in rows]
    if not texts:
        yield "(no rows)\n"
        return
    numeric = [all(map(_NUMBER.fullmatch, filter(None, column))) for column in zip(*texts, strict=True)]
    drawn = "".join(_drawn(columns, texts, numeric))
    yield Table(drawn, columns=tuple(map(visible, columns)), rows=texts, numeric=numeric)


def markdown_lines(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    for texts in (columns, ["---"] * len(columns), *([cell(value) for value in row] for row in rows)):
        yield "| " + " | ".join(visible(text).replace("\n", " ").replace("|", "\\|") for text in texts) + " |\n"


def _drawn(columns: Sequence[str], texts: Sequence[Sequence[str]], numeric: Sequence[bool]) -> Iterator[str]:
    cells = [max(map(len, column)) for column in zip(*texts, strict=True)]
    columns = [visible(column).replace("\n", " ") for column in columns]
    heads = [header_lines_of(column) for column in columns]
    if sum(max(width, *map(len, head)) + 2 for width, head in zip(cells, heads, strict=True)) > _COMFORTABLE_WIDTH:
        heads = [header_lines_of(column, widest=max(width, 8)) for width, column in zip(cells, columns, strict=True)]
    height = max(len(head) for head in heads)
    padded = [[""] * (height - len(head)) + head for head in heads]
    widths = [max(width, *map(len, head)) for width, head in zip(cells, padded, strict=True)]
    for line in zip(*padded, strict=True):
        yield _line(line, widths, numeric)
    yield "  ".join("-" * width for width in widths) + "\n"
    for row in texts:
        yield _line(row, widths, numeric)


def header_lines_of(column: str, widest: int = 12) -> list[str]:
    """A long name is broken at underscores so that it does not widen its column."""
    lines, current = [], ""
    for part in column.split("_"):
        if current and len(current) + len(part) >= widest and len(part) > 1:
            lines.append(current + "_")
            current = part
        else:
            current = f"{current}_{part}" if current else part
    return [*lines, current]


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = [
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(cells, widths, numeric, strict=True)
    ]
    return "  ".join(parts).rstrip() + "\n"


def cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Number) and not isinstance(value, int):  # a decimal, whose module takes long to import
        return _number(float(value))  # type: ignore[arg-type]
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return visible(str(value).replace("\n", " ").replace("\t", " "))


def _number(value: float) -> str:
    size = abs(value)
    if not math.isfinite(value):
        return str(value)
    if size >= 1e6 or (0 < size < 1e-3):
        return f"{value:.4g}"
    if size >= 100:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 1 or size == 0 else f"{value:.4f}"


_USUAL_WIDTH = 80
_SHORTEST = 10
_GAP = 2


def narrow_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, names: Sequence[str]) -> Iterator[str]:
    """Rows as wide as the terminal, or 80 characters where there is none. Only the columns `names` are cut."""
    width = shutil.get_terminal_size((_USUAL_WIDTH, 24)).columns if sys.stdout.isatty() else _USUAL_WIDTH
    texts = [[cell(value) for value in row] for row in rows]
    widths = {name: max([len(name), *(len(row[index]) for row in texts)]) for index, name in enumerate(columns)}
    while sum(widths.values()) + _GAP * (len(widths) - 1) > width:
        longest = max(names, key=widths.__getitem__)
        if widths[longest] <= _SHORTEST:
            break
        widths[longest] -= 1
    cut = [[_cut(text, widths[name]) for text, name in zip(row, columns, strict=True)] for row in texts]
    return table_lines(columns, cut)


def _cut(text: str, most: int) -> str:
    """The end of a name tells more than its middle does: `h100_sxm` and `Qwen3-32B-FP8` differ there."""
    if len(text) <= most:
        return text
    head = (most - 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"
