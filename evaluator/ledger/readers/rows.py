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
from itertools import compress
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from evaluator.ledger.point_keys import WHOLE, Parts, key_between, moment_text, parts_of
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
from store.writing import PointTable

LARGE_CHARACTERS = 1 << 20  # of a table, from which on it is read by columns
LINES_AT_ONCE = 4096
_UNDECODED = re.compile("[\udc80-\udcff]")
_NEAR_THOUSAND = 500.0  # below the ratio that one line's reader refuses as one of units
Floats = np.ndarray


Lines = Iterable[tuple[int, list[str]]]  # with their numbers
RecordOf = Callable[[Sequence[str], str], MeasurementRecord]  # of a line and its place; raises BadItem


class LineReader(Protocol):
    """Takes the lines of a file."""

    @property
    def records(self) -> Sequence[MeasurementRecord]:
        """What was read."""

    @property
    def problems(self) -> list[Problem]:
        """What could not be read."""

    def read(self, lines: Lines) -> None:
        """Take every line; what stood before one that is no CSV counts."""


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
    reader = csv.reader(_lines_of(content), delimiter=delimiter_of(content.partition("\n")[0]))
    try:
        names = next(reader, [])
    except csv.Error as error:
        return ReadResult(records=(), problems=(_no_csv(path, reader.line_num, error),), format=source_format)
    missing = [name for name in required if name not in names]
    if missing:
        raise InputError(f"{path}: no column {missing[0]!r}", hint=f"columns found: {', '.join(names[:12])}")
    whole_text = _UNDECODED.search(content) is None

    def record_of(row: Sequence[str], where: str) -> MeasurementRecord:
        item = item_of(_complete(names, row, whole_text=whole_text))
        return record(item, source=where, source_format=source_format, file=file)

    large = by_columns is not None and whole_text and len(content) > LARGE_CHARACTERS
    fitting = by_columns(path, names, record_of, "'" in content) if by_columns is not None and large else None
    taking: LineReader = fitting or _OneByOne(path=path, record_of=record_of)
    try:
        taking.read((reader.line_num, row) for row in reader if row)
    except csv.Error as error:
        taking.problems.append(_no_csv(path, reader.line_num, error))
    return ReadResult(records=taking.records, problems=tuple(taking.problems), format=source_format)


def _no_csv(path: Path, lines: int, error: csv.Error) -> Problem:
    return Problem(where=f"{path.name}:{lines + 1}", what=f"{error}; what follows is not read")


def _lines_of(content: str) -> Iterator[str]:
    """The lines of a text with their ends. A text file in memory takes four bytes a character."""
    if "\r" in content:
        yield from io.StringIO(content, newline="")
        return
    start = 0
    while end := content.find("\n", start) + 1:
        yield content[start:end]
        start = end
    if start < len(content):
        yield content[start:]


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
        for line, row in lines:
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
        """Take every line, so many at once."""
        held: list[tuple[int, list[str]]] = []
        try:
            for one in lines:
                held.append(one)
                if len(held) == LINES_AT_ONCE:
                    self._take(held)
                    held = []
        except csv.Error:
            self._take(held)
            raise
        self._take(held)

    def _take(self, lines: Sequence[tuple[int, list[str]]]) -> None:
        if not lines:
            return
        width = len(self.names)
        none = [""] * width  # in place of a line with more or fewer fields: it is odd, for it has no value
        chunk = self._chunk([row if len(row) == width else none for _, row in lines])
        every = (1 << len(self._metrics)) - 1
        add, own = self.records.add, self.columns.own
        bare = ("{}", "{}")
        for (line, row), said, present, odd, stored, keyed, at, cells in zip(lines, *chunk, strict=True):
            shared = None if odd else self._shared.get((said, present)) or self._first(said, present, line, row)
            time = None if shared is None else self._moments.get(at) or self._moment(at)
            extra = self._own(cells) if own else bare
            if shared is None or time is None or extra is None:
                self._one(line, row)
                continue
            if present != every:
                stored, keyed = (tuple(compress(texts, _bits(present))) for texts in (stored, keyed))  # noqa: PLW2901
            key = key_between(shared.parts, extra[0], time[1], shared.keyed % keyed)
            add(shared.place, line, key, shared.stored % stored, time[0], extra[1])

    def _first(self, said: tuple[str, ...], present: int, line: int, row: Sequence[str]) -> _Shared | None:
        """What a setting's first line says of all its lines; None where that line is wrong."""
        try:
            made = self.record_of(row, f"{self.path.name}:{line}")
        except BadItem:
            return None
        names = sorted(made.metrics)
        shared = _Shared(
            place=len(self.records.shared),
            parts=parts_of(made),
            stored="{" + ", ".join(f'"{name}": %s' for name in names) + "}",
            keyed="{" + ",".join(f'"{name}":%s' for name in names) + "}",
        )
        self.records.shared.append(made)
        self._shared[said, present] = shared
        return shared

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

    def _one(self, line: int, row: Sequence[str]) -> None:
        """A line as the reader of single lines has it: a point that shares nothing, or a problem."""
        where = f"{self.path.name}:{line}"
        try:
            made = self.record_of(row, where)
        except BadItem as problem:
            self.problems.append(Problem(where=where, what=str(problem)))
            return
        self.records.shared.append(made)
        metrics = "{" + ", ".join(f'"{name}": {value!r}' for name, value in sorted(made.metrics.items())) + "}"
        self.records.add(len(self.records.shared) - 1, line, made.key, metrics, made.measured_at, made.extra)

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
        length, users = (self._facts(columns, name) for name in ("output_length", "concurrency"))
        odd |= _perhaps_in_other_units(found, length, users)
        texts = [list(map(repr, column.tolist())) for column in found.values()]
        whole = [[one.removesuffix(".0") for one in column] for column in texts]
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


def _perhaps_in_other_units(found: Mapping[str, Floats], length: Floats | float, users: Floats | float) -> Floats:
    """Lines whose latencies and rates are hundreds of times apart. NaN compares with nothing."""
    ttft, tpot, e2e = (found.get(f"{name}_ms_mean", np.nan) for name in ("ttft", "tpot_exclusive", "e2e"))
    with np.errstate(all="ignore"):
        parts = ttft + np.maximum(length - 1.0, 0.0) * tpot
        rates = (found.get("requests_per_s", np.nan), found.get("output_tokens_per_s", np.nan) / length)
        apart = (e2e / parts, *(whole * rate / users / 1e3 for whole in (e2e, parts) for rate in rates))
        return np.asarray(sum((one > _NEAR_THOUSAND) | (one < 1.0 / _NEAR_THOUSAND) for one in apart) > 0)
