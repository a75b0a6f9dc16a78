"""A store's own points, many runs of a setting joined, in a file beside the store.

Matching names takes a second of imports and a millisecond a point; the file holds while points and program stay."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from queries.learning import Apart, FailedStart, OwnPoint, OwnPoints, Server
from store.errors import SweepdbError
from store.light_dataclass import NamedTuple
from store.location import StoreLocation
from store.reading import read_transaction
from store.schema import TABLES
from store.sealing import snapshot_directories
from store.whole_files import written_whole

if TYPE_CHECKING:
    from store.records import MeasurementRecord

MOST_APART = 300  # points; of more, runs of one setting are read as one
MOST_READ = 100_000  # points, the newest
KEPT = "own-points.json"
_MARKS = (
    f"SELECT key, tags, accept_length, cached_share FROM {TABLES['measurement'].rows}"  # noqa: S608  ours
    f" ORDER BY measurement.id DESC LIMIT {MOST_READ}"
)
_DECIDE = (
    "evaluator",
    "queries/learning",
    "queries/measured_rows",
    "sweepdb/own_runs",
)  # code and data that decide what a point is of


class _Mark(NamedTuple):
    """The part of a point that can change; its key has the rest."""

    key: str
    tags: str | None
    accept_length: float | None
    cached_share: float | None


def own_points(location: StoreLocation) -> OwnPoints:
    with read_transaction(location) as transaction:
        marks = list(transaction.rows(_Mark, _MARKS))
        store_id = transaction.store_id
    if not marks:
        return OwnPoints()
    digest = hashlib.sha256(repr((program_files(), marks)).encode()).hexdigest()
    places = [place / KEPT for place in snapshot_directories(location, store_id) if place.is_dir()]
    found = next((kept for place in places if (kept := _kept(place, digest)) is not None), None)
    if found is None:
        found = read_own_points(location)
        _keep(places, digest, found)
    return found


def read_own_points(location: StoreLocation) -> OwnPoints:
    from store.opening import open_store
    from store.writing import get_measurements
    from sweepdb.own_runs.points import points_of_records

    with open_store(location.url, read_only=True) as store:
        return points_of_records(together(get_measurements(store, newest=MOST_READ)))


def together(records: Sequence[MeasurementRecord]) -> Iterable[tuple[MeasurementRecord, int]]:
    """With numbers of runs: of many, the newest with the median of all."""
    records = sorted(records, key=lambda one: one.measured_at.timestamp() if one.measured_at else -math.inf)
    if len(records) <= MOST_APART:
        return [(one, 1) for one in records]
    settings: dict[object, list[MeasurementRecord]] = {}
    for one in records:
        setting = _setting_of(one) if one.metrics else one.key  # a server that failed is a fact by itself
        settings[setting] = [*settings.pop(setting, ()), one]
    return [(_middle(runs), len(runs)) for runs in settings.values()]


def _setting_of(one: MeasurementRecord) -> object:
    """Decides its stored row, and whether it may teach."""
    facts = (
        one.model, one.device, one.engine, one.engine_version, one.mode, one.precision, one.kv_precision,
        one.num_devices, one.input_length, one.output_length, one.concurrency, one.request_rate,
    )  # fmt: skip
    run = (one.run.tags, one.run.accept_length, one.run.cached_share)
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


def _keep(places: Iterable[Path], digest: str, found: OwnPoints) -> None:
    text = json.dumps({"digest": digest, **asdict(found)})
    for place in places:
        with suppress(OSError, SweepdbError), written_whole(place) as path:
            path.write_text(text, encoding="utf-8")
            return


def _kept(place: Path, digest: str) -> OwnPoints | None:
    """None where outdated or unreadable."""
    try:
        told = json.loads(place.read_text(encoding="utf-8"))
        if told["digest"] != digest:
            return None
        return OwnPoints(
            points=tuple(map(_point, told["points"])),
            silent=tuple((source, reason) for source, reason in told["silent"]),
            failed=tuple(FailedStart(_point(one), *rest) for one, *rest in told["failed"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _point(told: dict[str, object]) -> OwnPoint:
    from queries.learning import Setting  # brings NumPy, which a store without points does not need

    made = {"server": Server, "setting": Setting, "prompts": Apart}
    parts = {name: kind(*told[name]) for name, kind in made.items() if told[name] is not None}  # type: ignore[misc]
    return OwnPoint(**{**told, **parts})
