"""JSON results of benchmark clients: vLLM `bench serve`, InferenceX aggregates, aiperf and GuideLLM."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from evaluator.measurements.building import (
    TPOT_EXCLUSIVE,
    TPOT_INCLUSIVE,
    TTFT,
    BadItem,
    Item,
    Problem,
    ReadResult,
    number,
    record,
    rest,
    text,
    whole,
)
from store.errors import InputError
from store.records import MeasurementRecord, SideRecord

Document = Mapping[str, Any]
VLLM, INFERENCEX, AIPERF, GUIDELLM = "vllm_bench", "inferencex", "aiperf", "guidellm"
_STATISTICS = {"mean": "mean", "median": "p50", "std": "std"}
ITL = "gap between two streamed pieces of an answer"
E2E = "arrival of the request to its last token"


def read_documents(path: Path) -> ReadResult:
    """Every result in a JSON file: one object, or an array of them."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}:{error.lineno}: not JSON: {error.msg}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    records: list[MeasurementRecord] = []
    problems: list[Problem] = []
    formats: set[str] = set()
    for where, document in _documents(content, path.name):
        try:
            source_format, items = _understood(document)
            formats.add(source_format)
            for suffix, item in items:
                records.append(_kept(item, where + suffix, source_format, problems))
        except BadItem as problem:
            problems.append(Problem(where=where, what=str(problem)))
    found = tuple(one for one in records if one.key)
    return ReadResult(records=found, problems=tuple(problems), format=", ".join(sorted(formats)))


def _documents(content: object, name: str) -> Iterator[tuple[str, Document]]:
    many = content if isinstance(content, list) else [content]
    for index, document in enumerate(many):
        where = f"{name}[{index}]" if isinstance(content, list) else name
        yield where, document if isinstance(document, dict) else {}


def _understood(document: Document) -> tuple[str, list[tuple[str, Item]]]:
    for source_format, known, reader in _READERS:
        if known(document):
            return source_format, reader(document)
    raise BadItem(f"a result of no client we know; it has {', '.join(list(document)[:6]) or 'no fields'}")


def _kept(item: Item, where: str, source_format: str, problems: list[Problem]) -> MeasurementRecord:
    """The record, or one without a key where it cannot be: the others of the document are still read."""
    try:
        return record(item, source=where, source_format=source_format)
    except BadItem as problem:
        problems.append(Problem(where=where, what=str(problem)))
        return _NOTHING


_NOTHING = MeasurementRecord(
    key="", source="", source_format="", model=None, device=None, engine=None, engine_version=None, mode=None,
    precision=None, kv_precision=None, num_devices=None, input_length=None, output_length=None, concurrency=None,
    request_rate=None,
)  # fmt: skip


def _client_metrics(
    document: Document, factor: float, unit: str
) -> tuple[dict[str, float | None], dict[str, str], set[str]]:
    """Latencies called {mean,median,std,p99}_{ttft,tpot,itl,e2el}[_ms], as vLLM's client names them."""
    names = {
        "ttft": ("ttft_ms", TTFT),
        "tpot": ("tpot_exclusive_ms", TPOT_EXCLUSIVE),
        "itl": ("itl_ms", ITL),
        "e2el": ("e2e_ms", E2E),
    }
    metrics: dict[str, float | None] = {}
    definitions, used = {}, set()
    for field in document:
        statistic, _, kind = field.removesuffix("_ms").partition("_")
        known = statistic in _STATISTICS or (statistic[:1] == "p" and statistic[1:].replace(".", "").isdigit())
        if kind not in names or not known:
            continue
        name = f"{names[kind][0]}_{_STATISTICS.get(statistic, statistic)}"
        value = number(document, field)
        used.add(field)
        if value is None or (statistic == "std" and value == 0):
            continue
        metrics[name] = factor * value
        definitions[name] = names[kind][1] + ("" if factor == 1 else f"; converted from {unit}")
    return metrics, definitions, used


def _is_vllm(document: Document) -> bool:
    return "mean_ttft_ms" in document and ("model_id" in document or "output_throughput" in document)


def _vllm(document: Document) -> list[tuple[str, Item]]:
    metrics, definitions, used = _client_metrics(document, 1.0, "ms")
    metrics |= {
        "output_tokens_per_s": number(document, "output_throughput"),
        "total_tokens_per_s": number(document, "total_token_throughput"),
        "requests_per_s": number(document, "request_throughput"),
    }
    definitions["output_tokens_per_s"] = "generated tokens a second of the whole run"
    completed = number(document, "completed")
    rate = document.get("request_rate")
    used |= {"model_id", "backend", "max_concurrency", "output_throughput", "total_token_throughput",
             "request_throughput", "tensor_parallel_size"}  # fmt: skip
    tp = whole(document, "tensor_parallel_size")
    side = SideRecord(tp=tp)
    item = Item(
        model=text(document, "model_id"),
        device=text(document, "device", "gpu"),
        engine=text(document, "backend"),
        mode="aggregated",
        num_devices=tp,
        input_length=_per_request(document, "total_input_tokens", completed),
        output_length=_per_request(document, "total_output_tokens", completed),
        concurrency=number(document, "max_concurrency"),
        request_rate=None if rate in {"inf", None} else number(document, "request_rate"),
        prefill=side,
        decode=side,
        metrics=metrics,
        definitions=definitions,
        extra=rest(document, used),
    )
    return [("", item)]


