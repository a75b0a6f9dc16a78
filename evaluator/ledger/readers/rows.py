"""CSV tables, a point a line."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Protocol

from evaluator.ledger.readers.building import BadItem, Item, Problem, ReadResult, file_digest, record
from evaluator.ledger.readers.packed import opened_text
from store.errors import InputError
from store.records import MeasurementRecord
from store.texts import from_text
from store.writing import PointTable

LONGEST_LINE = 1 << 20
LARGE_CHARACTERS = 1 << 20  # of a table, from which on it is read by columns
LINES_AT_ONCE, CHARACTERS_AT_ONCE = 4096, 1 << 19
_UNDECODED = re.compile("[\udc80-\udcff]")

Lines = Iterable[tuple[Sequence[int], Sequence[list[str]]]]  # so many at once: their numbers, and their cells
RecordOf = Callable[[Sequence[str], str], MeasurementRecord]  # of a line and its place; raises BadItem


class LineReader(Protocol):
    @property
    def records(self) -> Sequence[MeasurementRecord]: ...

    @property
    def problems(self) -> list[Problem]: ...

    def read(self, lines: Lines) -> None: ...


ByColumns = Callable[[Path, Sequence[str], RecordOf, bool], LineReader | None]


def read_rows(
    path: Path,
    source_format: str,
    required: Iterable[str],
    item_of: Callable[[Mapping[str, str]], Item],
    by_columns: ByColumns | None = None,
) -> ReadResult:
    """`item_of` raises BadItem for a senseless line.

    `by_columns` makes the large-table reader, or None where columns do not fit."""
    content, file = opened_text(path, errors="surrogateescape"), file_digest(path)
    broken: list[Problem] = []
    lines = _lines_of(content, path.name, broken)
    names = next(lines, ((), [[]]))[1][0]
    missing = [name for name in required if name not in names]
    if missing and not broken:
        raise InputError(f"{path}: no column {missing[0]!r}", hint=f"columns found: {', '.join(names[:12])}")
    whole_text = content.isascii() or _UNDECODED.search(content) is None

    def record_of(row: Sequence[str], where: str) -> MeasurementRecord:
        item = item_of(_complete(names, row, whole_text=whole_text))
        return record(item, source=where, source_format=source_format, file=file)

    large = by_columns is not None and whole_text and len(content) > LARGE_CHARACTERS
    fitting = by_columns(path, names, record_of, "'" in content) if by_columns is not None and large else None
    taking: LineReader = fitting or _OneByOne(path=path, record_of=record_of)
    taking.read(lines)
    records = taking.records if isinstance(taking.records, PointTable) else tuple(taking.records)
    return ReadResult(records=records, problems=(*taking.problems, *broken), format=source_format)


def _lines_of(content: str, name: str, broken: list[Problem]) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    """The header, then blocks of lines without empty ones; an early end goes to `broken`."""
    cut = _start_of_long_line(content)
    yield from _lines_of_short(content if cut is None else content[:cut], name, broken)
    if cut is not None and not broken:
        where = f"{name}:{content[:cut].count(_ending(content)) + 1}"
        what = f"a line of more than {LONGEST_LINE} characters; what follows is not read"
        broken.append(Problem(where=where, what=what))


def _start_of_long_line(content: str) -> int | None:
    """Lines so long that cells would take hundreds of times their bytes."""
    start, ending = 0, _ending(content)
    while len(content) - start > LONGEST_LINE:
        end = content.rfind(ending, start, start + LONGEST_LINE + 1)
        if end < 0:
            return start
        start = end + 1
    return None


def _ending(content: str) -> str:
    return "\n" if "\n" in content else "\r"


def _lines_of_short(content: str, name: str, broken: list[Problem]) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    delimiter = delimiter_of(content.partition("\n")[0])
    if '"' in content or "\r" in content:
        yield from _lines_of_csv(io.StringIO(content, newline=""), 0, delimiter, name, broken)
        return
    start, number, size = 0, 1, 0  # the header alone
    while start < len(content):
        end = content.find("\n", start + size) % (len(content) + 1)
        lines = content[start:end].split("\n")
        if max(map(len, lines)) > csv.field_size_limit():
            rest = io.StringIO(content[start:], newline="")
            yield from _lines_of_csv(rest, number - 1, delimiter, name, broken)
            return
        if "" in lines:
            full = [(place, line) for place, line in enumerate(lines, start=number) if line]
            yield [place for place, _ in full], [line.split(delimiter) for _, line in full]
        else:
            yield range(number, number + len(lines)), [line.split(delimiter) for line in lines]
        start, number, size = end + 1, number + len(lines), CHARACTERS_AT_ONCE


def _lines_of_csv(
    file: io.StringIO, before: int, delimiter: str, name: str, broken: list[Problem]
) -> Iterator[tuple[Sequence[int], list[list[str]]]]:
    reader = csv.reader(file, delimiter=delimiter)
    numbers: list[int] = []
    rows: list[list[str]] = []
    size = LINES_AT_ONCE if before else 1  # the header alone
    try:
        for row in reader:
            if row:
                numbers.append(before + reader.line_num)
                rows.append(row)
            if len(rows) == size:
                yield numbers, rows
                numbers, rows, size = [], [], LINES_AT_ONCE
    except csv.Error as error:
        where = f"{name}:{before + reader.line_num + 1}"
        broken.append(Problem(where=where, what=f"{error}; what follows is not read"))
    if rows:
        yield numbers, rows


def delimiter_of(header: str) -> str:
    """Comma, semicolon or tab."""
    return max(",;\t", key=header.count)


def _complete(names: Sequence[str], row: Sequence[str], *, whole_text: bool) -> Mapping[str, str]:
    if len(names) != len(row):
        raise BadItem("more or fewer fields than the header has")
    if not whole_text and any(_UNDECODED.search(value) for value in row):
        raise BadItem("not UTF-8 text")
    return dict(zip(names, map(from_text, row), strict=True))


@dataclass(slots=True, kw_only=True)
class _OneByOne:
    path: Path
    record_of: RecordOf
    records: list[MeasurementRecord] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def read(self, lines: Lines) -> None:
        for line, row in chain.from_iterable(zip(*some, strict=True) for some in lines):
            where = f"{self.path.name}:{line}"
            try:
                self.records.append(self.record_of(row, where))
            except BadItem as problem:
                self.problems.append(Problem(where=where, what=str(problem)))
