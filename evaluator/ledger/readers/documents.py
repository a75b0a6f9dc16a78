"""A client's document is told by its keys."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from evaluator.ledger.readers.beside import Facts, facts_beside
from evaluator.ledger.readers.building import (
    SERVER_FAILED,
    BadItem,
    Document,
    FileRead,
    Item,
    Problem,
    ReadResult,
    file_digest,
    record,
    text,
)
from evaluator.ledger.readers.carried import carried_point, is_prediction
from evaluator.ledger.readers.clients.aiperf import AIPERF, AIPERF_SWEEP
from evaluator.ledger.readers.clients.benchmark_report import BENCHMARK_REPORT
from evaluator.ledger.readers.clients.genai_bench import GENAI_BENCH
from evaluator.ledger.readers.clients.guidellm import GUIDELLM
from evaluator.ledger.readers.clients.inference_perf import INFERENCE_PERF
from evaluator.ledger.readers.clients.inferencex import INFERENCEX
from evaluator.ledger.readers.clients.sglang import SGLANG
from evaluator.ledger.readers.clients.vllm import VLLM
from evaluator.ledger.readers.declared import Reading, ResultFormat, named_device, read_as
from evaluator.ledger.readers.opening import documents_of
from evaluator.ledger.readers.request_logs import (
    AIPERF_REQUESTS,
    REQUESTS_OF_INFERENCE_PERF,
    RequestDocument,
    gathered,
    read_requests,
)
from store.loads import MeasuredRequests
from store.records import MeasurementRecord


def _settle(reading: Reading) -> None:
    reading.facts["mode"] = "aggregated"
    reading.extra[SERVER_FAILED] = text(reading.document, SERVER_FAILED) or "not said"


FAILED = ResultFormat(
    name=SERVER_FAILED,
    told=lambda document: SERVER_FAILED in document,
    facts={name: name for name in ("model", "device", "engine", "input_length", "output_length", "concurrency",
                                   "request_rate", "measured_at")},
    latencies={},
    rates={},
    settle=_settle,
)  # fmt: skip


def failure_of(record: MeasurementRecord) -> str | None:
    """None for points with numbers."""
    found = None if record.metrics else json.loads(record.extra).get(SERVER_FAILED)
    return None if found is None else str(found)


CLIENTS: tuple[ResultFormat, ...] = (
    INFERENCEX, GUIDELLM, AIPERF, AIPERF_SWEEP, SGLANG, VLLM, INFERENCE_PERF, BENCHMARK_REPORT, GENAI_BENCH,
    FAILED,
)  # fmt: skip
DOCUMENT_FORMATS = (*(client.name for client in CLIENTS), AIPERF_REQUESTS, REQUESTS_OF_INFERENCE_PERF)
_OF_SIDES = ("tp", "pp", "dp", "ep", "instances")
_OF_RUN = ("image", "flags")


def read_documents(path: Path) -> ReadResult:
    found = _Found()
    file = file_digest(path)
    for where, content in gathered(path.name, documents_of(path)):
        if isinstance(content, Problem):
            found.problems.append(content)
        elif not (isinstance(content, dict) and _is_own(content, where, file, found)):
            _read_into(found, content, where, path, file)
    format_ = ", ".join(sorted(found.formats))
    said = FileRead(
        place=path.name,
        format=format_,
        count=len(found.records),
        guessed=tuple(dict.fromkeys(found.guessed)),
        predictions=found.predictions,
    )
    return ReadResult(
        records=tuple(found.records),
        problems=tuple(found.problems),
        format=format_,
        requests=found.logs,
        files=(said,),
    )


@dataclass(slots=True)
class _Found:
    """A file's yield so far."""

    records: list[MeasurementRecord] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    formats: set[str] = field(default_factory=set)
    guessed: list[str] = field(default_factory=list)
    logs: dict[str, MeasuredRequests] = field(default_factory=dict)
    predictions: int = 0


def _is_own(document: Document, where: str, file: str, found: _Found) -> bool:
    client = _client_of(document)
    made = None if client is None else carried_point(document, client.name, source=where, file=file)
    if client is None or (made is None and not is_prediction(document)):
        return False
    found.formats.add(client.name)
    if made is None:
        found.predictions += 1
    else:
        found.records.append(made)
    return True


def _read_into(found: _Found, content: object, where: str, path: Path, file: str) -> None:
    try:
        source_format, items = _understood(content)
    except BadItem as problem:
        found.problems.append(Problem(where=where, what=str(problem)))
        return
    found.formats.add(source_format)
    for suffix, item in items:
        try:
            filled = _filled(item, path)
            made = record(filled, source=where + suffix, source_format=source_format, file=file)
        except BadItem as problem:
            found.problems.append(Problem(where=where + suffix, what=str(problem)))
            continue
        found.records.append(made)
        found.guessed += filled.guessed
        if filled.requests is not None:
            found.logs[made.key] = filled.requests


def _client_of(document: Document) -> ResultFormat | None:
    return next((client for client in CLIENTS if client.told(document)), None)


def _understood(document: object) -> tuple[str, Sequence[tuple[str, Item]]]:
    if isinstance(document, RequestDocument):
        item, log = read_requests(document)
        return document.source_format, [("", replace(item, requests=log))]
    if not isinstance(document, dict):
        raise BadItem("not a JSON object")
    client = _client_of(document)
    if client is not None:
        return client.name, read_as(client, document)
    if "error_type" in document and "error" in document:  # what vLLM's sweep leaves of a run that failed
        raise BadItem(f"the run itself failed: {document['error_type']}: {document['error']}")
    raise BadItem(f"a result of no client we know; it has {', '.join(map(str, list(document)[:6])) or 'no fields'}")


def _filled(item: Item, path: Path) -> Item:
    for name, facts in facts_beside(path):
        item = _with(item, name, facts)
    return item


def _with(item: Item, name: str, facts: Facts) -> Item:
    lacking: dict[str, Any] = {
        fact: value
        for fact, value in facts.items()
        if fact not in (*_OF_SIDES, *_OF_RUN, "unit") and getattr(item, fact) is None
    }
    if lacking.get("device"):
        lacking["device"] = named_device(lacking["device"])
    sides = {}
    for side in ("prefill", "decode"):
        held = getattr(item, side)
        sizes = {size: facts[size] for size in _OF_SIDES if size in facts and getattr(held, size) is None}
        if sizes:
            sides[side] = replace(held, **sizes)
    run = {fact: facts[fact] for fact in _OF_RUN if fact in facts and getattr(item.run, fact) is None}
    if not lacking and not sides and not run:
        return item
    told = [f"{fact} {value} from {name}" for fact, value in lacking.items()]
    told += [f"{', '.join(size for size in _OF_SIDES if size in facts)} from {name}"] if sides else []
    more: dict[str, Any] = {**lacking, **sides, "run": replace(item.run, **run)}
    return replace(item, **more, guessed=(*item.guessed, *told))
