"""Reports of GuideLLM, whose layout moved: 0.3 and before, 0.4 to 0.6, and 0.7 (`metadata.version` 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from evaluator.ledger.readers.building import TPOT_INCLUSIVE, TTFT, BadItem, Document, Item, inner, number, rest, text
from evaluator.ledger.readers.request_logs import guidellm_log
from evaluator.ledger.readers.vllm import E2E
from store.records import SideRecord

GUIDELLM = "guidellm"
Layout = Literal["until 0.3", "0.4 to 0.6", "from 0.7"]
_LATENCIES: Mapping[str, tuple[str, float, str]] = {
    "time_to_first_token_ms": ("ttft_ms", 1.0, TTFT),
    "inter_token_latency_ms": ("tpot_exclusive_ms", 1.0, "(last token - first token) / (output tokens - 1)"),
    "time_per_output_token_ms": ("tpot_inclusive_ms", 1.0, TPOT_INCLUSIVE),
    "request_latency": ("e2e_ms", 1000.0, E2E + "; converted from s"),
}
_RATES = {
    "output_tokens_per_second": "output_tokens_per_s",
    "tokens_per_second": "total_tokens_per_s",
    "requests_per_second": "requests_per_s",
}
# Until 0.3 this was (last token - first token) / output tokens: neither of the two definitions of the field.
_OTHERWISE_DEFINED_UNTIL_0_3 = "time_per_output_token_ms"


def is_guidellm(document: Document) -> bool:
    """Whether a document is a report."""
    many = document.get("benchmarks")
    return isinstance(many, list) and all(isinstance(one, dict) and "metrics" in one for one in many)


def layout_of(document: Document) -> Layout:
    """Told by what is there: metadata came with 0.4's successors, `config.spec` with 0.7."""
    metadata = inner(document, "metadata")
    if number(metadata, "version") == 2 or "spec" in inner(document, "config"):
        return "from 0.7"
    first = document["benchmarks"][0] if document["benchmarks"] else {}
    return "until 0.3" if not metadata and {"run_stats", "worker"} & set(first) else "0.4 to 0.6"


def read_guidellm(document: Document) -> list[tuple[str, Item]]:
    """One point a benchmark of the report."""
    layout = layout_of(document)
    if not document["benchmarks"]:
        raise BadItem("the report holds no benchmark")
    return [
        (f" benchmarks[{index}]", _item(benchmark, document, layout))
        for index, benchmark in enumerate(document["benchmarks"])
    ]


def _item(benchmark: Document, report: Document, layout: Layout) -> Item:
    blocks = inner(benchmark, "metrics")
    metrics: dict[str, float | None] = {}
    definitions: dict[str, str] = {}
    read = {name for name in _LATENCIES if layout != "until 0.3" or name != _OTHERWISE_DEFINED_UNTIL_0_3}
    for field in sorted(read):
        name, factor, definition = _LATENCIES[field]
        for statistic, value in _statistics(inner(blocks, field)).items():
            metrics[f"{name}_{statistic}"] = factor * value
            definitions[f"{name}_{statistic}"] = definition + "; successful requests"
    for field, name in _RATES.items():
        metrics[name] = number(_successful(inner(blocks, field)), "mean") or None
        definitions[name] = "mean over the time of the run; successful requests"
    strategy = _strategy(benchmark)
    kept = rest(benchmark, {"metrics", "requests"})
    uninterpreted = rest(blocks, {*read, *_RATES, "prompt_token_count", "output_token_count"})
    return Item(
        model=_model(benchmark, report),
        mode="aggregated",
        input_length=number(_successful(inner(blocks, "prompt_token_count")), "mean"),
        output_length=number(_successful(inner(blocks, "output_token_count")), "mean"),
        concurrency=_concurrency(strategy, blocks),
        request_rate=number(strategy, "rate"),
        prefill=SideRecord(),
        decode=SideRecord(),
        metrics=metrics,
        definitions=definitions,
        extra={
            **kept,
            "metrics": uninterpreted,
            "guidellm_layout": layout,
            **{name: report[name] for name in ("metadata", "args", "config") if name in report and name not in kept},
        },
        requests=guidellm_log(benchmark),
    )


def _strategy(benchmark: Document) -> Document:
    """Below `args` until 0.3, below `scheduler` or `config` since."""
    found = (inner(inner(benchmark, name), "strategy") for name in ("config", "scheduler", "args"))
    return next((strategy for strategy in found if strategy), {})


def _concurrency(strategy: Document, blocks: Document) -> float | None:
    """Streams of a concurrent run, 1 of a synchronous one, else the mean number of requests in flight."""
    streams = number(strategy, "streams", "max_concurrency")
    kind = text(strategy, "kind", "type_")
    if streams is None and kind == "synchronous":
        return 1.0
    return streams or number(_successful(inner(blocks, "request_concurrency")), "mean")


def _model(benchmark: Document, report: Document) -> str | None:
    arguments, specification = inner(report, "args"), inner(inner(report, "config"), "spec")
    places = (
        arguments,
        inner(specification, "backend"),
        inner(arguments, "backend"),
        inner(inner(benchmark, "config"), "backend"),
        inner(inner(benchmark, "benchmarker"), "backend"),
    )
    stated = next((found for place in places if (found := text(place, "model"))), None)
    return stated or text(inner(benchmark, "worker"), "backend_model")


def _successful(block: Document) -> Document:
    return inner(block, "successful") or (block if "mean" in block else {})


def _statistics(block: Document) -> dict[str, float]:
    found = _successful(block)
    values = {"mean": number(found, "mean"), "p50": number(found, "median"), "std": number(found, "std_dev")}
    values |= {name: number(inner(found, "percentiles"), name) for name in ("p90", "p95", "p99")}
    return {name: value for name, value in values.items() if value}
