"""Large tables by columns: shared facts once, numbers together.

Odd or doubtful lines go to the reader of single lines, which decides."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import compress, repeat
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
    """Each column once, and one for each metric."""
    metrics = [ours for _, ours in columns.measured]
    return 0 < len(metrics) == len(set(metrics)) <= _MOST_METRICS and len(set(names)) == len(names)


_MOST_METRICS = 62  # bits of a number


class Columns(NamedTuple):
    """By how they are read."""

    measured: tuple[tuple[str, str], ...]  # (column, our name)
    setting: tuple[str, ...]  # what many lines share
    own: tuple[str, ...]  # of the user's own, and the point's name: a line's alone


class _Shared(NamedTuple):
    """Lines that differ in values, time and own columns alone."""

    place: int
    begun: hashlib._Hash  # of the canonical text of a point, up to its other fields
    parts: tuple[str, ...]  # what follows those, its moment and its values


class _Chunk(NamedTuple):
    """With each line's own texts, and lines for the other reader."""

    settings: list[tuple[str, ...]]
    present: list[int]  # bits of the metrics that a line has
    odd: list[bool]
    stored: list[str]  # values as the store keeps them
    keyed: list[str]
    moments: Sequence[str]
    own: list[tuple[str, ...]]


@dataclass(slots=True, kw_only=True)
class ColumnReader:
    """A file on its way into points."""

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
        self.records = PointTable(name=self.path.name)
        self._pick = {name: place for place, name in enumerate(self.names)}
        self._metrics = sorted((ours, self._pick[name]) for name, ours in self.columns.measured)

    def read(self, lines: Lines) -> None:
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
        told: list[Sequence[Any]] = [shared, moments, extra, lines, chunk.stored, chunk.keyed]
        alone: list[int] = []
        if None in shared or None in moments or None in extra:
            good = [
                one is not None and at is not None and own is not None for one, at, own in zip(*told[:3], strict=True)
            ]
            alone = [place for place, plain in enumerate(good) if not plain]
            told = [list(compress(column, good)) for column in told]
        columns = _columns(told)
        refused = 0
        for place in alone:
            point = self._one(lines[place], rows[place])
            refused += point is None
            for column, value in zip(columns, point or (), strict=False):
                column.insert(place - refused, value)
        self.records.extend(columns)

    def _shared_by(self, chunk: _Chunk, lines: Sequence[int], rows: Sequence[list[str]]) -> list[_Shared | None]:
        """None for an odd line, or a wrong setting."""
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
        """Unless that line is wrong."""
        try:
            made = self.record_of(row, f"{self.path.name}:{line}")
        except BadItem:
            return
        first, *others = shared_parts(made)
        self._shared[said] = _Shared(len(self.records.shared), hashlib.sha256(first.encode()), tuple(others))
        self.records.shared.append(made)

    def _moment(self, cell: str) -> tuple[datetime | None, str] | None:
        """And its text in a key; None where it is none."""
        try:
            written = text({"measured_at": cell}, "measured_at")
            found = None if written is None else moment("measured_at", written)
        except BadItem:
            return None
        self._moments[cell] = (found, moment_text(found))
        return self._moments[cell]

    def _own(self, cells: Sequence[str]) -> tuple[str, str] | None:
        """For the key and for the store; None where they are none."""
        try:
            in_key, stored = written_extra(*self.own_of(dict(zip(self.columns.own, cells, strict=True))))
        except BadItem:
            return None
        return canonical(in_key), stored

    def _one(self, line: int, row: Sequence[str]) -> Point | None:
        """By the reader of single lines: a point that shares nothing, or a problem."""
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
        texts = {ours: _written(columns[place], found[ours]) for ours, place in self._metrics}
        in_key = {ours: one.replace(".0\n", "\n") for ours, one in texts.items()}
        all_there = bool(there.all())
        bits = 1 << np.arange(len(found), dtype=np.int64)
        count = len(rows)
        measured_at = self._pick.get("measured_at")
        return _Chunk(
            settings=self._together(columns, self.columns.setting, count),
            present=(bits @ there).tolist(),
            odd=odd.tolist(),
            stored=_objects(texts, ", ", ": ", all_there=all_there),
            keyed=_objects(in_key, ",", ":", all_there=all_there),
            moments=[""] * count if measured_at is None else columns[measured_at],
            own=self._together(columns, self.columns.own, count),
        )

    def _together(self, columns: Sequence[Sequence[str]], names: Sequence[str], count: int) -> list[tuple[str, ...]]:
        return list(zip(*(columns[self._pick[name]] for name in names), strict=True)) if names else [()] * count

    def _facts(self, columns: Sequence[Sequence[str]], name: str) -> Floats | float:
        place = self._pick.get(name)
        if place is None:
            return np.nan
        told = {cell: _number(cell) for cell in {*columns[place]}}  # few, since settings have them
        return np.array(list(map(told.__getitem__, columns[place])))


