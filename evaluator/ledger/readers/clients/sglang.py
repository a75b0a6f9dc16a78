"""Results of SGLang's `bench_serving`: JSON lines, one run a line, with what the server says of itself.

A server is asked for its settings (`server_info`); a router answers how many workers it has and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from evaluator.ledger.readers.building import BadItem, Circumstances, Document, inner, number, shortest_of, whole
from evaluator.ledger.readers.clients.vllm import FACTS, LATENCIES, devices_of_sizes, lengths_of_totals, log_of_lists
from evaluator.ledger.readers.declared import (
    E2E,
    INPUT_RATE,
    OUTPUT_RATE,
    REQUEST_RATE,
    TOTAL_RATE,
    Reading,
    ResultFormat,
    found,
)

_SERVERS = ("prefill", "decode")  # of a router that knows its workers by what they do
_OF_SERVER: Mapping[str, str] = {
    "model": "model_path | served_model_name",
    "engine_version": "version",
    "precision": "quantization",
    "kv_precision": "kv_cache_dtype",
    "tp": "tp_size",
    "pp": "pp_size",
    "dp": "dp_size",
    "ep": "ep_size",
}


def _told(document: Document) -> bool:
    backend = str(document.get("backend") or "")
    return "request_throughput" in document and "completed" in document and backend.startswith("sglang")


def _settle(reading: Reading) -> None:
    facts, document = reading.facts, reading.document
    facts["engine"] = "sglang"
    if document["backend"] != "sglang":
        reading.guessed.append(f"engine sglang from the backend {document['backend']}")
    lengths_of_totals(reading)
    if found(document, "server_info") is None:
        facts["mode"] = None if "server_info" in document else "aggregated"
    else:
        _of_servers(reading, inner(document, "server_info"))
        reading.extra["server_info"] = _settings(inner(document, "server_info"))
    errors = document.get("errors")
    if isinstance(errors, list) and facts.get("failed_requests") is None:
        facts["failed_requests"] = sum(bool(one) for one in errors) or None
    if facts.get("accept_length"):
        reading.extra.setdefault("spec_decode", "drafts were accepted during the run")
    cached = inner(document, "cache_report")
    prompts, hits = number(cached, "total_prompt_tokens"), number(cached, "total_cached_tokens")
    if prompts and hits is not None:
        facts["cached_share"] = hits / prompts
    if document.get("dataset_name") == "random":  # lengths are drawn from this part of those asked for to all of them
        reading.circumstances = Circumstances(shortest_length=shortest_of(document, "random_range_ratio"))
    log_of_lists(reading)


def _of_servers(reading: Reading, info: Document) -> None:
    facts = reading.facts
    apart = {side: _first(info.get(side)) for side in _SERVERS if info.get(side)}
    alone = info.get("disaggregation_mode")
    if len(apart) == len(_SERVERS):
        facts["mode"] = "disaggregated"
        for side, one in apart.items():
            _of_server(reading, one, f"{side}_")
            facts[f"{side}_instances"] = len(info[side]) if isinstance(info[side], list) else 1
    elif "tp_size" in info:
        facts["mode"] = alone if alone in _SERVERS else "aggregated"
        _of_server(reading, info, "")
        devices_of_sizes(reading)
    elif (number(info, "workers_count") or 0.0) == 1.0:
        facts["mode"] = "aggregated"
    else:
        facts["mode"] = None
        count = info.get("workers_count")
        reading.guessed.append(
            f"{'several' if count is None else count} workers behind a router: disaggregated, or replicas"
        )


def _of_server(reading: Reading, info: Document, side: str) -> None:
    for name, path in _OF_SERVER.items():
        value = found(info, path)
        of_side = f"{side}{name}" if name in {"tp", "pp", "dp", "ep"} else name
        if value is None or str(value).lower() in {"none", "auto"}:
            continue
        size = name in {"tp", "pp", "dp", "ep"}
        reading.facts[of_side] = whole({of_side: value}, of_side) if size else str(value)
    tp, dp = reading.facts.get(f"{side}tp"), reading.facts.get(f"{side}dp")
    if info.get("enable_dp_attention") and tp and dp:
        # Attention data parallelism is inside tp: tp devices hold dp replicas of attention, experts over all of them.
        ep = reading.facts.get(f"{side}ep")
        if tp % dp or (ep and tp % ep):
            raise BadItem(f"{side}tp {tp} is not a multiple of dp {dp} and ep {ep}")
        reading.facts[f"{side}tp"] = tp // dp
        reading.facts[f"{side}moe_tp"] = tp // ep if ep else None
    algorithm = info.get("speculative_algorithm")
    if algorithm:
        reading.extra["spec_decode"] = str(algorithm)
    version = str(reading.facts.get("engine_version") or "")
    if "+g" in version:
        reading.facts["engine_commit"] = version.partition("+g")[2].partition(".")[0]
    path = str(reading.facts.get("model") or "")
    if path.startswith("/"):  # a folder of the server's: its last two names are those of a repository
        reading.facts["model"] = None
        reading.guess("model", "/".join(PurePosixPath(path).parts[-2:]), f"from the server's folder {path}")


def _first(value: object) -> Document:
    one = value[0] if isinstance(value, list) and value else value
    return one if isinstance(one, dict) else {}


def _settings(info: Document) -> Document:
    """The settings that a server says of itself. Left out: repeats for each of its schedulers, and unset ones."""
    return {name: value for name, value in info.items()
            if name != "internal_states" and value not in (None, False, "", [], {})}  # fmt: skip


SGLANG = ResultFormat(
    name="sglang_bench",
    told=_told,
    facts={**FACTS, "engine": "engine", "accept_length": "accept_length"},
    latencies={**LATENCIES, "e2e_latency": ("e2e_ms", E2E)},
    rates={
        "output_throughput": OUTPUT_RATE,
        "total_throughput | total_token_throughput": TOTAL_RATE,
        "input_throughput": INPUT_RATE,
        "request_throughput": REQUEST_RATE,
    },
    settle=_settle,
    unread=("server_info", "input_lens", "output_lens", "ttfts", "itls", "errors", "generated_texts"),
)
