"""Large tables of points by columns; shared facts are one record."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, NamedTuple, overload

from store.records import MeasurementRecord

Point = tuple[int, int, str, str, datetime | None, str]  # its setting, line, key, metrics, time and other fields


@dataclass(slots=True, kw_only=True)
class PointTable(Sequence[MeasurementRecord]):
    """In order of lines; records are made when asked."""

    name: str  # of the file
    shared: list[MeasurementRecord] = field(default_factory=list)  # a record each of points that say the same
    setting: array[int] = field(default_factory=lambda: array("L"))  # of each point, its place in `shared`
    lines: array[int] = field(default_factory=lambda: array("L"))
    keys: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)  # JSON, as the store keeps them
    measured_at: list[datetime | None] = field(default_factory=list)
    extra: list[str] = field(default_factory=list)  # JSON

    def extend(self, columns: Iterable[Iterable[Any]]) -> None:
        """Settings, lines, keys, metrics, times and other fields."""
        for column, values in zip(self._columns(), columns, strict=True):
            column.extend(values)

    def _columns(self) -> tuple[Any, ...]:
        return self.setting, self.lines, self.keys, self.metrics, self.measured_at, self.extra

    def __len__(self) -> int:
        return len(self.keys)

    @overload
    def __getitem__(self, place: int) -> MeasurementRecord: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[MeasurementRecord, ...]: ...
    def __getitem__(self, place: int | slice) -> MeasurementRecord | tuple[MeasurementRecord, ...]:
        if isinstance(place, slice):
            return tuple(self[one] for one in range(*place.indices(len(self))))
        return replace(
            self.shared[self.setting[place]],
            key=self.keys[place],
            source=self.sources([place])[0],
            metrics=json.loads(self.metrics[place]),
            measured_at=self.measured_at[place],
            extra=self.extra[place],
        )

    def sources(self, places: Iterable[int]) -> list[str]:
        return [f"{self.name}:{line}" for line in map(self.lines.__getitem__, places)]

    def first_of_each(self) -> PointTable:
        if len({*self.keys}) == len(self.keys):
            return self
        first: dict[str, int] = {}
        for place, key in enumerate(self.keys):
            first.setdefault(key, place)
        found = PointTable(name=self.name, shared=self.shared)
        found.extend([column[place] for place in first.values()] for column in self._columns())
        return found

    def with_shared(self, change: Callable[[MeasurementRecord], MeasurementRecord]) -> PointTable | None:
        """None where the change would change a key."""
        made = [change(one) for one in self.shared]
        if any(one.key != before.key for one, before in zip(made, self.shared, strict=True)):
            return None
        return replace(self, shared=made)


class BesideKey(NamedTuple):
    record: MeasurementRecord
    extra: str
    setting: int | None  # of a table: points of one setting share the record


def beside_key(records: Sequence[MeasurementRecord], place: int) -> BesideKey:
    if isinstance(records, PointTable):
        setting = records.setting[place]
        return BesideKey(records.shared[setting], records.extra[place], setting)
    return BesideKey(records[place], records[place].extra, None)


def keys_of(records: Sequence[MeasurementRecord]) -> Collection[str]:
    return records.keys if isinstance(records, PointTable) else [one.key for one in records]


def in_order_of_keys(places: Mapping[str, int]) -> list[int]:
    """Places by their keys, which are digests: a database appends rows that come in the order of an index."""
    if len(places) < _MANY:
        return [places[key] for key in sorted(places)]
    import numpy as np

    digits = np.frombuffer("".join(places).encode(), dtype=f">u{_DIGITS}")
    order = np.argsort(digits[:: _OF_A_KEY // _DIGITS])  # those of equal first digits may come in any order
    there = np.fromiter(places.values(), np.int64, len(places))
    return [int(place) for place in there[order]]


_MANY = 10_000  # keys, from which on their order is made of their first digits
_OF_A_KEY, _DIGITS = 64, 8  # characters of a key, and those that are compared


def read_as(records: Sequence[MeasurementRecord]) -> dict[str, str]:
    if isinstance(records, PointTable):  # nobody states more of a single point of a table
        return dict(zip(records.keys, records.keys, strict=True))
    return {record.read_as or record.key: record.key for record in records}


def told_apart(records: Sequence[MeasurementRecord]) -> Iterator[tuple[MeasurementRecord, int]]:
    """With numbers of points; values are any point's."""
    if isinstance(records, PointTable):
        for place, count in Counter(records.setting).items():
            yield records.shared[place], count
    else:
        yield from ((one, 1) for one in records)