def _columns(told: Sequence[Sequence[Any]]) -> tuple[list[Any], ...]:
    """Settings, lines, keys, metrics, times and other fields."""
    shared, moments, extra, lines, stored, keyed = told
    keys = [
        _ended(one, f"{in_key}{one.parts[0]}{moment}{one.parts[1]}{numbers}{one.parts[2]}")
        for one, (_, moment), (in_key, _), numbers in zip(shared, moments, extra, keyed, strict=True)
    ]
    settings, times = [one.place for one in shared], [time for time, _ in moments]
    return settings, list(lines), keys, list(stored), times, [other for _, other in extra]


def _ended(setting: _Shared, rest: str) -> str:
    """A setting's text is hashed once."""
    digest = setting.begun.copy()
    digest.update(rest.encode())
    return digest.hexdigest()


# Decimals that are what Python writes of them, but for zeros at the end.
_DECIMALS = re.compile(r"(?:(?:[1-9]\d{0,8}\.\d{1,6}|0\.\d{1,4})\n)*", re.ASCII)


def _written(column: Sequence[str], values: Floats) -> str:
    """As Python writes them: most tables do, except for trailing zeros."""
    given = "\n".join(column) + "\n"
    if not np.isfinite(values).all() or _DECIMALS.fullmatch(given) is None:
        return "".join(f"{value!r}\n" for value in values.tolist())
    return ("\n".join(map(str.rstrip, column, repeat("0"))) + "\n").replace(".\n", ".0\n")


def _objects(texts: Mapping[str, str], comma: str, colon: str, *, all_there: bool) -> list[str]:
    """JSON by line."""
    columns = {f'{comma}"{name}"{colon}': text.splitlines() for name, text in texts.items()}
    if all_there:
        told = (part for name, column in columns.items() for part in (repeat(name), column))
    else:
        told = ([name + one if one != "nan" else "" for one in column] for name, column in columns.items())
    return [f"{{{one[len(comma) :]}}}" for one in map("".join, zip(*told, strict=False))]


def _numbers(column: Sequence[str]) -> Floats:
    """NaN: none; infinity: the other reader says what is wrong."""
    try:
        return np.fromiter(map(float, column), np.float64, len(column))
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
    """Latencies and rates hundreds of times apart, or requests longer than their run.

    NaN compares with nothing."""
    ttft, tpot, e2e = (found.get(f"{name}_ms_mean", np.nan) for name in ("ttft", "tpot_exclusive", "e2e"))
    with np.errstate(all="ignore"):
        parts = ttft + np.maximum(length - 1.0, 0.0) * tpot
        rates = (found.get("requests_per_s", np.nan), found.get("output_tokens_per_s", np.nan) / length)
        apart = (e2e / parts, *(whole * rate / users / 1e3 for whole in (e2e, parts) for rate in rates))
        runs = [whole * rate / completed / 1e3 for whole in (e2e, parts, ttft) for rate in rates]
        odd = [(one > _NEAR_THOUSAND) | (one < 1.0 / _NEAR_THOUSAND) for one in apart]
        return np.asarray(sum([*odd, *(one > _NEAR_RUNS for one in runs)]) > 0)
