"""Tables in CSV, a point a line. Large ones go by columns: what lines share is read once, numbers are checked at once.

A line that is unlike the others, or that may be wrong, goes to the reader of single lines: what that makes of it
counts. Not here: what a line means (own, comparison_tables)."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from itertools import chain, compress, starmap
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from evaluator.ledger.point_keys import WHOLE, Parts, key_between, moment_text, shared_parts
from evaluator.ledger.readers.building import (
    MISSING,
    SHORTEST_MS,
    BadItem,
    Circumstances,
    Item,
    Problem,
    ReadResult,
    file_digest,
    moment,
    record,
    text,
    written_extra,
)
from evaluator.ledger.readers.packed import opened_text
from store.errors import InputError
from store.records import MeasurementRecord
from store.texts import from_text
from store.writing import Point, PointTable

LONGEST_LINE = 1 << 20
LARGE_CHARACTERS = 1 << 20  # of a table, from which on it is read by columns
LINES_AT_ONCE, CHARACTERS_AT_ONCE = 4096, 1 << 19
_UNDECODED = re.compile("[\udc80-\udcff]")
_NO_EXTRA = ("{}", "{}")
_NEAR_THOUSAND, _NEAR_RUNS = 500.0, 1.9  # below the ratios that one line's reader refuses
Floats = np.ndarray


Lines = Iterable[tuple[Sequence[int], Sequence[list[str]]]]  # so many at once: their numbers, and their cells
RecordOf = Callable[[Sequence[str], str], MeasurementRecord]  # of a line and its place; raises BadItem


class LineReader(Protocol):
    """Takes the lines of a file."""

    @property
    def records(self) -> Sequence[MeasurementRecord]:
        """Points, in the order of their lines."""

    @property
    def problems(self) -> list[Problem]:
        """Lines that could not be read."""

    def read(self, lines: Lines) -> None:
        """Take every line."""


ByColumns = Callable[[Path, Sequence[str], RecordOf, bool], LineReader | None]


def read_rows(
    path: Path,
    source_format: str,
    required: Iterable[str],
    item_of: Callable[[Mapping[str, str]], Item],
    by_columns: ByColumns | None = None,
) -> ReadResult:
    """Records of a CSV file, one a line; `item_of` raises BadItem for a line that makes no sense.

    `by_columns` makes the reader of a large table, or None where its columns do not fit."""
    content, file = opened_text(path, errors="surrogateescape"), file_digest(path)
    broken: list[Problem] = []
    lines = _lines_of(content, path.name, broken)
    names = next(lines, ((), [[]]))[1][0]
    missing = [name for name in required if name not in names]
    if missing and not broken:
        raise InputError(f"{path}: no column {missing[0]!r}", hint=f"columns found: {', '.join(names[:12])}")
    whole_text = _UNDECODED.search(content) is None

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
    """The header, and then so many lines at once; empty ones are none. What ends them too soon goes to `broken`."""
    cut = _start_of_long_line(content)
    yield from _lines_of_short(content if cut is None else content[:cut], name, broken)
    if cut is not None and not broken:
        where = f"{name}:{content[:cut].count(_ending(content)) + 1}"
        what = f"a line of more than {LONGEST_LINE} characters; what follows is not read"
        broken.append(Problem(where=where, what=what))


def _start_of_long_line(content: str) -> int | None:
    """Where a line begins that no table has: its cells would take hundreds of times its bytes."""
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
    """As `_lines_of`, of cells that may be quoted; `before` so many lines."""
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
    """The character that separates the fields of a header: a comma, a semicolon or a tab."""
    return max(",;\t", key=header.count)


def _complete(names: Sequence[str], row: Sequence[str], *, whole_text: bool) -> Mapping[str, str]:
    if len(names) != len(row):
        raise BadItem("more or fewer fields than the header has")
    if not whole_text and any(_UNDECODED.search(value) for value in row):
        raise BadItem("not UTF-8 text")
    return dict(zip(names, map(from_text, row), strict=True))


@dataclass(slots=True, kw_only=True)
class _OneByOne:
    """Reads every line alone."""

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


def fits(names: Sequence[str], columns: Columns) -> bool:
    """Whether lines can be read by columns: each column is there once, and each metric has one."""
    metrics = [ours for _, ours in columns.measured]
    return 0 < len(metrics) == len(set(metrics)) <= _MOST_METRICS and len(set(names)) == len(names)


_MOST_METRICS = 62  # bits of a number


class Columns(NamedTuple):
    """Columns of a file, by how they are read."""

    measured: tuple[tuple[str, str], ...]  # (column, our name)
    setting: tuple[str, ...]  # what many lines share
    own: tuple[str, ...]  # of the user's own, and the point's name: a line's alone


@dataclass(slots=True, kw_only=True)
class _Shared:
    """The facts of lines that differ in values, time and columns of the user's own alone."""

    place: int
    parts: Parts
    stored: str  # the metrics as the store keeps them, with places for their values
    keyed: str  # as the key has them


