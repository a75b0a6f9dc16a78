"""The digest of stored rows: one sha256 over a scenario's key, its batch sizes and every number they have.

Stored with each block, and made again from the rows by whoever wants to know that they are still what was committed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from store.light_dataclass import dataclass
from store.schema.declaring import LONG, Column
from store.schema.tables import MEASURES

Composition = tuple[np.ndarray, np.ndarray, np.ndarray]  # batch sizes, bins, samples
_FORMAT = 1
_NUMBERS_AT_ONCE = 8192


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestedRows:
    """Rows of one scenario as numbers, by ascending batch size: an array a measure, NaN where it is missing.

    None stands for a measure that no row has. Arrays are not copied into one table: a measure of a block is small
    enough for a processor's cache, and a table would be asked of the system and given back with every block."""

    batch_sizes: np.ndarray
    measures: tuple[np.ndarray | None, ...]

    @classmethod
    def of_columns(cls, batch_sizes: np.ndarray, columns: Mapping[str, np.ndarray | None]) -> DigestedRows:
        given = (columns.get(column.name) for column in MEASURES)
        return cls(
            batch_sizes=np.asarray(batch_sizes),
            measures=tuple(None if values is None else as_floats(values) for values in given),
        )

    def part(self, chosen: slice | np.ndarray) -> DigestedRows:
        measures = tuple(None if values is None else values[chosen] for values in self.measures)
        return DigestedRows(batch_sizes=self.batch_sizes[chosen], measures=measures)

    def within(self, first: int, last: int) -> DigestedRows:
        return self.part(slice(*np.searchsorted(self.batch_sizes, [first, last + 1]).tolist()))


def as_floats(values: np.ndarray) -> np.ndarray:
    """Values as float64, NaN where they are masked."""
    floats = values.astype(np.float64, copy=False)
    return np.asarray(floats.filled(np.nan) if hasattr(floats, "filled") else floats)  # without importing numpy.ma


def rows_digest(scenario_key: str, rows: DigestedRows, composition: Composition | None) -> str:
    """Digest rows of a scenario, and how their batches are composed where it says so.

    The same on every database and in every part: numbers count as float64, -0 as 0, and a measure that no row has
    counts as not there, so that a measure added later changes no digest. Compositions name bins that have samples."""
    there = len(rows.batch_sizes)
    present = {one.name: one.numbers for one in _spelled(rows) if one.absent < there}
    return _digest(scenario_key, rows.batch_sizes, present, composition)


class DigestedBlocks:
    """Rows of many scenarios one below another, spelled as digests have them at once."""

    def __init__(self, batch_sizes: np.ndarray, columns: Mapping[str, np.ndarray | None]) -> None:
        self._batch_sizes = batch_sizes
        self._measures = list(_spelled(DigestedRows.of_columns(batch_sizes, columns)))

    def digest(self, scenario_key: str, start: int, end: int, composition: Composition | None) -> str:
        present = {
            one.name: one.numbers[start:end]
            for one in self._measures
            if not one.absent or not one.missing[start:end].all()
        }
        return _digest(scenario_key, self._batch_sizes[start:end], present, composition)


class _Spelled(NamedTuple):
    """Numbers of a measure with one spelling each, where they are missing, and how many are."""

    name: str
    numbers: np.ndarray
    missing: np.ndarray
    absent: int


def _spelled(rows: DigestedRows) -> Iterator[_Spelled]:
    for columns, values in _together(rows):
        table, missing = values + 0.0, np.isnan(values)
        table[missing] = np.nan  # one of many bit patterns
        for column, line, where, absent in zip(columns, table, missing, missing.sum(axis=1).tolist(), strict=True):
            numbers = np.rint(line) if column.type is LONG else line
            yield _Spelled(column.name, np.ascontiguousarray(numbers, dtype="<f8"), where, absent)


def _together(rows: DigestedRows) -> Iterator[tuple[list[Column], np.ndarray]]:
    """As many measures at a time as a processor's cache holds numbers of, a line each."""
    there = [(column, values) for column, values in zip(MEASURES, rows.measures, strict=True) if values is not None]
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, len(rows.batch_sizes)))
    for first in range(0, len(there), at_once):
        columns, values = zip(*there[first : first + at_once], strict=True)
        yield list(columns), np.stack(values)


def _digest(
    scenario_key: str, sizes: np.ndarray, present: Mapping[str, np.ndarray], composition: Composition | None
) -> str:
    head = {"format": _FORMAT, "scenario": scenario_key, "measures": list(present)}
    digest = hashlib.sha256(json.dumps(head).encode())
    digest.update(np.ascontiguousarray(sizes, dtype="<i8").data)
    for numbers in present.values():
        digest.update(numbers.data)
    if composition is not None:
        digest.update(_composed(sizes, *composition))
    return digest.hexdigest()


def _composed(batch_sizes: np.ndarray, batch: np.ndarray, bins: np.ndarray, samples: np.ndarray) -> bytes:
    if not len(batch_sizes):
        return b""
    chosen = (samples > 0) & (batch >= batch_sizes[0]) & (batch <= batch_sizes[-1])
    lines = np.stack([batch[chosen], bins[chosen], samples[chosen]]).astype("<i8")
    return np.ascontiguousarray(lines[:, np.lexsort(lines[1::-1])].T).tobytes()
