"""`vllm bench serve` (vllm/benchmarks/serve.py), also with options merged by its sweep."""

from __future__ import annotations

from collections.abc import Mapping

from evaluator.ledger.readers.building import TPOT_EXCLUSIVE, TTFT, Document, number
from evaluator.ledger.readers.declared import E2E, ITL, OUTPUT_RATE, REQUEST_RATE, TOTAL_RATE, Reading, ResultFormat
from evaluator.ledger.readers.request_logs import latencies_of, vllm_log

LATENCIES = {
    "ttft": ("ttft_ms", TTFT),
    "tpot": ("tpot_exclusive_ms", TPOT_EXCLUSIVE),
    "itl": ("itl_ms", ITL),
    "e2el": ("e2e_ms", E2E),
}
# What --metadata or a sweep's options write beside the results, in the spellings of `vllm serve`.
FACTS: Mapping[str, str] = {
    "model": "model_id",
    "device": "device | gpu | hardware | hw",
    "engine": "engine | framework",
    "engine_version": "engine_version | vllm_version",
    "engine_commit": "engine_commit | vllm_commit",
    "precision": "precision | quantization | dtype",
    "kv_precision": "kv_cache_dtype | kv-cache-dtype",
    "num_devices": "num_devices | num_gpus",
    "tp": "tensor_parallel_size | tensor-parallel-size | tp",
    "pp": "pipeline_parallel_size | pipeline-parallel-size | pp",
    "dp": "data_parallel_size | data-parallel-size | dp",
    "concurrency": "max_concurrency",
    "request_rate": "request_rate",
    "completed_requests": "completed",
    "failed_requests": "failed",
    "measured_at": "date",
    "measured_by": "user",
    "image": "image",
    "host": "hostname | host",
    "driver": "driver | driver_version",
    "git_revision": "git_revision | git_commit",
}


def _settle(reading: Reading) -> None:
    """Device and sizes are unknown; `openai` is a protocol, not an engine."""
    facts, document = reading.facts, reading.document
    facts["mode"] = "aggregated"
    backend = facts.get("engine") or str(document.get("backend") or document.get("endpoint_type") or "")
    facts["engine"] = backend if backend and "openai" not in backend else None
    lengths_of_totals(reading)
    devices_of_sizes(reading)
    if number(document, "spec_decode_num_drafts"):
        reading.extra["spec_decode"] = "drafts were accepted during the run"
        facts["accept_length"] = number(document, "spec_decode_acceptance_length")
    log_of_lists(reading)


def lengths_of_totals(reading: Reading) -> None:
    """Totals over completed requests."""
    completed = number(reading.document, "completed")
    for name, field in (("input_length", "total_input_tokens"), ("output_length", "total_output_tokens")):
        total = number(reading.document, field)
        if total is not None and completed:
            reading.facts[name] = total / completed


def devices_of_sizes(reading: Reading) -> None:
    tp, pp, dp = (reading.facts.get(name) for name in ("tp", "pp", "dp"))
    if tp is not None:
        reading.guess("num_devices", tp * (pp or 1) * (dp or 1), "from tp x pp x dp")


def log_of_lists(reading: Reading) -> None:
    reading.requests = log = vllm_log(reading.document)
    for name, value in {} if log is None else latencies_of(log).items():
        if name not in reading.metrics:
            reading.measured(name, value, "of the requests of the log")


def _told(document: Document) -> bool:
    """TTFT is no sign: only streamed answers have it."""
    return "request_throughput" in document and "completed" in document


VLLM = ResultFormat(
    name="vllm_bench",
    told=_told,
    facts=FACTS,
    latencies=LATENCIES,
    rates={"output_throughput": OUTPUT_RATE, "total_token_throughput": TOTAL_RATE, "request_throughput": REQUEST_RATE},
    settle=_settle,
)
