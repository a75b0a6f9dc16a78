"""Results of benchmark clients: which client wrote a document is told by its keys; its table is read by one reader.

Not here: packing, JSON and YAML (opening), and where each client's facts stand (a module each)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from evaluator.ledger.readers.beside import Facts, facts_beside
from evaluator.ledger.readers.building import BadItem, FileRead, Item, Problem, ReadResult, file_digest, record
from evaluator.ledger.readers.clients.aiperf import AIPERF, AIPERF_SWEEP
from evaluator.ledger.readers.clients.benchmark_report import BENCHMARK_REPORT
from evaluator.ledger.readers.clients.genai_bench import GENAI_BENCH
from evaluator.ledger.readers.clients.guidellm import GUIDELLM
from evaluator.ledger.readers.clients.inference_perf import INFERENCE_PERF
from evaluator.ledger.readers.clients.inferencex import INFERENCEX
from evaluator.ledger.readers.clients.sglang import SGLANG
from evaluator.ledger.readers.clients.vllm import VLLM
from evaluator.ledger.readers.declared import ResultFormat, read_as
from evaluator.ledger.readers.devices import named_device
from evaluator.ledger.readers.failed import FAILED
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

CLIENTS: tuple[ResultFormat, ...] = (
    INFERENCEX, GUIDELLM, AIPERF, AIPERF_SWEEP, SGLANG, VLLM, INFERENCE_PERF, BENCHMARK_REPORT, GENAI_BENCH,
    FAILED,
)  # fmt: skip
DOCUMENT_FORMATS = (*(client.name for client in CLIENTS), AIPERF_REQUESTS, REQUESTS_OF_INFERENCE_PERF)
_OF_SIDES = ("tp", "pp", "dp", "ep", "instances")
_OF_RUN = ("image", "flags")


def read_documents(path: Path) -> ReadResult:
    """Every result in a file; one that cannot be read is a problem, the others are records."""
    records: list[MeasurementRecord] = []
    problems: list[Problem] = []
    formats: set[str] = set()
    guessed: list[str] = []
    logs: dict[str, MeasuredRequests] = {}
    file = file_digest(path)
    for where, content in gathered(path.name, documents_of(path)):
        if isinstance(content, Problem):
            problems.append(content)
            continue
        try:
            source_format, items = _understood(content)
        except BadItem as problem:
            problems.append(Problem(where=where, what=str(problem)))
            continue
        formats.add(source_format)
        for suffix, item in items:
            try:
                filled = _filled(item, path)
                made = record(filled, source=where + suffix, source_format=source_format, file=file)
                records.append(made)
                guessed += filled.guessed
                if filled.requests is not None:
                    logs[made.key] = filled.requests
            except BadItem as problem:
                problems.append(Problem(where=where + suffix, what=str(problem)))
    format_ = ", ".join(sorted(formats))
    said = FileRead(place=path.name, format=format_, count=len(records), guessed=tuple(dict.fromkeys(guessed)))
    return ReadResult(records=tuple(records), problems=tuple(problems), format=format_, requests=logs, files=(said,))


def _understood(document: object) -> tuple[str, Sequence[tuple[str, Item]]]:
    if isinstance(document, RequestDocument):
        item, log = read_requests(document)
        return document.source_format, [("", replace(item, requests=log))]
    if not isinstance(document, dict):
        raise BadItem("not a JSON object")
    for client in CLIENTS:
        if client.told(document):
            return client.name, read_as(client, document)
    if "error_type" in document and "error" in document:  # what vLLM's sweep leaves of a run that failed
        raise BadItem(f"the run itself failed: {document['error_type']}: {document['error']}")
    raise BadItem(f"a result of no client we know; it has {', '.join(map(str, list(document)[:6])) or 'no fields'}")


def _filled(item: Item, path: Path) -> Item:
    """The point with what files beside its own say of the server, where its own does not."""
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
