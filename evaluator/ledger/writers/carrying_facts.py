"""The block that every format carries beside its own fields, so that a point comes back as the same one.

A format has no place for the half of our facts. All of them stand in one block, of which a reader takes the point where
the other fields still say the same (evaluator.ledger.readers.carried)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from store.records import MeasurementRecord

BLOCK = "sweepdb"  # the name of the block in every format
PREDICTION = "sweepdb_prediction"  # the format of a stored prediction as a point
_PREDICTED_BY = "predicted by"  # in a definition: no measurement, as the view of measurements has it
_APART = ("extra", "measured_at", "source", "file")


def is_predicted(record: MeasurementRecord) -> bool:
    """Whether the values of a point were predicted, by us or by another program."""
    return any(_PREDICTED_BY in meaning for meaning in record.definitions.values())


def rows_of_kind(record: MeasurementRecord) -> str:
    """How a point is marked in every format."""
    return "predicted" if is_predicted(record) else "measured"


def block_of_record(record: MeasurementRecord) -> dict[str, Any]:
    """Every fact of a point but where it was read."""
    facts = {name: value for name, value in asdict(record).items() if name not in _APART}
    facts |= {"extra": json.loads(record.extra), "rows": rows_of_kind(record)}
    facts["measured_at"] = None if record.measured_at is None else record.measured_at.isoformat()
    return _said(facts)


def _said(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that are there, of nested ones, too. What a person kept in `extra` stays as it is."""
    inside = {
        name: _said(value) if isinstance(value, dict) and name != "extra" else value for name, value in facts.items()
    }
    return {name: value for name, value in inside.items() if value is not None and value != {}}


def statistics_of_latency(record: MeasurementRecord, latency: str) -> Iterator[tuple[str, float]]:
    """(mean, std, p50, p99.9 ...; milliseconds) of `ttft_ms` and its kin."""
    for name, value in record.metrics.items():
        kind, _, statistic = name.rpartition("_")
        if kind == latency:
            yield statistic, value


def devices_of_side(record: MeasurementRecord, side: str) -> int | None:
    """Devices of all instances of a side; of a deployment that is not apart, all of it."""
    if record.mode != "disaggregated" and record.num_devices is not None:
        return record.num_devices
    held = getattr(record, side)
    return None if held.tp is None else held.tp * (held.pp or 1) * (held.dp or 1) * (held.instances or 1)
