"""Files of measured points side by side, without a store."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from statistics import median

from evaluator.ledger import Problem
from store.errors import InputError
from store.records import MeasurementRecord
from sweepdb.measuring.measurement_files import read_files

_SERVED = ("model", "device", "engine", "engine_version", "mode", "precision", "kv_precision", "num_devices")
_SIZES = ("instances", "tp", "pp", "dp", "ep", "batch_size")
_SIDED = tuple((f"{side}_{size}", side, size) for side in ("prefill", "decode") for size in _SIZES)
_OF_SIDES = (*_SIZES, *(name for name, *_ in _SIDED))
_ASKED = ("input_length", "output_length", "concurrency", "request_rate")
_NEAR = 0.02  # of lengths and loads that clients count rather than are told
Facts = Mapping[str, object]
Asked = tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A file or folder: what its points ran on, and how many."""

    name: str
    points: int
    served: Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesCompared:
    """The first side is the reference."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    sides: tuple[Side, ...]
    problems: tuple[Problem, ...]


@dataclass(slots=True, kw_only=True)
class _Setting:
    """Load and server, with each metric's values by side."""

    facts: tuple[object, ...]
    asked: Asked
    values: dict[str, dict[str, list[float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    holders: set[str] = field(default_factory=set)


def compare_files(paths: Sequence[Path]) -> FilesCompared:
    """Against the first.

    Settings match by lengths and load within 2 %, since clients count them. What served is part of a setting where it
    differs within a side. Repeated runs count by their median."""
    if len(paths) < 2:
        raise InputError("compare needs two files or folders", hint="sweepdb compare before.json after.json")
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("compare needs files or folders that differ: one is named twice")
    names = _told_apart(paths)
    read = {name: read_files([path]) for name, path in zip(names, paths, strict=True)}
    for path, found in zip(paths, read.values(), strict=True):
        if not found.records:
            why = f": {found.problems[0].where}: {found.problems[0].what}" if found.problems else ""
            raise InputError(f"{path} holds no point that can be read{why}")
    served = {name: [_served(one) for one in found.records] for name, found in read.items()}
    varying = tuple(fact for fact in _facts_of(served) if any(_differ(points, fact) for points in served.values()))
    settings = _Settings()
    for name, found in read.items():
        for record, facts in zip(found.records, served[name], strict=True):
            setting = settings.of(tuple(facts.get(fact) for fact in varying), _asked(record))
            setting.holders.add(name)
            for metric, value in record.metrics.items():
                setting.values[metric][name].append(value)
    return FilesCompared(
        columns=(*varying, *_ASKED, "metric", *names, *(f"{name} %" for name in names[1:]), "only_in"),
        rows=tuple(row for setting in settings.in_order() for row in _rows(setting, names)),
        sides=tuple(Side(name=name, points=len(served[name]), served=_same(served[name], varying)) for name in names),
        problems=tuple(problem for found in read.values() for problem in found.problems),
    )


def _told_apart(paths: Sequence[Path]) -> list[str]:
    """Without the folders that all begin with."""
    levels = zip(*(path.parts[:-1] for path in paths), strict=False)
    shared = sum(1 for _ in takewhile(lambda folders: len(set(folders)) == 1, levels))
    return [str(Path(*path.parts[shared:])) for path in paths]


def _served(record: MeasurementRecord) -> dict[str, object]:
    facts: dict[str, object] = {name: getattr(record, name) for name in _SERVED}
    if record.prefill == record.decode:
        facts |= {name: getattr(record.decode, name) for name in _SIZES}
    else:
        facts |= {name: getattr(getattr(record, side), size) for name, side, size in _SIDED}
    return {name: value for name, value in facts.items() if value is not None}


def _asked(record: MeasurementRecord) -> Asked:
    return tuple(getattr(record, name) for name in _ASKED)


def _facts_of(served: Mapping[str, Iterable[Facts]]) -> list[str]:
    found = {fact for points in served.values() for point in points for fact in point}
    return [fact for fact in (*_SERVED, *_OF_SIDES) if fact in found]


def _differ(points: Sequence[Facts], fact: str) -> bool:
    return len({point.get(fact) for point in points}) > 1


def _same(points: Sequence[Facts], varying: Sequence[str]) -> Facts:
    return {fact: value for fact, value in points[0].items() if fact not in varying}


class _Settings:
    """A setting near to an earlier one is that one."""

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], list[_Setting]] = defaultdict(list)
        self._exact: dict[tuple[object, ...], _Setting] = {}

    def of(self, facts: tuple[object, ...], asked: Asked) -> _Setting:
        setting = self._exact.get((facts, asked)) or next(
            (one for one in self._found[facts] if all(map(_near, one.asked, asked))), None
        )
        if setting is None:
            setting = _Setting(facts=facts, asked=asked)
            self._found[facts].append(setting)
        self._exact[facts, asked] = setting
        return setting

    def in_order(self) -> list[_Setting]:
        every = [setting for settings in self._found.values() for setting in settings]
        return sorted(every, key=lambda one: ([str(fact) for fact in one.facts],
                                              [-1.0 if value is None else value for value in one.asked]))  # fmt: skip


def _near(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=_NEAR)


def _rows(setting: _Setting, names: Sequence[str]) -> Iterable[tuple[object, ...]]:
    only = "" if len(setting.holders) == len(names) else ", ".join(name for name in names if name in setting.holders)
    for metric, by_side in sorted(setting.values.items()):
        values = [median(by_side[name]) if name in by_side else None for name in names]
        first = values[0]
        changes = [None if first is None or value is None else 100.0 * (value / first - 1.0) for value in values[1:]]
        yield (*setting.facts, *setting.asked, metric, *values, *changes, only or None)