def _per_request(document: Document, field: str, completed: float | None) -> float | None:
    total = number(document, field)
    return total / completed if total is not None and completed else None


def _is_inferencex(document: Document) -> bool:
    return "hw" in document and "tput_per_gpu" in document


def _inferencex(document: Document) -> list[tuple[str, Item]]:
    metrics, definitions, used = _client_metrics(document, 1000.0, "s")
    tp, ep = whole(document, "tp"), whole(document, "ep")
    attention_dp = str(document.get("dp_attention")).lower() == "true"
    devices = whole(document, "num_gpus", "gpus") or tp
    per_device = number(document, "output_tput_per_gpu")
    if per_device is not None and devices is not None:
        metrics["output_tokens_per_s"] = per_device * devices
        definitions["output_tokens_per_s"] = f"generated tokens a second; converted from a device of {devices}"
    total = number(document, "tput_per_gpu")
    if total is not None and devices is not None:
        metrics["total_tokens_per_s"] = total * devices
        definitions["total_tokens_per_s"] = (
            f"prompt and generated tokens a second; converted from a device of {devices}"
        )
    used |= {"hw", "model", "framework", "precision", "tp", "ep", "isl", "osl", "conc", "tput_per_gpu",
             "output_tput_per_gpu", "dp_attention"}  # fmt: skip
    side = SideRecord(
        tp=1 if attention_dp else tp,
        dp=tp if attention_dp else 1,
        ep=ep,
        moe_tp=None if tp is None or ep is None else max(1, tp // ep),
    )
    disaggregated = str(document.get("disagg", "")).lower() == "true"
    item = Item(
        model=text(document, "model"),
        device=text(document, "hw"),
        engine=text(document, "framework"),
        mode="disaggregated" if disaggregated else "aggregated",
        precision=text(document, "precision"),
        num_devices=devices,
        input_length=number(document, "isl"),
        output_length=number(document, "osl"),
        concurrency=number(document, "conc"),
        prefill=SideRecord() if disaggregated else side,
        decode=SideRecord() if disaggregated else side,
        metrics=metrics,
        definitions=definitions,
        extra=rest(document, used),
    )
    return [("", item)]


_AIPERF_METRICS = {
    "time_to_first_token": ("ttft_ms", TTFT),
    "inter_token_latency": ("tpot_exclusive_ms", "(request latency - ttft) / (output tokens - 1), a request each"),
    "request_latency": ("e2e_ms", E2E),
    "output_token_throughput": ("output_tokens_per_s", "generated tokens a second of the whole run"),
    "request_throughput": ("requests_per_s", "finished requests a second of the whole run"),
}
_TO_MS = {"ms": 1.0, "s": 1000.0, "sec": 1000.0, "us": 1e-3, "ns": 1e-6}


def _is_aiperf(document: Document) -> bool:
    ttft = document.get("time_to_first_token") or document.get("request_latency")
    return isinstance(ttft, dict) and "unit" in ttft


def _aiperf(document: Document) -> list[tuple[str, Item]]:
    metrics: dict[str, float | None] = {}
    definitions: dict[str, str] = {}
    for field, (name, definition) in _AIPERF_METRICS.items():
        block = document.get(field)
        if not isinstance(block, dict):
            continue
        unit = str(block.get("unit", "ms"))
        if name.endswith("_per_s"):
            metrics[name], definitions[name] = number(block, "avg"), definition
            continue
        if unit not in _TO_MS:
            raise BadItem(f"{field}: unit {unit!r} is unknown")
        for statistic, value in block.items():
            ours = {"avg": "mean", "std": "std"}.get(statistic, statistic if statistic[1:].isdigit() else None)
            if ours is not None and isinstance(value, int | float) and value > 0:
                metrics[f"{name}_{ours}"] = _TO_MS[unit] * value
                definitions[f"{name}_{ours}"] = definition + ("" if unit == "ms" else f"; converted from {unit}")
    config = _inner(document, "input_config")
    endpoint, load = _inner(config, "endpoint"), _inner(config, "loadgen")
    names = endpoint.get("model_names") or []
    item = Item(
        model=text({"model": names[0] if isinstance(names, list) and names else None}, "model"),
        mode="aggregated",
        input_length=number(_inner(document, "input_sequence_length"), "avg"),
        output_length=number(_inner(document, "output_sequence_length"), "avg"),
        concurrency=number(load, "concurrency"),
        request_rate=number(load, "request_rate"),
        metrics=metrics,
        definitions=definitions,
        extra=rest(document, _AIPERF_METRICS),
    )
    return [("", item)]


def _inner(document: Document, name: str) -> Document:
    value = document.get(name)
    return value if isinstance(value, dict) else {}


_GUIDELLM_METRICS: Mapping[str, tuple[str, float, str]] = {
    "time_to_first_token_ms": ("ttft_ms", 1.0, TTFT),
    "inter_token_latency_ms": ("tpot_exclusive_ms", 1.0, "(last token - first token) / (output tokens - 1)"),
    "time_per_output_token_ms": ("tpot_inclusive_ms", 1.0, TPOT_INCLUSIVE),
    "request_latency": ("e2e_ms", 1000.0, E2E + "; converted from s"),
}
_GUIDELLM_RATES = {"output_tokens_per_second": "output_tokens_per_s", "requests_per_second": "requests_per_s"}


def _is_guidellm(document: Document) -> bool:
    many = document.get("benchmarks")
    return isinstance(many, list) and bool(many) and isinstance(many[0], dict) and "metrics" in many[0]


def guidellm_schema(document: Document) -> str:
    """Which layout a report has: `before 0.7` keeps statistics below `successful`, from 0.7 on `metadata.version` 2
    may put them straight below the metric. Reports before 0.5 have no metadata."""
    metadata = _inner(document, "metadata")
    stated = str(metadata.get("guidellm_version", ""))
    parts = [int(part) for part in stated.split(".")[:2] if part.isdigit()]
    return "0.7" if parts >= [0, 7] or (number(metadata, "version") or 1) >= 2 else "before 0.7"


def _guidellm(document: Document) -> list[tuple[str, Item]]:
    schema = guidellm_schema(document)
    arguments = _inner(document, "args")
    return [
        (f" benchmarks[{index}]", _guidellm_item(benchmark, arguments, schema))
        for index, benchmark in enumerate(document["benchmarks"])
        if isinstance(benchmark, dict)
    ]


def _guidellm_item(benchmark: Document, arguments: Document, schema: str) -> Item:
    blocks = _inner(benchmark, "metrics")
    metrics: dict[str, float | None] = {}
    definitions: dict[str, str] = {}
    for field, (name, factor, definition) in _GUIDELLM_METRICS.items():
        for statistic, value in _guidellm_statistics(_inner(blocks, field)).items():
            metrics[f"{name}_{statistic}"] = factor * value
            definitions[f"{name}_{statistic}"] = definition + "; successful requests"
    for field, name in _GUIDELLM_RATES.items():
        metrics[name] = number(_successful(_inner(blocks, field)), "mean")
        definitions[name] = "successful requests only"
    # The strategy moved from `args` to `config` at 0.4, the backend's model from the arguments into `backend` at 0.7.
    strategy = _inner(_inner(benchmark, "config"), "strategy") or _inner(_inner(benchmark, "args"), "strategy")
    streams = number(strategy, "streams", "max_concurrency")
    backend = _inner(arguments, "backend")
    return Item(
        model=text(arguments, "model") or text(backend, "model") or text(_inner(benchmark, "args"), "backend_model"),
        mode="aggregated",
        input_length=number(_successful(_inner(blocks, "prompt_token_count")), "mean"),
        output_length=number(_successful(_inner(blocks, "output_token_count")), "mean"),
        concurrency=streams or number(_successful(_inner(blocks, "request_concurrency")), "mean"),
        request_rate=number(strategy, "rate"),
        metrics=metrics,
        definitions=definitions,
        extra={**rest(benchmark, {"metrics", "requests"}), "guidellm_schema": schema, "args": dict(arguments)},
    )


def _successful(block: Document) -> Document:
    return _inner(block, "successful") or (block if "mean" in block else {})


def _guidellm_statistics(block: Document) -> dict[str, float]:
    found = _successful(block)
    values = {"mean": number(found, "mean"), "p50": number(found, "median"), "std": number(found, "std_dev")}
    values |= {name: number(_inner(found, "percentiles"), name) for name in ("p90", "p95", "p99")}
    return {name: value for name, value in values.items() if value is not None and value > 0}


_READERS: tuple[tuple[str, Callable[[Document], bool], Callable[[Document], list[tuple[str, Item]]]], ...] = (
    (INFERENCEX, _is_inferencex, _inferencex),
    (GUIDELLM, _is_guidellm, _guidellm),
    (AIPERF, _is_aiperf, _aiperf),
    (VLLM, _is_vllm, _vllm),
)
