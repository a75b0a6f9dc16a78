"""Sentences on two sweeps: changed winners, and possible causes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from queries.scoping.names import find_sweep
from store.reading import ReadTransaction
from store.schema import SCENARIO_TABLES

if TYPE_CHECKING:
    import duckdb

_HERE = Path(__file__).parent
_WINNERS = _HERE.joinpath("winners.sql").read_text(encoding="utf-8")
_ROWS_OF_EACH = _HERE.joinpath("rows_of_each.sql").read_text(encoding="utf-8")
_MOST = 12  # lines of a kind
_FITTED = "calibration"  # the part of a profile that a fit writes
_SCENARIOS = (
    f"SELECT sc.id, d.name, d.key, d.family, d.spec, sc.formula_version, sj.serving_model FROM {SCENARIO_TABLES}"  # noqa: S608  our text
)
_SWEEPS = "SELECT started_at, program_version FROM sweep WHERE id = ?"
_PRICES = (
    "SELECT device_name, effective_from, usd_per_device_hour, watts_per_device FROM price"
    " WHERE effective_from > ? AND effective_from <= ? ORDER BY effective_from, device_name"
)


class _Scenario(NamedTuple):
    id: int
    device: str
    device_key: str
    family: str
    spec: str
    formula_version: int
    serving_model: str


class _Sweep(NamedTuple):
    started_at: datetime
    program_version: str


class _Price(NamedTuple):
    device: str
    effective_from: str
    usd_per_device_hour: float | None
    watts_per_device: float | None


@dataclass(slots=True)
class _Side:
    """One sweep's scenarios."""

    profiles: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))  # by device and key
    formula_versions: set[int] = field(default_factory=set)
    serving_models: set[str] = field(default_factory=set)


def change_lines(
    transaction: ReadTransaction,
    connection: duckdb.DuckDBPyConnection,
    groups: Iterable[tuple[int, int]],
    sweeps: Sequence[str],
    ready: Callable[[str], str],
) -> Iterator[str]:
    """Winners before and after, then other changes. `groups` are scenarios with their sweep."""
    yield from _shortened(list(_winner_lines(connection, ready(_WINNERS))), "winners")
    first, second = _sides(transaction, groups)
    yield from _profile_lines(first, second)
    if first.formula_versions != second.formula_versions:
        yield f"Formula version: {_listed(first.formula_versions)} -> {_listed(second.formula_versions)}."
    if first.serving_models != second.serving_models:
        yield f"Served by: {_listed(first.serving_models)} -> {_listed(second.serving_models)}."
    yield from _between(transaction, sweeps)
    yield from _row_counts(connection, ready(_ROWS_OF_EACH))


def _winner_lines(connection: duckdb.DuckDBPyConnection, winners: str) -> Iterator[str]:
    cursor = connection.execute(winners)
    names = [str(item[0]) for item in cursor.description or ()]
    for values in cursor.fetchall():
        row = dict(zip(names, values, strict=True))
        before, after = _winner(row, "before"), _winner(row, "after")
        gain = ""
        if row["rate_before"] and row["rate_after"]:
            gain = f" ({100 * (row['rate_after'] / row['rate_before'] - 1):+.1f} %)"
        same = (row["device_before"], row["plan_before"], row["batch_before"]) == (
            row["device_after"], row["plan_after"], row["batch_after"]
        )  # fmt: skip
        said = f"still {after}" if same else f"{before} -> {after}"
        yield f"Best {row['phase']} of {row['model']}, {row['workload']}: {said}{gain}."


def _winner(row: Mapping[str, object], when: str) -> str:
    if row[f"plan_{when}"] is None:
        return "none"
    rate = row[f"rate_{when}"]
    return f"{row[f'plan_{when}']} at {row[f'batch_{when}']} on {row[f'device_{when}']}, {rate:,.0f} tokens/s"


def _sides(transaction: ReadTransaction, groups: Iterable[tuple[int, int]]) -> tuple[_Side, _Side]:
    sides = (_Side(), _Side())
    of_each = defaultdict(set)
    for scenario, group in groups:
        of_each[scenario].add(group)
    for row in transaction.rows(_Scenario, _SCENARIOS):
        for group in of_each.get(row.id, ()):
            sides[group].profiles[row.device][row.device_key] = row.spec
            sides[group].formula_versions.add(row.formula_version)
            sides[group].serving_models.add(row.serving_model)
    return sides


def _profile_lines(first: _Side, second: _Side) -> Iterator[str]:
    for device in sorted(first.profiles.keys() & second.profiles.keys()):
        before, after = first.profiles[device], second.profiles[device]
        if before.keys() == after.keys():
            continue
        if len(before) > 1 or len(after) > 1:
            same = len(before.keys() & after.keys())
            yield f"Profiles of {device}: {len(before)} -> {len(after)}, of which {same} are the same."
            continue
        changed = list(_changed(next(iter(before.values())), next(iter(after.values()))))
        fitted = [path for path, *_ in changed if path[0] == _FITTED]
        plain = [f"{'.'.join(path)} {old} -> {new}" for path, old, new in changed if path[0] != _FITTED]
        yield from _shortened([f"{device}: {one}." for one in plain], "fields of its profile")
        if (_FITTED,) in fitted:
            yield f"{device}: one of the two sweeps is by its data sheet, without a calibration."
        elif fitted:
            numbers = "a number" if len(fitted) == 1 else f"{len(fitted)} numbers"
            yield f"{device}: {numbers} of its calibration changed, such as {'.'.join(fitted[0][1:])}."


def _changed(before: object, after: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """Leaves that differ, with their paths."""
    before, after = _read(before), _read(after)
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted(before.keys() | after.keys()):
            yield from _changed(before.get(name), after.get(name), (*path, name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _changed(one, other, (*path, str(number)))
    elif before != after:
        yield path, _said(before), _said(after)


def _read(value: object) -> object:
    """JSON kept in a text."""
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    read: object = json.loads(value)
    return read


def _said(value: object) -> str:
    if value is None:
        return "none"
    return f"{value:.6g}" if isinstance(value, int | float) else str(value)[:60]


def _between(transaction: ReadTransaction, sweeps: Sequence[str]) -> Iterator[str]:
    first, second = (next(transaction.rows(_Sweep, _SWEEPS, (find_sweep(transaction, name),))) for name in sweeps)
    if first.program_version != second.program_version:
        yield f"Program: {first.program_version} -> {second.program_version}."
    days = sorted(one.started_at.date().isoformat() for one in (first, second))
    for price in transaction.rows(_Price, _PRICES, tuple(days)):
        parts = (
            (price.usd_per_device_hour, "USD per device and hour"),
            (price.watts_per_device, "watts per device"),
        )
        said = ", ".join(f"{value:g} {unit}" for value, unit in parts if value is not None)
        yield f"Price of {price.device} from {price.effective_from} on: {said}."


def _row_counts(connection: duckdb.DuckDBPyConnection, rows_of_each: str) -> Iterator[str]:
    counts = connection.execute(rows_of_each).fetchone() or (0, 0, 0)
    both, first, second = (int(count) for count in counts)
    yield f"Rows of both sweeps: {both:,}; of the first alone: {first:,}; of the second alone: {second:,}."


def _shortened(lines: Sequence[str], what: str) -> Iterator[str]:
    yield from lines[:_MOST]
    if len(lines) > _MOST:
        yield f"... and {len(lines) - _MOST} more {what}."


def _listed(values: Collection[object]) -> str:
    return ", ".join(map(str, sorted(values, key=str)))
