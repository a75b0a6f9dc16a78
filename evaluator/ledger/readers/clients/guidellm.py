"""GuideLLM's reports: up to 0.3, 0.4 to 0.6, and 0.7 (`metadata.version` 2)."""

from __future__ import annotations

from typing import Literal

from evaluator.ledger.readers.building import TPOT_INCLUSIVE, TTFT, Circumstances, Document, inner, number, text
from evaluator.ledger.readers.declared import E2E, OUTPUT_RATE, REQUEST_RATE, TOTAL_RATE, Reading, ResultFormat, found
from evaluator.ledger.readers.request_logs import guidellm_log

Layout = Literal["until 0.3", "0.4 to 0.6", "from 0.7"]
_OVER_TIME = "mean over the time of the run; successful requests"
_RATES = {
    "output_tokens_per_second": OUTPUT_RATE,
    "tokens_per_second": TOTAL_RATE,
    "requests_per_second": REQUEST_RATE,
}
_AT_A_RATE = {"constant", "poisson", "async"}


def _told(document: Document) -> bool:
    many = document.get("benchmarks")
    return isinstance(many, list) and all(isinstance(one, dict) and "metrics" in one for one in many)


def layout_of(document: Document) -> Layout:
    """By what is there: metadata came after 0.4, `config.spec` with 0.7."""
    metadata = inner(document, "metadata")
    if number(metadata, "version") == 2 or "spec" in inner(document, "config"):
        return "from 0.7"
    first = document["benchmarks"][0] if document["benchmarks"] else {}
    return "until 0.3" if not metadata and {"run_stats", "worker"} & set(first) else "0.4 to 0.6"


def _settle(reading: Reading) -> None:
    facts, benchmark, report = reading.facts, reading.document, reading.report
    layout, metrics = layout_of(report), inner(reading.document, "metrics")
    if layout == "until 0.3":  # (last token - first token) / output tokens: neither definition of the field
        for name in [name for name in reading.metrics if name.startswith("tpot_inclusive_ms")]:
            del reading.metrics[name], reading.definitions[name]
    reading.definitions = {
        name: f"{said}; successful requests" if "_ms_" in name else _OVER_TIME
        for name, said in reading.definitions.items()
    }
    facts["mode"] = "aggregated"
    strategy = found(benchmark, "config.strategy | scheduler.strategy | args.strategy")
    strategy = strategy if isinstance(strategy, dict) else {}
    facts["concurrency"], facts["request_rate"] = _load(strategy, metrics)
    reading.circumstances = Circumstances(evenly=text(strategy, "kind", "type_") == "constant")
    reading.extra |= {"metrics": _uninterpreted(metrics, layout), "guidellm_layout": layout}
    reading.extra |= {
        name: report[name] for name in ("metadata", "args", "config") if name in report and name not in reading.extra
    }
    reading.requests = guidellm_log(benchmark)


def _uninterpreted(metrics: Document, layout: Layout) -> Document:
    read = {*_LATENCIES, *_RATES, "prompt_token_count", "output_token_count"}
    if layout == "until 0.3":
        read.discard("time_per_output_token_ms")
    return {name: value for name, value in metrics.items() if name not in read}


def _load(strategy: Document, metrics: Document) -> tuple[float | None, float | None]:
    """(concurrency, rate): streams, 1 if synchronous, or the rate asked.

    A run at a rate has a largest number in flight, which is no concurrency."""
    kind, rate = text(strategy, "kind", "type_"), number(strategy, "rate")
    if rate is not None and kind in _AT_A_RATE:
        return None, rate
    streams = number(strategy, "streams", "max_concurrency")
    if streams is None and kind == "synchronous":
        return 1.0, rate
    return streams or number({"mean": found(metrics, "request_concurrency.successful.mean")}, "mean"), rate


_LATENCIES = {
    "time_to_first_token_ms": ("ttft_ms", TTFT),
    "inter_token_latency_ms": ("tpot_exclusive_ms", "(last token - first token) / (output tokens - 1)"),
    "time_per_output_token_ms": ("tpot_inclusive_ms", TPOT_INCLUSIVE),
    "request_latency": ("e2e_ms", E2E),
}

GUIDELLM = ResultFormat(
    name="guidellm",
    told=_told,
    points="benchmarks",
    facts={
        "model": "^args.model | ^config.spec.backend.model | ^args.backend.model | config.backend.model"
        " | benchmarker.backend.model | worker.backend_model",
        "input_length": "metrics.prompt_token_count.successful.mean",
        "output_length": "metrics.output_token_count.successful.mean",
        "completed_requests": "metrics.request_totals.successful",
        "failed_requests": "metrics.request_totals.errored",
        "measured_at": "start_time",
    },
    latencies=_LATENCIES,
    units={"request_latency": "s"},
    rates={f"metrics.{name}.successful.mean | metrics.{name}.mean": meaning for name, meaning in _RATES.items()},
    blocks="metrics",
    settle=_settle,
    unread=("requests",),
)
