"""profile_export_aiperf.json of aiperf: one block of statistics with its unit for each metric."""

from __future__ import annotations

from collections.abc import Iterator

from evaluator.ledger.readers.building import TTFT, BadItem, Document, Item, inner, number, rest, text
from evaluator.ledger.readers.vllm import E2E, ITL

AIPERF = "aiperf"
_METRICS = {
    "time_to_first_token": ("ttft_ms", TTFT),
    "inter_token_latency": ("tpot_exclusive_ms", "(request latency - ttft) / (output tokens - 1), a request each"),
    "inter_chunk_latency": ("itl_ms", ITL),
    "request_latency": ("e2e_ms", E2E),
    "output_token_throughput": ("output_tokens_per_s", "generated tokens a second of the whole run"),
    "total_token_throughput": ("total_tokens_per_s", "prompt and generated tokens a second of the whole run"),
    "request_throughput": ("requests_per_s", "finished requests a second of the whole run"),
}
_TO_MS = {"ms": 1.0, "s": 1000.0, "sec": 1000.0, "us": 1e-3, "ns": 1e-6}


def is_aiperf(document: Document) -> bool:
    """Whether a result is this client's; TTFT is there for streamed answers alone."""
    return any("unit" in inner(document, name) for name in ("request_latency", "time_to_first_token"))


def read_aiperf(document: Document) -> list[tuple[str, Item]]:
    """One run. Who answered, and on what, is not said; telemetry names the devices it watched."""
    metrics: dict[str, float | None] = {}
    definitions: dict[str, str] = {}
    for field, (name, definition) in _METRICS.items():
        for ours, value, unit in _statistics(inner(document, field), name, field):
            metrics[ours] = value
            definitions[ours] = definition + ("" if unit in {"", "ms"} else f"; converted from {unit}")
    config = inner(document, "input_config")
    item = Item(
        model=_model(config),
        device=_device(document),
        mode="aggregated",
        input_length=number(inner(document, "input_sequence_length"), "avg"),
        output_length=number(inner(document, "output_sequence_length"), "avg"),
        concurrency=_load(config, "concurrency"),
        request_rate=_load(config, "request_rate", "rate"),
        metrics=metrics,
        definitions=definitions,
        extra=rest(document, _METRICS),
    )
    return [("", item)]


def _statistics(block: Document, name: str, field: str) -> Iterator[tuple[str, float, str]]:
    """(our name with its statistic, value, unit it came in). A rate has one value, called its average."""
    if name.endswith("_per_s"):
        value = number(block, "avg")
        if value is not None:
            yield name, value, ""
        return
    unit = str(block.get("unit", "ms"))
    if unit not in _TO_MS:
        raise BadItem(f"{field}: unit {unit!r} is unknown")
    for statistic in block:
        percentile = statistic[:1] == "p" and statistic[1:].isdigit()
        if not percentile and statistic not in {"avg", "std"}:
            continue
        value = number(block, statistic)
        if value:
            yield f"{name}_{'mean' if statistic == 'avg' else statistic}", _TO_MS[unit] * value, unit


def _model(config: Document) -> str | None:
    """`models.items[0].name` since the configuration has phases, `endpoint.model_names[0]` before."""
    items = inner(config, "models").get("items")
    if isinstance(items, list) and items and isinstance(items[0], dict):
        return text(items[0], "name")
    names = inner(config, "endpoint").get("model_names")
    return str(names[0]) if isinstance(names, list) and names else None


def _load(config: Document, *names: str) -> float | None:
    """A number of the profiling phase, or of `loadgen` before there were phases."""
    phases = config.get("phases")
    for phase in phases if isinstance(phases, list) else []:
        if isinstance(phase, dict) and "profiling" in (phase.get("name"), phase.get("kind")):
            return number(phase, *names)
    return number(inner(config, "loadgen"), *names)


def _device(document: Document) -> str | None:
    """The one kind of device that telemetry watched; None where there are several or none."""
    endpoints = inner(inner(document, "telemetry_data"), "endpoints")
    names = {
        text(gpu, "gpu_name")
        for endpoint in endpoints.values()
        if isinstance(endpoint, dict)
        for gpu in inner(endpoint, "gpus").values()
        if isinstance(gpu, dict)
    }
    return names.pop() if len(names) == 1 else None