class _Chunk(NamedTuple):
    """Lines by columns, what each says beside its setting, and which of them one line's reader must see."""

    settings: list[tuple[str, ...]]
    present: list[int]  # bits of the metrics that a line has
    odd: list[bool]
    stored: list[tuple[str, ...]]  # texts of the values, in the order of the metrics' names
    keyed: list[tuple[str, ...]]
    moments: Sequence[str]
    own: list[tuple[str, ...]]


@dataclass(slots=True, kw_only=True)
class ColumnReader:
    """One file on its way into a table of points."""

    path: Path
    names: tuple[str, ...]
    columns: Columns
    record_of: RecordOf
    own_of: Callable[[Mapping[str, str]], tuple[Mapping[str, object], Circumstances]]  # of the user's own columns
    escaped: bool  # whether a cell may begin with an apostrophe
    records: PointTable = field(init=False)
    problems: list[Problem] = field(default_factory=list)
    _metrics: list[tuple[str, int]] = field(init=False)  # (our name, place of its column), by name
    _pick: dict[str, int] = field(init=False)
    _shared: dict[tuple[tuple[str, ...], int], _Shared] = field(default_factory=dict)
    _moments: dict[str, tuple[datetime | None, str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Find the places of columns."""
        self.records = PointTable(name=self.path.name)
        self._pick = {name: place for place, name in enumerate(self.names)}
        self._metrics = sorted((ours, self._pick[name]) for name, ours in self.columns.measured)

    def read(self, lines: Lines) -> None:
        """Take every line."""
        for numbers, rows in lines:
            if rows:
                self._take(numbers, rows)

    def _take(self, lines: Sequence[int], rows: Sequence[list[str]]) -> None:
        width = len(self.names)
        none = [""] * width  # in place of a line with more or fewer cells: it is odd, for it has no value
        chunk = self._chunk([row if len(row) == width else none for row in rows])
        shared = self._shared_by(chunk, lines, rows)
        moments = [self._moments.get(cell) or self._moment(cell) for cell in chunk.moments]
        extra = [self._own(cells) for cells in chunk.own] if self.columns.own else [_NO_EXTRA] * len(rows)
        good = [None not in known for known in zip(shared, moments, extra, strict=True)]
        alike = starmap(_point, compress(zip(shared, lines, moments, extra, *_texts(chunk), strict=True), good))
        points: Iterable[Point | None] = alike
        if not all(good):
            known = zip(lines, rows, good, strict=True)
            points = (next(alike) if plain else self._one(line, row) for line, row, plain in known)
        self.records.extend(filter(None, points))

    def _shared_by(self, chunk: _Chunk, lines: Sequence[int], rows: Sequence[list[str]]) -> list[_Shared | None]:
        """The setting of each line; None of an odd line, and where its setting is wrong."""
        said = list(zip(chunk.settings, chunk.present, strict=True))
        for line, row, one, odd in zip(lines, rows, said, chunk.odd, strict=True):
            if not odd and one not in self._shared:
                self._first(one, line, row)
        found = map(self._shared.get, said)
        return [None if odd else one for one, odd in zip(found, chunk.odd, strict=True)]

    def _first(self, said: tuple[tuple[str, ...], int], line: int, row: Sequence[str]) -> None:
        """Note what a setting's first line says of all its lines, unless that line is wrong."""
        try:
            made = self.record_of(row, f"{self.path.name}:{line}")
        except BadItem:
            return
        names = sorted(made.metrics)
        self._shared[said] = _Shared(
            place=len(self.records.shared),
            parts=shared_parts(made),
            stored="{" + ", ".join(f'"{name}": %s' for name in names) + "}",
            keyed="{" + ",".join(f'"{name}":%s' for name in names) + "}",
        )
        self.records.shared.append(made)

    def _moment(self, cell: str) -> tuple[datetime | None, str] | None:
        """A time of measuring and its text in a key; None where it is none."""
        try:
            written = text({"measured_at": cell}, "measured_at")
            found = None if written is None else moment("measured_at", written)
        except BadItem:
            return None
        self._moments[cell] = (found, moment_text(found))
        return self._moments[cell]

    def _own(self, cells: Sequence[str]) -> tuple[str, str] | None:
        """Columns of the user's own as a key and as the store has them; None where they are none."""
        try:
            return written_extra(*self.own_of(dict(zip(self.columns.own, cells, strict=True))))
        except BadItem:
            return None

    def _one(self, line: int, row: Sequence[str]) -> Point | None:
        """A line as the reader of single lines has it: a point that shares nothing, or a problem."""
        where = f"{self.path.name}:{line}"
        try:
            made = self.record_of(row, where)
        except BadItem as problem:
            self.problems.append(Problem(where=where, what=str(problem)))
            return None
        metrics = "{" + ", ".join(f'"{name}": {value!r}' for name, value in sorted(made.metrics.items())) + "}"
        self.records.shared.append(made)
        return len(self.records.shared) - 1, line, made.key, metrics, made.measured_at, made.extra

    def _chunk(self, rows: Sequence[Sequence[str]]) -> _Chunk:
        columns: list[Sequence[str]] = list(zip(*rows, strict=True))
        if self.escaped:
            columns = [[from_text(cell) for cell in column] for column in columns]
        found = {ours: _numbers(columns[place]) for ours, place in self._metrics}
        values = np.array(list(found.values()))
        there = ~np.isnan(values)
        odd = (there & ~((values > 0.0) & (values < WHOLE))).any(axis=0) | ~there.any(axis=0)
        for name, shortest in SHORTEST_MS.items():
            for ours, column in found.items():
                if ours.rpartition("_")[0] == name and not ours.endswith("_std"):
                    odd |= column < shortest
        odd |= _perhaps_in_other_units(
            found, *(self._facts(columns, name) for name in ("output_length", "concurrency", "completed_requests"))
        )
        texts = [list(map(repr, column.tolist())) for column in found.values()]
        whole = [
            [one.removesuffix(".0") for one in column] if some else column
            for column, some in zip(texts, (np.trunc(values) == values).any(axis=1), strict=True)
        ]
        bits = 1 << np.arange(len(found), dtype=np.int64)
        count = len(rows)
        measured_at = self._pick.get("measured_at")
        return _Chunk(
            settings=self._together(columns, self.columns.setting, count),
            present=(bits @ there).tolist(),
            odd=odd.tolist(),
            stored=list(zip(*texts, strict=True)),
            keyed=list(zip(*whole, strict=True)),
            moments=[""] * count if measured_at is None else columns[measured_at],
            own=self._together(columns, self.columns.own, count),
        )

    def _together(self, columns: Sequence[Sequence[str]], names: Sequence[str], count: int) -> list[tuple[str, ...]]:
        return list(zip(*(columns[self._pick[name]] for name in names), strict=True)) if names else [()] * count

    def _facts(self, columns: Sequence[Sequence[str]], name: str) -> Floats | float:
        place = self._pick.get(name)
        return np.nan if place is None else _numbers(columns[place])


def _texts(chunk: _Chunk) -> tuple[Iterable[tuple[str, ...]], Iterable[tuple[str, ...]]]:
    """The texts of the values that each line has, as they are stored and as a key has them."""
    if min(chunk.present) == (1 << len(chunk.stored[0])) - 1:
        return chunk.stored, chunk.keyed
    there = list(map(_bits, chunk.present))
    stored, keyed = (
        [tuple(compress(texts, bits)) for texts, bits in zip(column, there, strict=True)]
        for column in (chunk.stored, chunk.keyed)
    )
    return stored, keyed


def _point(
    shared: _Shared,
    line: int,
    moment: tuple[datetime | None, str],
    extra: tuple[str, str],
    *texts: tuple[str, ...],
) -> Point:
    at, moment_in_key = moment
    stored, keyed = texts
    key = key_between(shared.parts, extra[0], moment_in_key, shared.keyed % keyed)
    return shared.place, line, key, shared.stored % stored, at, extra[1]


@lru_cache(maxsize=4096)
def _bits(present: int) -> tuple[bool, ...]:
    return tuple(bit == "1" for bit in reversed(f"{present:b}"))


def _numbers(column: Sequence[str]) -> Floats:
    """Cells as numbers: NaN where there is none, and infinity where one line's reader must say what is wrong."""
    try:
        return np.array(list(map(float, column)))
    except ValueError:
        return np.array([_number(cell) for cell in column])


def _number(cell: str) -> float:
    if cell.strip().lower() in MISSING:
        return np.nan
    try:
        return float(cell)
    except ValueError:
        return np.inf


def _perhaps_in_other_units(
    found: Mapping[str, Floats], length: Floats | float, users: Floats | float, completed: Floats | float
) -> Floats:
    """Lines whose latencies and rates are hundreds of times apart, or whose requests outlast their run.

    NaN compares with nothing."""
    ttft, tpot, e2e = (found.get(f"{name}_ms_mean", np.nan) for name in ("ttft", "tpot_exclusive", "e2e"))
    with np.errstate(all="ignore"):
        parts = ttft + np.maximum(length - 1.0, 0.0) * tpot
        rates = (found.get("requests_per_s", np.nan), found.get("output_tokens_per_s", np.nan) / length)
        apart = (e2e / parts, *(whole * rate / users / 1e3 for whole in (e2e, parts) for rate in rates))
        runs = [whole * rate / completed / 1e3 for whole in (e2e, parts, ttft) for rate in rates]
        odd = [(one > _NEAR_THOUSAND) | (one < 1.0 / _NEAR_THOUSAND) for one in apart]
        return np.asarray(sum([*odd, *(one > _NEAR_RUNS for one in runs)]) > 0)
