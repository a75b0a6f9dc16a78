"""A server that failed, as `decide --run` writes it: no numbers, but a fact about its plan all the same."""

from __future__ import annotations

import json

from evaluator.ledger.readers.building import SERVER_FAILED, text
from evaluator.ledger.readers.declared import Reading, ResultFormat
from store.records import MeasurementRecord


def _settle(reading: Reading) -> None:
    reading.facts["mode"] = "aggregated"
    reading.extra[SERVER_FAILED] = text(reading.document, SERVER_FAILED) or "not said"


FAILED = ResultFormat(
    name=SERVER_FAILED,
    told=lambda document: SERVER_FAILED in document,
    facts={name: name for name in ("model", "device", "engine", "input_length", "output_length", "concurrency",
                                   "request_rate")},
    latencies={},
    rates={},
    settle=_settle,
)  # fmt: skip


def failure_of(record: MeasurementRecord) -> str | None:
    """Why a server gave no numbers; None for every other point."""
    found = None if record.metrics else json.loads(record.extra).get(SERVER_FAILED)
    return None if found is None else str(found)
