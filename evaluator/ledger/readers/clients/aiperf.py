"""AIPerf's exports: profile_export_aiperf.json or .csv with units by metric, and profile_export_aiperf_sweep.json."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from evaluator.ledger.readers.building import TTFT, Document, inner, number, text
from evaluator.ledger.readers.declared import (
    E2E,
    ITL,
    OUTPUT_RATE,
    REQUEST_RATE,
    TOTAL_RATE,
    Reading,
    ResultFormat,
    found,
    read_metrics,
)

_TPOT = "(request latency - ttft) / (output tokens - 1), a request each"
_LATENCIES = {
    "time_to_first_token": ("ttft_ms", TTFT),
    "inter_token_latency": ("tpot_exclusive_ms", _TPOT),
    "inter_chunk_latency": ("itl_ms", ITL),
    "request_latency": ("e2e_ms", E2E),
}
_RATES = {
    "output_token_throughput": OUTPUT_RATE,
    "total_token_throughput": TOTAL_RATE,
    "request_throughput": REQUEST_RATE,
}
_COMBINATIONS = "per_combination_metrics"
_FLAT = re.compile(r"(?P<metric>.+)_(?P<statistic>avg|std|p\d+)$")
_CSV_NAME = re.compile(r"(?P<metric>.+?) \((?P<unit>[^)]+)\)$")


def _told(document: Document) -> bool:
    """Only streamed answers have TTFT."""
    return any("unit" in inner(document, name) for name in ("request_latency", "time_to_first_token"))


def _settle(reading: Reading) -> None:
    """Server and device are not said; telemetry names watched devices."""
    facts, document = reading.facts, reading.document
    facts["mode"] = "aggregated"
    config = inner(document, "input_config")
    facts["concurrency"] = _load(config, "concurrency")
    facts["request_rate"] = _load(config, "request_rate", "rate")
    facts["device"] = _device(document)


def _load(config: Document, *names: str) -> float | None:
    """Of the profiling phase, or of `loadgen` before there were phases."""
    phases = config.get("phases")
    for phase in phases if isinstance(phases, list) else []:
        if isinstance(phase, dict) and "profiling" in (phase.get("name"), phase.get("kind")):
            return number(phase, *names)
    return number(inner(config, "loadgen"), *names)


def _device(document: Document) -> str | None:
    endpoints = inner(inner(document, "telemetry_data"), "endpoints")
    names = {
        text(gpu, "gpu_name")
        for endpoint in endpoints.values()
        if isinstance(endpoint, dict)
        for gpu in inner(endpoint, "gpus").values()
        if isinstance(gpu, dict)
    }
    return names.pop() if len(names) == 1 else None


AIPERF = ResultFormat(
    name="aiperf",
    told=_told,
    facts={
        "model": "input_config.models.items[0].name | input_config.endpoint.model_names[0]",
        "input_length": "input_sequence_length.avg",
        "output_length": "output_sequence_length.avg",
        "completed_requests": "request_count.avg",
        "failed_requests": "error_request_count.avg",
        "measured_at": "start_time",
    },
    latencies=_LATENCIES,
    rates={f"{name}.avg": meaning for name, meaning in _RATES.items()},
    blocks="",
    settle=_settle,
    unread=tuple(_RATES),
)


def _settle_combination(reading: Reading) -> None:
    """Metric names hold the statistic where a combination ran several times; their mean is read."""
    facts, metrics = reading.facts, inner(reading.document, "metrics")
    facts["mode"] = "aggregated"
    parameters = inner(reading.document, "parameters")
    for name, value in parameters.items():  # phases.profiling.concurrency, or its last part
        last = name.rpartition(".")[2]
        ours = {"concurrency": "concurrency", "request_rate": "request_rate", "rate": "request_rate",
                "isl": "input_length", "osl": "output_length"}.get(last)  # fmt: skip
        if ours is not None:
            facts[ours] = number({last: value}, last)
    combined: dict[str, dict[str, Any]] = {}
    for name, block in metrics.items():
        told = _FLAT.match(name)
        if told and isinstance(block, dict):
            of = combined.setdefault(told["metric"], {"unit": block.get("unit")})
            of[told["statistic"]] = block.get("mean", block.get("avg"))
    blocks = {**{name: block for name, block in metrics.items() if isinstance(block, dict)}, **combined}
    units = {name: {key: value for key, value in block.items() if value is not None} for name, block in blocks.items()}
    inside = Reading(document=units, report=units)
    read_metrics(AIPERF, inside)
    for name, (ours, meaning) in _RATES.items():
        inside.measured(ours, number(inner(units, name), "avg", "mean"), meaning)
    reading.metrics, reading.definitions = inside.metrics, inside.definitions
    for name, field in (("input_length", "input_sequence_length"), ("output_length", "output_sequence_length")):
        if facts.get(name) is None:
            facts[name] = number(inner(units, field), "avg", "mean")


AIPERF_SWEEP = ResultFormat(
    name="aiperf_sweep",
    told=lambda document: isinstance(document.get(_COMBINATIONS), list),
    facts={"model": "^metadata.model | ^metadata.model_name"},
    latencies={},
    rates={},
    points=_COMBINATIONS,
    settle=_settle_combination,
    unread=("metrics",),
)


def is_aiperf_csv(text_: str) -> bool:
    """The first column names metrics with units."""
    return text_.lstrip().startswith("Metric,") and "(ms)" in text_


def document_of_csv(text_: str) -> Document:
    """Tables parted by empty lines, as in the JSON export."""
    document: dict[str, Any] = {}
    names: list[str] = []
    for row in csv.reader(io.StringIO(text_)):
        if row[:1] == ["Metric"]:
            names = ["avg" if name == "Value" else name for name in row[1:]]
            continue
        told = _CSV_NAME.match(row[0]) if row else None
        if told is not None and found({"names": names}, "names[0]") is not None:
            values = {name: value.replace(",", "") for name, value in zip(names, row[1:], strict=False) if value}
            document[told["metric"].lower().replace(" ", "_")] = {"unit": told["unit"], **values}
    return document
