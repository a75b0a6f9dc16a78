"""inference-perf's stage_N_lifecycle_metrics.json: a stage at a rate, in seconds.

The manifest names its server (beside)."""

from __future__ import annotations

from evaluator.ledger.readers.building import TTFT, Circumstances, Document, inner, number
from evaluator.ledger.readers.declared import (
    E2E,
    INPUT_RATE,
    ITL,
    OUTPUT_RATE,
    REQUEST_RATE,
    TOTAL_RATE,
    Reading,
    ResultFormat,
)

TPOT_OF_PIECES = "(end - first piece) / pieces of the stream but the first, mean over requests"
_PIECES = (
    1.1  # a time between tokens of all others by this much above the file's own: it counts more pieces than tokens
)


def _told(document: Document) -> bool:
    return "load_summary" in document and "latency" in inner(document, "successes")


def _settle(reading: Reading) -> None:
    facts = reading.facts
    facts["mode"] = "aggregated"
    load = inner(reading.document, "load_summary")
    if facts.get("request_rate") is None:  # until stages said which rate was asked
        reading.guess("request_rate", number(load, "achieved_rate"), "as achieved")
    reading.circumstances = Circumstances(evenly=True)
    time_of_tokens(reading)


def time_of_tokens(reading: Reading) -> None:
    """From the whole request, where the file's own is by pieces of the stream.

    Servers send an empty last piece, and some two a token, so the file's own is too small."""
    metrics, answer = reading.metrics, reading.facts.get("output_length")
    ttft, tpot, e2e = (metrics.get(f"{name}_mean") for name in ("ttft_ms", "tpot_exclusive_ms", "e2e_ms"))
    if not (ttft and tpot and e2e and answer and answer > 1.0):
        return
    whole = (e2e - ttft) / (answer - 1.0)
    if whole > _PIECES * tpot:
        for name in [name for name in metrics if name.startswith("tpot_exclusive_ms")]:
            del metrics[name], reading.definitions[name]
        meaning = "(mean e2e - mean ttft) / (mean output tokens - 1)"
        reading.measured("tpot_exclusive_ms_mean", whole, meaning)
        reading.guessed.append(f"TPOT {whole:.4g} ms from whole requests: the file's {tpot:.4g} ms is of stream pieces")


INFERENCE_PERF = ResultFormat(
    name="inference_perf_stage",
    told=_told,
    facts={
        "request_rate": "load_summary.requested_rate",
        "concurrency": "load_summary.concurrency",
        "input_length": "successes.prompt_len.mean",
        "output_length": "successes.output_len.mean",
        "completed_requests": "successes.count",
        "failed_requests": "failures.count",
    },
    latencies={
        "time_to_first_token": ("ttft_ms", TTFT),
        "time_per_output_token": ("tpot_exclusive_ms", TPOT_OF_PIECES),
        "inter_token_latency": ("itl_ms", ITL),
        "request_latency": ("e2e_ms", E2E),
    },
    rates={
        "successes.throughput.output_tokens_per_sec": OUTPUT_RATE,
        "successes.throughput.total_tokens_per_sec": TOTAL_RATE,
        "successes.throughput.input_tokens_per_sec": INPUT_RATE,
        "successes.throughput.requests_per_sec": REQUEST_RATE,
    },
    blocks="successes.latency",
    unit="s",
    settle=_settle,
)
