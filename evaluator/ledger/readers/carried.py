"""Points that `measurements export` wrote come back the same, unless the file was edited."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from evaluator.ledger.readers.building import (
    FIELD,
    BadItem,
    Document,
    Item,
    circumstances_of_fields,
    inner,
    moment,
    number,
    record,
    text,
    whole,
)
from evaluator.ledger.readers.clients.benchmark_report import BENCHMARK_REPORT
from evaluator.ledger.readers.clients.guidellm import GUIDELLM
from evaluator.ledger.readers.clients.guidellm_csv import document_of_point
from evaluator.ledger.readers.clients.inferencex import INFERENCEX
from evaluator.ledger.writers.carrying_facts import BLOCK, PREDICTION
from evaluator.ledger.writers.inferencex_writer import row_of_inferencex
from evaluator.ledger.writers.report_writer import report_of
from store.records import MeasurementRecord, RunRecord, SideRecord

_WRITERS: Mapping[str, Callable[[MeasurementRecord], Document]] = {
    BENCHMARK_REPORT.name: report_of,
    INFERENCEX.name: row_of_inferencex,
    GUIDELLM.name: document_of_point,
}
_TEXTS = ("model", "device", "engine", "engine_version", "mode", "precision", "kv_precision")
_NUMBERS = ("input_length", "output_length", "concurrency", "request_rate")
_KEY = re.compile("[0-9a-f]{64}")
_RUN_NUMBERS = ("accept_length", "cached_share")


def is_prediction(document: Document) -> bool:
    """In its block, or in a field of its format."""
    keywords = inner(document, "run").get("keywords")
    return (
        _block(document).get("rows") == "predicted"
        or document.get("predicted") is True
        or (isinstance(keywords, list) and "predicted" in keywords)
    )


def carried_point(document: Document, client: str, *, source: str, file: str) -> MeasurementRecord | None:
    """None where none was written, or it was changed.

    Our own predictions are rows of sweeps, not points."""
    block, writer = _block(document), _WRITERS.get(client)
    if not block or writer is None or block.get("source_format") == PREDICTION:
        return None
    try:
        made = record(_item(block), source=source, source_format=text(block, "source_format") or "", file=file)
    except BadItem:
        return None
    of_file = block.get("read_as")
    if isinstance(of_file, str) and _KEY.fullmatch(of_file):  # a person stated more than the file that it came from
        made = replace(made, read_as=of_file)
    return made if made.key == block.get("key") and _holds(document, writer(made)) else None


def _block(document: Document) -> Document:
    return inner(document, BLOCK) or inner(inner(inner(document, "results"), "profiling"), BLOCK)


def _item(block: Document) -> Item:
    extra = dict(inner(block, "extra"))
    circumstances = circumstances_of_fields(extra.pop(FIELD, None))
    metrics = inner(block, "metrics")
    said: dict[str, Any] = {name: text(block, name) for name in _TEXTS}
    said |= {name: number(block, name) for name in _NUMBERS}
    at = block.get("measured_at")
    return Item(
        **said,
        prefill=_side(inner(block, "prefill")),
        decode=_side(inner(block, "decode")),
        num_devices=whole(block, "num_devices"),
        metrics={name: number(metrics, name) for name in metrics},
        definitions={name: str(meaning) for name, meaning in inner(block, "definitions").items()},
        extra=extra,
        circumstances=circumstances,
        measured_at=None if at is None else moment("measured_at", at),
        run=_run(inner(block, "run")),
    )


def _side(held: Document) -> SideRecord:
    sizes: dict[str, Any] = {name: whole(held, name) for name in SideRecord.__slots__ if name != "batch_size"}
    return SideRecord(**sizes, batch_size=number(held, "batch_size"))


def _run(held: Document) -> RunRecord:
    said: dict[str, Any] = {
        name: number(held, name) if name in _RUN_NUMBERS
        else _count(held, name) if name.endswith("_requests") else text(held, name)
        for name in RunRecord.__slots__
    }  # fmt: skip
    return RunRecord(**said)


def _count(held: Document, name: str) -> int | None:
    value = number(held, name)
    return None if value is None else int(value)


def _holds(found: object, written: object) -> bool:
    """Others may have added to it."""
    if isinstance(written, Mapping):
        return isinstance(found, Mapping) and all(
            name in found and _holds(found[name], value) for name, value in written.items()
        )
    if isinstance(written, list):
        return isinstance(found, list) and len(found) == len(written) and all(map(_holds, found, written))
    return bool(found == written)
