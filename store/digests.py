"""The digest of stored rows: one sha256 over a scenario's key, its batch sizes and every number they have.

Stored with each block, and made again from the rows by whoever wants to know that they are still what was committed.
Not here: reading rows (store.reading), comparing (store.upkeep)."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from store.schema.declaring import LONG
from store.schema.measures import MEASURES

Composition = tuple[np.ndarray, np.ndarray, np.ndarray]  # batch sizes, bins, samples
_FORMAT = 1
_WHOLE = [column.type is LONG for column in MEASURES]
_NAMES = [column.name for column in MEASURES]


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestedRows:
    """Rows of one scenario as numbers: a line a batch size, ascending; a column a measure, NaN where it is missing."""

    batch_sizes: np.ndarray
    values: np.ndarray

    @classmethod
    def of_columns(cls, batch_sizes: np.ndarray, columns: Mapping[str, np.ndarray | None]) -> DigestedRows:
        """Rows from arrays by the names of measures; a measure that is absent is missing everywhere."""
        table = np.full((len(batch_sizes), len(MEASURES)), np.nan)
        for number, column in enumerate(MEASURES):
            if (values := columns.get(column.name)) is not None:
                table[:, number] = np.ma.filled(values.astype(np.float64), np.nan)
        return cls(batch_sizes=np.asarray(batch_sizes), values=table)

    def within(self, first: int, last: int) -> DigestedRows:
        """The rows of an interval of batch sizes."""
        chosen = (self.batch_sizes >= first) & (self.batch_sizes <= last)
        return DigestedRows(batch_sizes=self.batch_sizes[chosen], values=self.values[chosen])


def rows_digest(scenario_key: str, rows: DigestedRows, composition: Composition | None) -> str:
    """Digest rows of a scenario, and how their batches are composed where it says so.

    The same on every database and in every part: numbers count as float64, -0 as 0, and a measure that no row has
    counts as not there, so that a measure added later changes no digest. Compositions name bins that have samples."""
    return _digest(scenario_key, rows.batch_sizes, *_spelled(rows.values.T), composition)


class DigestedBlocks:
    """Rows of many scenarios one below another, spelled as digests have them at once: a line a measure."""

    def __init__(self, batch_sizes: np.ndarray, columns: Iterable[np.ndarray | None]) -> None:
        table = np.full((len(MEASURES), len(batch_sizes)), np.nan)
        for number, values in enumerate(columns):
            if values is not None:
                table[number] = values
        self._batch_sizes = batch_sizes
        self._values, self._missing = _spelled(table)

    def digest(self, scenario_key: str, start: int, end: int, composition: Composition | None) -> str:
        """The digest of the rows from `start` up to `end`, as `rows_digest` gives it."""
        rows = slice(start, end)
        sizes, values = self._batch_sizes[rows], self._values[:, rows]
        return _digest(scenario_key, sizes, values, self._missing[:, rows], composition)


def _spelled(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Numbers with one spelling each, a line a measure, and where they are missing."""
    values = values + 0.0
    values[_WHOLE] = np.rint(values[_WHOLE])
    missing = np.isnan(values)
    values[missing] = np.nan  # one of many bit patterns
    return values, missing


def _digest(
    scenario_key: str, sizes: np.ndarray, values: np.ndarray, missing: np.ndarray, composition: Composition | None
) -> str:
    present = np.flatnonzero(~missing.all(axis=1))
    head = {"format": _FORMAT, "scenario": scenario_key, "measures": [_NAMES[number] for number in present.tolist()]}
    digest = hashlib.sha256(json.dumps(head).encode())
    digest.update(np.ascontiguousarray(sizes, dtype="<i8").tobytes())
    digest.update(np.ascontiguousarray(values[present], dtype="<f8").tobytes())
    if composition is not None:
        digest.update(_composed(sizes, *composition))
    return digest.hexdigest()


def _composed(batch_sizes: np.ndarray, batch: np.ndarray, bins: np.ndarray, samples: np.ndarray) -> bytes:
    """The composition of these batches, by batch size and bin."""
    if not len(batch_sizes):
        return b""
    chosen = (samples > 0) & (batch >= batch_sizes[0]) & (batch <= batch_sizes[-1])
    lines = np.stack([batch[chosen], bins[chosen], samples[chosen]]).astype("<i8")
    return np.ascontiguousarray(lines[:, np.lexsort(lines[1::-1])].T).tobytes()
