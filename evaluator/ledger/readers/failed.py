"""A server that failed, as `decide --run` writes it: no numbers, but a fact about its plan all the same."""

from __future__ import annotations

import json

from evaluator.ledger.readers.building import SERVER_FAILED, Document, Item, number, rest, text
from store.records import MeasurementRecord


def is_failed(document: Document) -> bool:
    """Whether a document says that a server failed."""
    return SERVER_FAILED in document


def read_failed(document: Document) -> list[tuple[str, Item]]:
    """One failure: what it was asked for, why it failed, and its last lines. Who served is known of the launch."""
    found = Item(
        model=text(document, "model"),
        device=text(document, "device"),
        engine=text(document, "engine"),
        mode="aggregated",
        input_length=number(document, "input_length"),
        output_length=number(document, "output_length"),
        concurrency=number(document, "concurrency"),
        request_rate=number(document, "request_rate"),
        metrics={},
        definitions={},
        extra={**rest(document, _READ), SERVER_FAILED: text(document, SERVER_FAILED) or "not said"},
    )
    return [("", found)]


_READ = ("model", "device", "engine", "input_length", "output_length", "concurrency", "request_rate")


def failure_of(record: MeasurementRecord) -> str | None:
    """Why a server gave no numbers; None for every other point."""
    found = None if record.metrics else json.loads(record.extra).get(SERVER_FAILED)
    return None if found is None else str(found)
