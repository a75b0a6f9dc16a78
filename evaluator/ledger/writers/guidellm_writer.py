"""GuideLLM's CSV: three header lines (group, field, statistic), then a point a line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from evaluator.ledger.writers.carrying_facts import BLOCK, block_of_record, is_predicted, statistics_of_latency
from store.records import MeasurementRecord

Header = tuple[str, str, str]
PERCENTILES = ("", "", "", "", "", "p25", "p75", "p90", "p95", "p99", "")  # least, fast end, these, most
MEAN, MEDIAN, SPREAD, OTHERS = "Mean", "Median", "Std Dev", "Percentiles"
MODEL, RATE = ("Run Info", "Backend", ""), ("Run Info", "Profile", "")
KIND, STRATEGY, STARTED = ("Benchmark", "Type", ""), ("Benchmark", "Strategy", ""), ("Timings", "Start Time", "")
COUNTS = {"successful": ("Request Counts", "Successful", ""), "errored": ("Request Counts", "Errored", "")}
POINT = (BLOCK, "Point", "")
LATENCIES = {  # (group, field) -> (ours, what a unit of theirs is in ms)
    ("Request Latency", "Successful Sec"): ("e2e_ms", 1e3),
    ("Time to First Token", "Successful ms"): ("ttft_ms", 1.0),
    ("Time per Output Token", "Successful ms"): ("tpot_inclusive_ms", 1.0),
    ("Inter Token Latency", "Successful ms"): ("tpot_exclusive_ms", 1.0),
}
LENGTHS = {
    ("Token Metrics", "Successful Input Tokens"): "input_length",
    ("Token Metrics", "Successful Output Tokens"): "output_length",
}
RATES = {
    ("Server Throughput", "Successful Requests/Sec"): "requests_per_s",
    ("Token Throughput", "Successful Input Tokens/Sec"): "input_tokens_per_s",
    ("Token Throughput", "Successful Output Tokens/Sec"): "output_tokens_per_s",
    ("Token Throughput", "Successful Total Tokens/Sec"): "total_tokens_per_s",
}
USERS = ("Server Throughput", "Successful Concurrency", MEAN)
TIME = "%Y-%m-%d %H:%M:%S"


def headers_of_guidellm() -> list[Header]:
    latencies = [(*field, statistic) for field in LATENCIES for statistic in (MEAN, MEDIAN, SPREAD, OTHERS)]
    means: list[Header] = [(*field, MEAN) for field in (*LENGTHS, *RATES)]
    return [MODEL, RATE, KIND, STRATEGY, STARTED, *COUNTS.values(), *latencies, USERS, *means, POINT]


def cells_of_guidellm(record: MeasurementRecord) -> list[object]:
    known = dict(_cells(record))
    return [known.get(header) for header in headers_of_guidellm()]


def _cells(record: MeasurementRecord) -> Iterator[tuple[Header, object]]:
    strategy, load = _strategy(record)
    yield MODEL, json.dumps({"model": record.model})
    yield RATE, json.dumps({"type_": strategy, **load})
    yield KIND, "predicted" if is_predicted(record) else "generative"
    yield STRATEGY, strategy
    if record.measured_at is not None:
        yield STARTED, record.measured_at.strftime(TIME)
    yield COUNTS["successful"], record.run.completed_requests
    yield COUNTS["errored"], record.run.failed_requests
    for field, (ours, unit_ms) in LATENCIES.items():
        yield from _statistics(field, {name: value / unit_ms for name, value in statistics_of_latency(record, ours)})
    for field, length in LENGTHS.items():
        yield (*field, MEAN), getattr(record, length)
    for field, rate in RATES.items():
        yield (*field, MEAN), record.metrics.get(rate)
    yield USERS, record.concurrency
    yield POINT, json.dumps(block_of_record(record), sort_keys=True, ensure_ascii=False)


def _statistics(field: tuple[str, str], values: dict[str, float]) -> Iterator[tuple[Header, object]]:
    yield (*field, MEAN), values.get("mean")
    yield (*field, MEDIAN), values.get("p50")
    yield (*field, SPREAD), values.get("std")
    others = [values.get(name) for name in PERCENTILES]
    if any(value is not None for value in others):
        yield (*field, OTHERS), json.dumps(others)


def _strategy(record: MeasurementRecord) -> tuple[str, dict[str, float]]:
    """By concurrency, or at a rate."""
    if record.request_rate is not None:
        return "poisson", {"rate": record.request_rate}
    return "concurrent", {} if record.concurrency is None else {"streams": record.concurrency}
