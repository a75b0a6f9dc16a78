"""JSON files of benchmark clients: one result, an array of them, or one a line; or a request each. Which client wrote a
result is told by its keys. Not here: what each client calls its numbers (vllm, inferencex, aiperf, guidellm)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from evaluator.ledger.readers.aiperf import AIPERF, is_aiperf, read_aiperf
from evaluator.ledger.readers.building import (
    SERVER_FAILED,
    BadItem,
    Document,
    Item,
    Problem,
    ReadResult,
    decoded,
    record,
)
from evaluator.ledger.readers.failed import is_failed, read_failed
from evaluator.ledger.readers.guidellm import GUIDELLM, is_guidellm, read_guidellm
from evaluator.ledger.readers.inferencex import INFERENCEX, is_inferencex, read_inferencex
from evaluator.ledger.readers.request_logs import RequestDocument, gathered, read_requests
from evaluator.ledger.readers.vllm import VLLM, is_vllm, read_vllm
from store.errors import InputError
from store.loads import MeasuredRequests
from store.records import MeasurementRecord

Items = list[tuple[str, Item]]  # what is added to the place of the document, and the point
_READERS: tuple[tuple[str, Callable[[Document], bool], Callable[[Document], Items]], ...] = (
    (INFERENCEX, is_inferencex, read_inferencex),
    (GUIDELLM, is_guidellm, read_guidellm),
    (AIPERF, is_aiperf, read_aiperf),
    (VLLM, is_vllm, read_vllm),
    (SERVER_FAILED, is_failed, read_failed),
)


def read_documents(path: Path) -> ReadResult:
    """Every result in a file; one that cannot be read is a problem, the others are records."""
    records: list[MeasurementRecord] = []
    problems: list[Problem] = []
    formats: set[str] = set()
    logs: dict[str, MeasuredRequests] = {}
    for where, content in gathered(path.name, _documents(path)):
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
                made = record(item, source=where + suffix, source_format=source_format)
                records.append(made)
                if item.requests is not None:
                    logs[made.key] = item.requests
            except BadItem as problem:
                problems.append(Problem(where=where + suffix, what=str(problem)))
    return ReadResult(
        records=tuple(records), problems=tuple(problems), format=", ".join(sorted(formats)), requests=logs
    )


def _documents(path: Path) -> Iterator[tuple[str, object]]:
    """Each result with its place. Clients that append write one a line; a bad line leaves the others readable."""
    text = decoded(path)
    if not text.strip():
        raise InputError(f"{path}: the file is empty")
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = [(number, line) for number, line in enumerate(text.split("\n"), start=1) if line.strip()]
        if not all(line.lstrip().startswith("{") for _, line in lines) or len(lines) < 2:
            line = getattr(error, "lineno", 1)
            yield path.name, Problem(where=f"{path.name}:{line}", what="not JSON")
            return
        for number, line in lines:
            yield f"{path.name}:{number}", _parsed(line, f"{path.name}:{number}")
        return
    if content == []:
        yield path.name, Problem(where=path.name, what="it holds no result")
    for index, document in enumerate(content if isinstance(content, list) else [content]):
        yield f"{path.name}[{index}]" if isinstance(content, list) else path.name, document


def _parsed(line: str, where: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return Problem(where=where, what="not JSON")


def _understood(document: object) -> tuple[str, Items]:
    if isinstance(document, RequestDocument):
        item, log = read_requests(document)
        return document.source_format, [("", replace(item, requests=log))]
    if not isinstance(document, dict):
        raise BadItem("not a JSON object")
    for source_format, known, reader in _READERS:
        if known(document):
            return source_format, reader(document)
    if "error_type" in document and "error" in document:  # what vLLM's sweep leaves of a run that failed
        raise BadItem(f"the run itself failed: {document['error_type']}: {document['error']}")
    raise BadItem(f"a result of no client we know; it has {', '.join(list(document)[:6]) or 'no fields'}")
