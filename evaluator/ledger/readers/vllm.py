"""Results of `vllm bench serve` (vllm/benchmarks/serve.py), also as its parameter sweep merges options into them."""

from __future__ import annotations

from evaluator.ledger.readers.building import (
    TPOT_EXCLUSIVE,
    TTFT,
    Document,
    Item,
    number,
    rest,
    text,
    whole,
)
from evaluator.ledger.readers.request_logs import latencies_of, vllm_log
from store.records import SideRecord

VLLM = "vllm_bench"
ITL = "gap between two streamed pieces of an answer"
E2E = "sending of the request to its last token"
_STATISTICS = {"mean": "mean", "median": "p50", "std": "std"}
_LATENCIES = {
    "ttft": ("ttft_ms", TTFT),
    "tpot": ("tpot_exclusive_ms", TPOT_EXCLUSIVE),
    "itl": ("itl_ms", ITL),
    "e2el": ("e2e_ms", E2E),
    "e2e_latency": ("e2e_ms", E2E),  # as SGLang's copy of the client has it
}
_RATES = {
    "output_throughput": ("output_tokens_per_s", "generated tokens a second of the whole run"),
    "total_token_throughput": ("total_tokens_per_s", "prompt and generated tokens a second of the whole run"),
    "request_throughput": ("requests_per_s", "finished requests a second of the whole run"),
}
# Spellings of an option of `vllm serve` that a sweep or --metadata writes beside the results.
_SIZES = {
    "tp": ("tensor_parallel_size", "tensor-parallel-size", "tp"),
    "pp": ("pipeline_parallel_size", "pipeline-parallel-size", "pp"),
    "dp": ("data_parallel_size", "data-parallel-size", "dp"),
}
_DEVICE = ("device", "gpu", "hardware", "hw")
_DTYPE = ("precision", "quantization", "dtype")


def client_metrics(document: Document, factor: float, unit: str) -> tuple[dict[str, float | None], dict[str, str]]:
    """Latencies called {mean,median,std,p99}_{ttft,tpot,itl,e2el}[_ms], as this client names them, in ms.

    A latency of 0 says that nothing was measured (TPOT of single-token answers)."""
    metrics: dict[str, float | None] = {}
    definitions: dict[str, str] = {}
    for field in document:
        kind, statistic = _latency_of(field)
        value = number(document, field) if kind else None
        if not value:
            continue
        ours, definition = _LATENCIES[kind]
        metrics[f"{ours}_{statistic}"] = factor * value
        definitions[f"{ours}_{statistic}"] = definition + ("" if factor == 1 else f"; converted from {unit}")
    return metrics, definitions


def latency_fields(document: Document) -> set[str]:
    """The fields that client_metrics reads."""
    return {name for name in document if _latency_of(name)[0]}


def _latency_of(field: str) -> tuple[str, str]:
    """(latency, our name of its statistic) that a field holds; nothing for any other field."""
    statistic, _, kind = field.removesuffix("_ms").partition("_")
    percentile = statistic[:1] == "p" and statistic[1:].replace(".", "", 1).isdigit()
    if kind not in _LATENCIES or not (percentile or statistic in _STATISTICS):
        return "", ""
    return kind, _STATISTICS.get(statistic, statistic)


def is_vllm(document: Document) -> bool:
    """Whether a result is this client's; it writes TTFT only of streamed answers."""
    return "request_throughput" in document and "completed" in document


def read_vllm(document: Document) -> list[tuple[str, Item]]:
    """One run. The client knows neither device nor parallel sizes: they come from --metadata or a sweep's options."""
    metrics, definitions = client_metrics(document, 1.0, "ms")
    for field, (name, definition) in _RATES.items():
        metrics[name], definitions[name] = number(document, field), definition
    sizes = {name: whole(document, *spellings) for name, spellings in _SIZES.items()}
    stated = [size for size in sizes.values() if size is not None]
    devices = whole(document, "num_devices", "num_gpus")
    if devices is None and sizes["tp"] is not None:
        devices = sizes["tp"] * (sizes["pp"] or 1) * (sizes["dp"] or 1)
    completed = number(document, "completed")
    backend = text(document, "backend", "endpoint_type")
    side = SideRecord(**sizes) if stated else SideRecord()
    extra = rest(document, latency_fields(document) | set(_RATES))
    if number(document, "spec_decode_num_drafts"):
        extra["spec_decode"] = "drafts were accepted during the run"
    log = vllm_log(document)
    if log is not None:
        for name, value in latencies_of(log).items():
            if name not in metrics:
                metrics[name], definitions[name] = value, "of the requests of the log"
    item = Item(
        model=text(document, "model_id"),
        device=text(document, *_DEVICE),
        # `openai` and its kin are protocols of the client, and say nothing of who answers.
        engine=text(document, "engine", "framework") or (backend if backend and "openai" not in backend else None),
        engine_version=text(document, "engine_version", "vllm_version"),
        mode="aggregated",
        precision=text(document, *_DTYPE),
        kv_precision=text(document, "kv_cache_dtype", "kv-cache-dtype"),
        num_devices=devices,
        input_length=_per_request(document, "total_input_tokens", completed),
        output_length=_per_request(document, "total_output_tokens", completed),
        concurrency=number(document, "max_concurrency"),
        request_rate=None if document.get("request_rate") == "inf" else number(document, "request_rate"),
        prefill=side,
        decode=side,
        metrics=metrics,
        definitions=definitions,
        extra=extra,
        requests=log,
    )
    return [("", item)]


def _per_request(document: Document, field: str, completed: float | None) -> float | None:
    total = number(document, field)
    return total / completed if total is not None and completed else None
