"""Large tables by columns: what lines share is read once, and numbers are checked at once.

A line that is unlike the others, or that may be wrong, goes to the reader of single lines: what that makes of it
counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from hashlib import sha256
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from evaluator.canonical import canonical
from evaluator.ledger.point_keys import WHOLE, moment_text, shared_parts
from evaluator.ledger.readers.building import (
    MISSING,
    SHORTEST_MS,
    BadItem,
    Circumstances,
    Problem,
    moment,
    text,
    written_extra,
)
from evaluator.ledger.readers.rows import Lines, RecordOf
from store.texts import from_text
from store.writing import Point, PointTable

_NO_EXTRA = (canonical("{}"), "{}")
_NEAR_THOUSAND, _NEAR_RUNS = 500.0, 1.9  # below the ratios that one line's reader refuses
Floats = np.ndarray


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


class _Shared(NamedTuple):
    """The facts of lines that differ in values, time and columns of the user's own alone."""

    place: int
    keyed: str  # the canonical text of a point, with places for other fields, moment and values
    stored: str  # the metrics as the store keeps them, with places for their values


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
        if {*map(len, rows)} != {width}:  # a line with more or fewer cells is odd, for it has no value
            none = [""] * width
            chunk = self._chunk([row if len(row) == width else none for row in rows])
        else:
            chunk = self._chunk(rows)
        shared = self._shared_by(chunk, lines, rows)
        moments = list(map(self._moments.get, chunk.moments))
        if None in moments:
            moments = [found or self._moment(cell) for found, cell in zip(moments, chunk.moments, strict=True)]
        extra = [self._own(cells) for cells in chunk.own] if self.columns.own else [_NO_EXTRA] * len(rows)
        told = zip(shared, moments, extra, *_texts(chunk), strict=True)
        if None not in shared and None not in moments and None not in extra:
            self.records.extend_columns(lines, *_columns(list(told)))
            return
        good = [None not in known for known in zip(shared, moments, extra, strict=True)]
        setting, *others = _columns(list(compress(told, good)))
        alike = zip(setting, compress(lines, good), *others, strict=True)
        known = zip(lines, rows, good, strict=True)
        points = (next(alike) if plain else self._one(line, row) for line, row, plain in known)
        self.records.extend(filter(None, points))

    def _shared_by(self, chunk: _Chunk, lines: Sequence[int], rows: Sequence[list[str]]) -> list[_Shared | None]:
        """The setting of each line; None of an odd line, and where its setting is wrong."""
        said = list(zip(chunk.settings, chunk.present, strict=True))
        found = list(map(self._shared.get, said))
        if None in found:
            for line, row, one, odd in zip(lines, rows, said, chunk.odd, strict=True):
                if not odd and one not in self._shared:
                    self._first(one, line, row)
            found = list(map(self._shared.get, said))
        if True not in chunk.odd:
            return found
        return [None if odd else one for one, odd in zip(found, chunk.odd, strict=True)]

    def _first(self, said: tuple[tuple[str, ...], int], line: int, row: Sequence[str]) -> None:
        """Note what a setting's first line says of all its lines, unless that line is wrong."""
        try:
            made = self.record_of(row, f"{self.path.name}:{line}")
        except BadItem:
            return
        names = sorted(made.metrics)
        numbers = "{" + ",".join(f'"{name}":%s' for name in names) + "}"
        first, second, third, last = (part.replace("%", "%%") for part in shared_parts(made))
        self._shared[said] = _Shared(
            place=len(self.records.shared),
            keyed=f"{first}%s{second}%s{third}{numbers}{last}",
            stored="{" + ", ".join(f'"{name}": %s' for name in names) + "}",
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
            in_key, stored = written_extra(*self.own_of(dict(zip(self.columns.own, cells, strict=True))))
        except BadItem:
            return None
        return canonical(in_key), stored

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
        some_whole = (np.trunc(values) == values).any(axis=1)
        whole = [
            [one.removesuffix(".0") for one in column] if some else column
            for column, some in zip(texts, some_whole, strict=True)
        ]
        stored = list(zip(*texts, strict=True))
        bits = 1 << np.arange(len(found), dtype=np.int64)
        count = len(rows)
        measured_at = self._pick.get("measured_at")
        return _Chunk(
            settings=self._together(columns, self.columns.setting, count),
            present=(bits @ there).tolist(),
            odd=odd.tolist(),
            stored=stored,
            keyed=list(zip(*whole, strict=True)) if some_whole.any() else stored,
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


_Told = tuple[Any, Any, Any, tuple[str, ...], tuple[str, ...]]  # setting, moment, other fields, texts of values


def _columns(told: Sequence[_Told]) -> tuple[list[Any], ...]:
    """Of points their settings, keys, metrics, times and other fields: whole columns, since there may be a million."""
    keys = [
        sha256((one.keyed % (extra[0], moment[1], *keyed)).encode()).hexdigest()
        for one, moment, extra, _, keyed in told
    ]
    metrics = [one.stored % stored for one, _, _, stored, _ in told]
    settings, times, others = (
        [one.place for one, *_ in told],
        [one[1][0] for one in told],
        [one[2][1] for one in told],
    )
    return settings, keys, metrics, times, others


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
