"""A store's own points of the models and devices that a question is about, many runs of a setting joined."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib.util import find_spec
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from queries.learning import OwnPoints
from store.light_dataclass import NamedTuple
from store.location import StoreLocation
from store.reading import read_transaction
from store.schema import TABLES, scenario_tables
from store.sealing import ranges_of, snapshot_directories
from sweepdb.own_runs.kept_points import KeptPoints, KeyAndDevice, StatedModel

if TYPE_CHECKING:
    from store.reading import ReadTransaction
    from store.records import MeasurementRecord
    from sweepdb.own_runs.points import NumberedRuns

MOST_APART = 300  # points of a store; of more, runs of one setting are read as one
MOST_READ = 100_000  # points of a store, the newest
_ABOUT = (
    f"SELECT DISTINCT m.key, d.name FROM {{ranges}} CROSS JOIN {scenario_tables('m', 'd')}"  # noqa: S608  ours
    " WHERE sc.id BETWEEN r.lo AND r.hi"
)
_STATED = (
    f"SELECT DISTINCT model, device FROM {TABLES['measurement_facts'].name}"  # noqa: S608  ours
    " WHERE model IS NOT NULL AND device IS NOT NULL"
)
_MARKS = (
    f"SELECT measurement.id, key, tags, accept_length, cached_share FROM {TABLES['measurement'].rows}"  # noqa: S608  ours
    " WHERE model = ? AND device = ? AND measurement.id > ? ORDER BY measurement.id"
)
_LAST_UNREAD = f"SELECT id FROM measurement ORDER BY id DESC LIMIT 1 OFFSET {MOST_READ}"  # noqa: S608  a number
_DECIDE = (
    "evaluator",
    "queries/learning",
    "queries/measured_rows",
    "sweepdb/own_runs",
)  # code and data that decide what a point is of


class _Mark(NamedTuple):
    """The part of a point that can change; its key has the rest."""

    id: int
    key: str
    tags: str | None
    accept_length: float | None
    cached_share: float | None


class _About(NamedTuple):
    model_key: str
    device: str


def own_points(location: StoreLocation, scenarios: Collection[int]) -> OwnPoints:
    """Matching names takes a second of imports and a tenth of a millisecond a point: what was found is kept."""
    return _read(location, scenarios, kept=True)


def read_own_points(location: StoreLocation, scenarios: Collection[int]) -> OwnPoints:
    """Believes no file beside the store."""
    return _read(location, scenarios, kept=False)


def _read(location: StoreLocation, scenarios: Collection[int], *, kept: bool) -> OwnPoints:
    with read_transaction(location) as transaction:
        count = next(transaction.values(int, "SELECT count(*) FROM measurement"))
        if not count:
            return OwnPoints()
        program = hashlib.sha256(repr(program_files()).encode()).hexdigest()
        beside = KeptPoints(snapshot_directories(location, transaction.store_id) if kept else (), program)
        after = next(transaction.values(int, _LAST_UNREAD), 0)
        groups = {
            group: list(transaction.rows(_Mark, _MARKS, (*group, after)))
            for group in _groups(transaction, scenarios, beside)
        }
    apart = count <= MOST_APART
    digests = {
        group: hashlib.sha256(repr((program, apart, marks)).encode()).hexdigest() for group, marks in groups.items()
    }
    found = {group: beside.load(group, digest) for group, digest in digests.items()}
    if lacking := [group for group, points in found.items() if points is None]:
        for group, points in _from_records(location, lacking, after=after, apart=apart):
            beside.keep(group, digests[group], points)
            found[group] = points
    return _joined([points for points in found.values() if points is not None])


def _groups(transaction: ReadTransaction, scenarios: Collection[int], beside: KeptPoints) -> Iterable[StatedModel]:
    ids = json.dumps([(0, *one) for one in ranges_of(scenarios)])
    about: set[KeyAndDevice] = set(transaction.rows(_About, _ABOUT.format(ranges=transaction.ranges), [ids]))
    names = beside.names(list(transaction.rows(StatedModel, _STATED))) if about else {}
    return [group for group, name in names.items() if name in about]


def _from_records(
    location: StoreLocation, groups: Iterable[StatedModel], *, after: int, apart: bool
) -> Iterator[tuple[StatedModel, OwnPoints]]:
    from store.opening import open_store
    from store.writing import numbered_measurements
    from sweepdb.own_runs.points import points_of_runs

    with open_store(location.url, read_only=True) as store:
        for group in groups:
            records = list(numbered_measurements(store, *group, after=after))
            yield group, points_of_runs(together(records, apart=apart))


def _joined(groups: Sequence[OwnPoints]) -> OwnPoints:
    """In the order of all, whatever sources call their servers."""
    if len(groups) == 1:
        return groups[0]
    return OwnPoints(
        points=tuple(sorted((one for some in groups for one in some.points), key=attrgetter("order"))),
        failed=tuple(sorted((one for some in groups for one in some.failed), key=lambda one: one.point.order)),
    )


def together(records: Iterable[tuple[int, MeasurementRecord]], *, apart: bool) -> Sequence[NumberedRuns]:
    """Unless `apart`, the newest of a setting's runs with the median of all."""
    from sweepdb.own_runs.points import NumberedRuns

    every = sorted((NumberedRuns(one, 1, number) for number, one in records), key=attrgetter("order"))
    if apart:
        return every
    settings: dict[object, list[NumberedRuns]] = {}
    for ran in every:
        one = ran.record
        setting = _setting_of(one) if one.metrics else one.key  # a server that failed is a fact by itself
        settings[setting] = [*settings.pop(setting, ()), ran]
    return [
        NumberedRuns(_middle([one.record for one in runs]), len(runs), runs[-1].number) for runs in settings.values()
    ]


def _setting_of(one: MeasurementRecord) -> object:
    """Decides its stored row, and whether and what it may teach."""
    from evaluator.ledger import asks_seldom, prompts_per_user

    facts = (
        one.model, one.device, one.engine, one.engine_version, one.mode, one.precision, one.kv_precision,
        one.num_devices, one.input_length, one.output_length, one.concurrency, one.request_rate,
    )  # fmt: skip
    run = (one.run.tags, one.run.accept_length, one.run.cached_share, asks_seldom(prompts_per_user(one)))
    return (*facts, *run, one.prefill, one.decode, tuple(sorted(one.definitions.items())))


def _middle(runs: Sequence[MeasurementRecord]) -> MeasurementRecord:
    """The newest, with medians."""
    from dataclasses import replace
    from statistics import median

    from evaluator.ledger import central_metrics

    if len(runs) == 1:
        return runs[0]
    values: dict[str, list[float]] = {}
    for one in runs:
        for name, value in central_metrics(one.metrics).items():
            if value > 0.0:
                values.setdefault(name, []).append(value)
    return replace(runs[-1], metrics={name: median(some) for name, some in values.items()})


def program_files() -> list[tuple[str, int, int]]:
    """Files that decide a point's meaning, by name, size and time."""
    root = Path(str(find_spec("evaluator").origin)).parents[1]  # type: ignore[union-attr]  # it is part of us
    return sorted(stamp for part in _DECIDE for stamp in _stamps(root / part, part))


def _stamps(folder: Path, name: str) -> Iterator[tuple[str, int, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir() and not entry.name.startswith((".", "__")):
                yield from _stamps(Path(entry.path), f"{name}/{entry.name}")
            elif entry.name.endswith((".py", ".yaml", ".csv", ".json")):
                found = entry.stat()
                yield f"{name}/{entry.name}", found.st_size, found.st_mtime_ns
