"""GuideLLM's CSV: three header lines (group, field, statistic), then a benchmark a line.

Read as the JSON report (guidellm)."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from evaluator.ledger.readers.building import Document
from evaluator.ledger.writers.carrying_facts import BLOCK
from evaluator.ledger.writers.guidellm_writer import (
    COUNTS,
    KIND,
    LENGTHS,
    MEAN,
    MEDIAN,
    MODEL,
    OTHERS,
    PERCENTILES,
    POINT,
    RATE,
    RATES,
    SPREAD,
    STARTED,
    STRATEGY,
    USERS,
    Header,
    cells_of_guidellm,
    headers_of_guidellm,
)
from store.records import MeasurementRecord

GUIDELLM_COLUMNS = ("Run Info", "Benchmark", "Request Latency")  # groups of the first line
_LATENCIES = {
    ("Request Latency", "Successful Sec"): "request_latency",
    ("Time to First Token", "Successful ms"): "time_to_first_token_ms",
    ("Time per Output Token", "Successful ms"): "time_per_output_token_ms",
    ("Inter Token Latency", "Successful ms"): "inter_token_latency_ms",
}
_MEANS = {
    **dict(zip(LENGTHS, ("prompt_token_count", "output_token_count"), strict=True)),
    **dict(zip(RATES, ("requests_per_second", "prompt_tokens_per_second", "output_tokens_per_second",
                       "tokens_per_second"), strict=True)),
    USERS[:2]: "request_concurrency",
}  # fmt: skip
_HEADER_LINES = 3


def is_guidellm_csv(text: str) -> bool:
    return set(text.partition("\n")[0].strip().split(",")).issuperset(GUIDELLM_COLUMNS)


def documents_of_guidellm_csv(text: str) -> Iterator[tuple[int, Document | None]]:
    """None where cells do not match the header."""
    reader = csv.reader(io.StringIO(text, newline=""))
    headers: list[Header] = []
    try:
        header = list(islice(reader, _HEADER_LINES))
        headers = [(one, two, three) for one, two, three in zip(*header, strict=True)]
        for row in reader:
            if row:
                yield reader.line_num, _document(headers, row) if len(row) == len(headers) else None
    except (csv.Error, ValueError):
        yield reader.line_num, None


def document_of_point(record: MeasurementRecord) -> Document:
    return _document(headers_of_guidellm(), ["" if cell is None else str(cell) for cell in cells_of_guidellm(record)])


def _document(headers: Sequence[Header], row: Sequence[str]) -> Document:
    cells = dict(zip(headers, row, strict=True))
    fields = {**_LATENCIES, **_MEANS}
    metrics: dict[str, Any] = {theirs: {"successful": _values(cells, field)} for field, theirs in fields.items()}
    metrics["request_totals"] = {name: cells.get(header) or None for name, header in COUNTS.items()}
    kind = cells.get(STRATEGY) or None
    document: dict[str, Any] = {
        "metadata": {"version": 1},
        "args": {"model": _parsed(cells.get(MODEL, "")).get("model")},
        "benchmarks": [{
            "metrics": metrics,
            "config": {"strategy": _strategy(kind, _parsed(cells.get(RATE, "")))},
            "start_time": cells.get(STARTED) or None,
        }],
    }  # fmt: skip
    block = _parsed(cells.get(POINT, ""))
    return (
        document | ({BLOCK: block} if block else {}) | ({"predicted": True} if cells.get(KIND) == "predicted" else {})
    )


def _strategy(kind: str | None, profile: Document) -> Document:
    """A profile of several says only how all were asked."""
    own = {name: profile[name] for name in ("streams", "rate") if isinstance(profile.get(name), int | float)}
    return {"type_": kind, **own}


def _values(cells: dict[Header, str], field: tuple[str, str]) -> Document:
    values: dict[str, Any] = {
        theirs: cells.get((*field, statistic)) or None
        for theirs, statistic in (("mean", MEAN), ("median", MEDIAN), ("std_dev", SPREAD))
    }
    try:
        others = json.loads(cells.get((*field, OTHERS)) or "[]")
    except ValueError:
        others = []
    named = zip(PERCENTILES, others, strict=True) if len(others) == len(PERCENTILES) else ()
    return values | {"percentiles": {name: value for name, value in named if name and value is not None}}


def _parsed(cell: str) -> Document:
    try:
        found = json.loads(cell) if cell else {}
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
