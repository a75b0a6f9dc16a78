"""llm-d's Benchmark Report 0.2, for six harnesses: every block states its units."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence

from evaluator.ledger.readers.building import TTFT, Document, inner, number, text, whole
from evaluator.ledger.readers.clients.inference_perf import TPOT_OF_PIECES, time_of_tokens
from evaluator.ledger.readers.declared import (
    E2E,
    INPUT_RATE,
    ITL,
    OUTPUT_RATE,
    REQUEST_RATE,
    TOTAL_RATE,
    Reading,
    ResultFormat,
    found,
)

_AGGREGATE = "results.request_performance.aggregate"
_SERVED_BY = {"llm-d": "vllm", "vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm", "trtllm": "trtllm"}
_SIZES = ("tp", "pp", "dp", "ep")


def _told(document: Document) -> bool:
    return "scenario" in document and "request_performance" in inner(document, "results")


def _settle(reading: Reading) -> None:
    facts = reading.facts
    facts["mode"] = None
    stack = found(reading.document, "scenario.stack")
    engines = [
        {**inner(one, "standardized"), "native": inner(one, "native")}
        for one in (stack if isinstance(stack, list) else [])
        if isinstance(one, dict) and inner(one, "standardized").get("kind") == "inference_engine"
    ]
    if engines:
        _of_engines(reading, engines)
    requests, failed = inner(inner(reading.document, "results"), "request_performance"), facts.get("failed_requests")
    total = number(inner(inner(requests, "aggregate"), "requests"), "total")
    if total is not None:
        facts["completed_requests"] = int(total) - int(failed or 0)
    keywords = found(reading.document, "run.keywords")
    if isinstance(keywords, list):
        facts["tags"] = ",".join(sorted({str(one) for one in keywords})) or None
    time_of_tokens(reading)


def _of_engines(reading: Reading, engines: Sequence[Document]) -> None:
    facts, first = reading.facts, engines[0]
    by_role = {str(one.get("role") or "replica"): one for one in engines}
    apart = {"prefill", "decode"} <= by_role.keys()
    facts["mode"] = "disaggregated" if apart else "aggregated"
    if not apart and first.get("role") in {"prefill", "decode"}:
        reading.guessed.append(f"aggregated: the only engine is called {first['role']}")
    for side in ("prefill", "decode"):
        one = by_role.get(side, first) if apart else first
        sizes = inner(inner(one, "accelerator"), "parallelism")
        facts |= {f"{side}_{size}": whole(sizes, size) for size in _SIZES}
        facts[f"{side}_instances"] = whole(one, "replicas")
    serving = list(by_role.values()) if apart else [first]
    counts = [_devices(one) for one in serving]
    facts["num_devices"] = None if None in counts else sum(count or 0 for count in counts)
    facts["device"] = text(inner(first, "accelerator"), "model")
    facts["model"] = text(inner(first, "model"), "name")
    _of_tool(reading, first)


def _devices(engine: Document) -> int | None:
    """Of all replicas; some reports count one's."""
    accelerator, replicas = inner(engine, "accelerator"), whole(engine, "replicas") or 1
    count, sizes = whole(accelerator, "count"), inner(accelerator, "parallelism")
    one = math.prod(whole(sizes, size) or 1 for size in ("tp", "pp", "dp"))
    return None if count is None else count if count == one * replicas else count * replicas


def _of_tool(reading: Reading, engine: Document) -> None:
    tool, version = (text(engine, "tool") or "").lower(), text(engine, "tool_version")
    served = next((ours for name, ours in _SERVED_BY.items() if name in tool), tool or None)
    if served and served != tool:
        reading.guess("engine", served, f"from the tool {tool}")
    else:
        reading.facts["engine"] = served
    if version and "/" in version:
        reading.facts["image"] = version
    else:
        reading.facts["engine_version"] = version
    arguments = inner(inner(engine, "native"), "args")
    if arguments:
        reading.facts["flags"] = json.dumps(arguments, sort_keys=True)
        reading.facts["kv_precision"] = text(arguments, "--kv-cache-dtype")
        reading.facts["precision"] = text(arguments, "--quantization", "--dtype")


BENCHMARK_REPORT = ResultFormat(
    name="benchmark_report",
    told=_told,
    facts={
        "input_length": f"{_AGGREGATE}.requests.input_length.mean | scenario.load.standardized.input_seq_len.value",
        "output_length": f"{_AGGREGATE}.requests.output_length.mean | scenario.load.standardized.output_seq_len.value",
        "concurrency": "scenario.load.standardized.concurrency",
        "request_rate": "scenario.load.standardized.rate_qps",
        "failed_requests": f"{_AGGREGATE}.requests.failures",
        "measured_at": "run.time.start",
        "measured_by": "run.user",
    },
    latencies={
        "time_to_first_token": ("ttft_ms", TTFT),
        "time_per_output_token": ("tpot_exclusive_ms", TPOT_OF_PIECES),
        "inter_token_latency": ("itl_ms", ITL),
        "request_latency": ("e2e_ms", E2E),
    },
    rates={
        f"{_AGGREGATE}.throughput.output_token_rate.mean": OUTPUT_RATE,
        f"{_AGGREGATE}.throughput.total_token_rate.mean": TOTAL_RATE,
        f"{_AGGREGATE}.throughput.input_token_rate.mean": INPUT_RATE,
        f"{_AGGREGATE}.throughput.request_rate.mean": REQUEST_RATE,
    },
    blocks=f"{_AGGREGATE}.latency",
    unit="s",
    settle=_settle,
)
