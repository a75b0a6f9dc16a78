"""Stored points shown, corrected, deleted; their comparisons go too."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from evaluator.ledger import Stated, corrected, teaching
from queries.connect import connect
from store.errors import InputError
from store.opening import open_store
from store.records import MeasurementRecord
from store.writing import delete_measurements as delete_stored
from store.writing import get_measurements, replace_measurement

_COMPARED = """
    SELECT metric, measured, predicted, 100 * signed_error AS signed_error_percent, probe, batch_size, knowledge
    FROM validation
    WHERE measurement = $key
    ORDER BY metric, knowledge, probe
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointSelection:
    """By beginnings of keys, or by filters of `list`."""

    points: tuple[str, ...] = ()
    model: str | None = None
    device: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PointComparison:
    metric: str
    measured: float
    predicted: float
    signed_error_percent: float
    probe: str | None
    batch_size: int
    knowledge: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownPoint:
    """Everything its source said, and its comparisons."""

    record: MeasurementRecord
    comparisons: tuple[PointComparison, ...]

    def fields(self) -> list[tuple[str, object]]:
        flat = asdict(self.record)
        found: list[tuple[str, object]] = [("measurement", flat.pop("key"))]
        sides = {side: flat.pop(side) for side in ("prefill", "decode")}
        metrics, definitions = flat.pop("metrics"), flat.pop("definitions")
        extra: dict[str, object] = json.loads(flat.pop("extra"))
        found += flat.items()
        found += [(f"{side}_{name}", value) for side, sizes in sides.items() for name, value in sizes.items()]
        found += metrics.items()
        found += [(f"definition of {name}", text) for name, text in definitions.items()]
        return [(name, value) for name, value in (*found, *extra.items()) if value is not None]


def shown_measurement(point: str, store_url: str | None) -> ShownPoint:
    with open_store(store_url, read_only=True) as store:
        record = _one(point, get_measurements(store))
    with connect(store_url) as connection:
        rows = connection.execute(_COMPARED, {"key": record.key}).fetchall()
    names = PointComparison.__slots__
    compared = tuple(PointComparison(**dict(zip(names, row, strict=True))) for row in rows)
    return ShownPoint(record=record, comparisons=compared)


def delete_measurements(selection: PointSelection, store_url: str | None) -> tuple[str, ...]:
    with open_store(store_url) as store:
        keys = tuple(record.key for record in _selected(selection, get_measurements(store)))
        delete_stored(store, keys)
    return keys


def correct_measurements(selection: PointSelection, changes: Stated, store_url: str | None) -> tuple[str, ...]:
    """Returns new keys.

    Comparisons with the old are removed. Reading the file again leaves a corrected point alone."""
    if not changes:
        raise InputError("nothing is given to correct", hint="such as `set=engine_version=0.9.1`")
    keys = []
    with open_store(store_url) as store:
        for record in _selected(selection, get_measurements(store)):
            made = corrected(record, changes)
            if made.key != record.key:
                replace_measurement(store, record.key, made)
            keys.append(made.key)
    return tuple(dict.fromkeys(keys))


def let_measurements_teach(selection: PointSelection, store_url: str | None, *, learn: bool) -> tuple[str, ...]:
    """Points and comparisons stay."""
    keys = []
    with open_store(store_url) as store:
        for record in _selected(selection, get_measurements(store)):
            replace_measurement(store, record.key, teaching(record, learn=learn))
            keys.append(record.key)
    return tuple(keys)


def selected_points(selection: PointSelection, records: Sequence[MeasurementRecord]) -> list[MeasurementRecord]:
    narrowed = selection.points or selection.model or selection.device or selection.source
    return _selected(selection, records) if narrowed else list(records)


def _selected(selection: PointSelection, records: Sequence[MeasurementRecord]) -> list[MeasurementRecord]:
    filters = (selection.model, selection.device, selection.source)
    if selection.points:
        if any(filters):
            raise InputError("points are named or filtered, not both", hint="sweepdb measurements list")
        return list({record.key: record for record in (_one(point, records) for point in selection.points)}.values())
    if not any(filters):
        raise InputError(
            "no measured point is named", hint="name points of sweepdb measurements list, or filter: `source=run.json`"
        )
    found = [record for record in records if _fits(selection, record)]
    if not found:
        raise InputError("no stored point fits these filters", hint="sweepdb measurements list")
    return found


def _one(point: str, records: Sequence[MeasurementRecord]) -> MeasurementRecord:
    found = [record for record in records if point and record.key.startswith(point)]
    if len(found) != 1:
        told = (
            f"{len(found)} measured points begin with {point!r}" if found else f"there is no measured point {point!r}"
        )
        raise InputError(told, hint="sweepdb measurements list shows their names")
    return found[0]


def _fits(selection: PointSelection, record: MeasurementRecord) -> bool:
    """A part of the text in any case, or a format's name."""
    return (
        _holds(record.model, selection.model)
        and _holds(record.device, selection.device)
        and (_holds(record.source, selection.source) or record.source_format == selection.source)
    )


def _holds(text: str | None, part: str | None) -> bool:
    return part is None or part.lower() in (text or "").lower()
