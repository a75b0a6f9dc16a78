"""genai-bench: a JSON a concurrency, in seconds; experiment_metadata.json names the server (beside)."""

from __future__ import annotations

from evaluator.ledger.readers.building import TPOT_EXCLUSIVE, TTFT, Document, inner
from evaluator.ledger.readers.declared import (
    E2E,
    INPUT_RATE,
    OUTPUT_RATE,
    REQUEST_RATE,
    TOTAL_RATE,
    Reading,
    ResultFormat,
)

_RUN = "aggregated_metrics"


def _told(document: Document) -> bool:
    return "num_concurrency" in inner(document, _RUN) and "stats" in inner(document, _RUN)


def _settle(reading: Reading) -> None:
    """`num_concurrency` is the rate where requests arrive at one."""
    facts, run = reading.facts, inner(reading.document, _RUN)
    facts["mode"] = "aggregated"
    if run.get("iteration_type") == "request_rate" or run.get("arrival_requests_per_second"):
        facts["request_rate"], facts["concurrency"] = facts["concurrency"], None
    reading.extra = {"scenario": run.get("scenario")}


GENAI_BENCH = ResultFormat(
    name="genai_bench",
    told=_told,
    facts={
        "concurrency": f"{_RUN}.num_concurrency",
        "input_length": f"{_RUN}.stats.num_input_tokens.mean",
        "output_length": f"{_RUN}.stats.num_output_tokens.mean",
        "completed_requests": f"{_RUN}.num_completed_requests",
        "failed_requests": f"{_RUN}.num_error_requests",
    },
    latencies={
        "ttft": ("ttft_ms", TTFT),
        "tpot": ("tpot_exclusive_ms", TPOT_EXCLUSIVE),
        "e2e_latency": ("e2e_ms", E2E),
    },
    rates={
        f"{_RUN}.mean_output_throughput_tokens_per_s": OUTPUT_RATE,
        f"{_RUN}.mean_total_tokens_throughput_tokens_per_s": TOTAL_RATE,
        f"{_RUN}.mean_input_throughput_tokens_per_s": INPUT_RATE,
        f"{_RUN}.requests_per_second": REQUEST_RATE,
    },
    blocks=f"{_RUN}.stats",
    unit="s",
    settle=_settle,
    unread=("individual_request_metrics",),
)
