"""Answers on a terminal: tables as wide as it is, sentences broken there, rules and assumptions when asked for.

A table that is too wide first says once what every row has in common, then breaks its long texts, then leaves columns
out where it may and names them, and is else turned: a line a column. rich draws, and is imported here alone."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cli.render.rows import WIDEST_TEXT, Paragraph, Table, filled, header_lines_of
from cli.visible import visible

if TYPE_CHECKING:
    from rich.table import Table as Grid

_GAP = 2
_BROKEN = 14  # a column of texts is not made narrower than this
_FEWEST = 5  # columns; with fewer, a table is turned
_FEW_BLOCKS = 2  # of a turned table; what takes more is shown in parts
_KEPT = frozenset({"rank", "probe", "prefill_probe", "decode_probe"})
_WORDS = re.compile(r"(?<= )(?=[^+ ])")  # a sign stays with what follows it
_MARKS = re.compile(r"(?<=[,./_:\- ])")
# Columns that others stand before, and those that have a place of their own.
_BEFORE = frozenset({"holds", "prefill_holds", "decode_holds", "probe", "prefill_probe"})
_PLACE = {"probes": "prefill_probe"}
_LESS = (
    "launchable", "price_from", "prefill_utilisation", "decode_utilisation", "memory_free_gib", "memory_gib",
    "num_devices", "concurrency", "e2e_ms",
)  # fmt: skip
_CLOSE_PERCENT = 3.0
_STYLES: Mapping[str, Mapping[str, str]] = {
    "holds": {"yes": "green", "likely": "yellow", "no": "yellow"},
    "prefill_holds": {"yes": "green", "likely": "yellow", "no": "yellow"},
}


def on_screen(pieces: Iterable[str]) -> Iterator[str]:
    width = screen_width()
    for piece in pieces:
        if isinstance(piece, Paragraph):
            yield visible(filled(piece.sentences, min(width, WIDEST_TEXT), piece.indent))
        elif isinstance(piece, Table):
            yield from _fitted(piece, width)
        else:
            yield visible(piece)


def screen_width() -> int:
    return max(shutil.get_terminal_size((80, 24)).columns, 40)


@dataclass(slots=True, kw_only=True)
class _Column:
    name: str
    cells: Sequence[str]
    numeric: bool
    head: list[str] = field(default_factory=list)
    width: int = 0

    def __post_init__(self) -> None:
        longest = max(map(len, self.cells))
        self.head = header_lines_of(self.name, widest=max(longest, 8))
        self.width = max(longest, *map(len, self.head))

    @property
    def least(self) -> int:
        """The width below which it is not broken: numbers and references never are."""
        if self.numeric or self.name in _KEPT:
            return self.width
        return min(self.width, max(*map(len, self.head), _BROKEN))

    @property
    def common(self) -> bool:
        """Whether every row has the same in it, so that it can be said once."""
        return len(self.cells) > 1 and len(set(self.cells)) == 1 and self.name not in _KEPT


def _fitted(table: Table, width: int) -> Iterator[str]:
    whole = _columns(table)
    columns = list(whole)
    said: list[str] = []
    while _width(columns) > width and (shared := [one for one in columns if one.common]):
        widest = max(shared, key=lambda one: one.width)
        columns.remove(widest)
        said.append(f"{widest.name} {widest.cells[0]}")
    _break_texts(columns, width)
    left_out: list[str] = []
    while table.may_miss and _width(columns) > width and len(columns) > _FEWEST:
        least = _least_telling(
            [one for one in columns if one.name not in _KEPT and one.name not in table.beside], columns
        )
        columns.remove(least)
        left_out.append(least.name)
    if _width(columns) > width:
        blocks = _blocks(whole, width)
        yield from _turned(whole, blocks, width) if len(blocks) <= _FEW_BLOCKS else _in_parts(columns, width)
        return
    if said:
        yield visible(filled(f"in every row: {', '.join(said)}", width, "  "))
    yield _drawn(columns, width)
    if left_out:
        yield visible(filled(f"not shown: {', '.join(left_out)} (--wide, or a wider terminal)", width, "  "))


def _least_telling(found: Sequence[_Column], all_columns: Sequence[_Column]) -> _Column:
    """The column that a table does best without: one that repeats another, one of little use, the last one."""
    for one in reversed(found):
        if any(other is not one and other.cells == one.cells for other in all_columns):
            return one
    return next((one for name in _LESS for one in found if one.name == name), found[-1])


def _columns(table: Table) -> list[_Column]:
    """By place, since two columns may have one name."""
    more = [name for name in table.beside if name not in table.columns]
    order: list[_Column] = []
    for name, cells, numeric in zip(table.columns, zip(*table.rows, strict=True), table.numeric, strict=True):
        if name in _BEFORE or name in table.replaced:
            here = [one for one in more if _PLACE.get(one, name) == name]
            order += [_beside(table, one) for one in here]
            more = [one for one in more if one not in here]
        if name not in table.replaced:
            order.append(_Column(name=name, cells=table.beside.get(name) or cells, numeric=numeric))
    return order + [_beside(table, one) for one in more]


def _beside(table: Table, name: str) -> _Column:
    return _Column(name=name, cells=table.beside[name], numeric=False)


def _width(columns: Sequence[_Column]) -> int:
    return sum(one.width for one in columns) + _GAP * (len(columns) - 1)


def _break_texts(columns: Sequence[_Column], width: int) -> None:
    while _width(columns) > width:
        found = [one for one in columns if one.width > one.least]
        if not found:
            return
        widest = max(found, key=lambda one: one.width)
        widest.width -= 1


def _drawn(columns: Sequence[_Column], width: int) -> str:
    from rich.text import Text

    grid = _grid()
    height = max(len(one.head) for one in columns)
    for one in columns:
        head = "\n".join([*[""] * (height - len(one.head)), *one.head, "─" * one.width])
        grid.add_column(Text(head), justify="right" if one.numeric else "left", width=one.width)
    for number in range(len(columns[0].cells)):
        grid.add_row(*(Text(_broken(one.cells[number], one.width), style=_style(one, number)) for one in columns))
    return _printed(grid, width)


def _in_parts(columns: Sequence[_Column], width: int) -> Iterator[str]:
    """A table of many rows as several below each other, each with the first column."""
    first, left = columns[0], list(columns[1:])
    while left:
        part = [first]
        while left and (len(part) == 1 or _width([*part, left[0]]) <= width):
            part.append(left.pop(0))
        yield _drawn(part, max(width, _width(part)))
        yield "\n" if left else ""


def _broken(text: str, width: int) -> str:
    lines = [""]
    words = _WORDS.split(text)
    for part in (part for word in words for part in ([word] if len(word.rstrip()) <= width else _MARKS.split(word))):
        if len(lines[-1]) + len(part.rstrip()) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
        while len(lines[-1].rstrip()) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return "\n".join(line.rstrip() for line in lines)


def _style(column: _Column, row: int) -> str:
    if column.name == "slack":
        left = float(column.cells[row].partition(" ")[0] or 0)
        return "red" if left < 0 else "yellow" if left < _CLOSE_PERCENT else "green"
    return _STYLES.get(column.name, {}).get(column.cells[row], "")


def _blocks(columns: Sequence[_Column], width: int) -> list[list[int]]:
    """Widths of the rows of a turned table: those that stand beside each other, then those below."""
    names = max(len(one.name) for one in columns)
    most = max(20, width - names - _GAP)
    blocks: list[list[int]] = [[]]
    for row in range(len(columns[0].cells)):
        size = min(max(len(one.cells[row]) for one in columns), most)
        if blocks[-1] and names + sum(blocks[-1]) + size + _GAP * (len(blocks[-1]) + 1) > width:
            blocks.append([])
        blocks[-1].append(size)
    return blocks


def _turned(columns: Sequence[_Column], blocks: Sequence[Sequence[int]], width: int) -> Iterator[str]:
    """A line a column, and rows beside each other."""
    from rich.text import Text

    names = max(len(one.name) for one in columns)
    first = 0
    for sizes in blocks:
        grid = _grid(head=False)
        for size in (names, *sizes):
            grid.add_column(width=size)
        for one in columns:
            cells = one.cells[first : first + len(sizes)]
            broken = (Text(_broken(text, size)) for text, size in zip(cells, sizes, strict=True))
            grid.add_row(Text(one.name, style="bold"), *broken)
        yield ("\n" if first else "") + _printed(grid, width)
        first += len(sizes)


def _grid(*, head: bool = True) -> Grid:
    from rich.table import Table as Grid

    return Grid(box=None, show_header=head, padding=(0, _GAP, 0, 0), pad_edge=False, header_style="bold")


def _printed(grid: Grid, width: int) -> str:
    from rich.console import Console

    console = Console(file=sys.stdout, width=width + _GAP, highlight=False, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(grid, soft_wrap=False, crop=False)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())
