"""The measured columns of a probe: name, type, unit and meaning, once for schema, snapshots and dictionary.

Not here: names that come from joins (model, plan ...), and measures derived from these (queries/views)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ColumnType = Literal["integer", "float", "split"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeColumn:
    """One stored measure of a probe. `split` columns are stored as FLOAT in snapshots, `float` ones as DOUBLE."""

    name: str
    type: ColumnType
    unit: str
    meaning: str
    nullable: bool = True


def _column(name: str, type_: ColumnType, unit: str, meaning: str, *, nullable: bool = True) -> ProbeColumn:
    return ProbeColumn(name=name, type=type_, unit=unit, meaning=meaning, nullable=nullable)


STEP_KINDS = ("matrix", "vector", "memory", "communication", "overhead")

PROBE_COLUMNS: tuple[ProbeColumn, ...] = (
    _column(
        "concurrency", "integer", "requests", "requests in flight in one instance: batch_size x dp x pp", nullable=False
    ),
    _column("ttft_ms", "float", "ms", "mean time from arrival at the instance to the first token; NULL for decode"),
    _column("prefill_step_ms", "float", "ms", "one full prefill wave; NULL for decode"),
    _column(
        "prefill_chunks",
        "integer",
        "chunks",
        "chunks one prompt is split into; 1 where it fits the token budget; NULL for decode",
    ),
    _column(
        "makespan_ms",
        "float",
        "ms",
        "time until the last prompt of the batch is prefilled, serving cost included; NULL for decode",
    ),
    _column(
        "decode_step_ms",
        "float",
        "ms",
        "one engine step over the decode batch, before folding by MTP; NULL for prefill",
    ),
    _column(
        "tokens_per_step",
        "float",
        "tokens",
        "expected tokens a request gains in one decode step (1 without MTP); NULL for prefill",
    ),
    _column("tpot_inclusive_ms", "float", "ms", "e2e / output_length; NULL for prefill"),
    _column("tpot_exclusive_ms", "float", "ms", "(e2e - ttft) / max(output_length - 1, 1); NULL for prefill"),
    _column("e2e_ms", "float", "ms", "arrival to last token; NULL where the phase has none"),
    _column("weight_bytes", "integer", "bytes", "weights on the fullest device", nullable=False),
    _column(
        "kv_cache_bytes",
        "integer",
        "bytes",
        "KV cache on one device with every request at its full length",
        nullable=False,
    ),
    _column(
        "kv_cache_mean_bytes",
        "integer",
        "bytes",
        "KV cache on one device with every request at its mean length",
        nullable=False,
    ),
    _column("activation_bytes", "integer", "bytes", "peak activations on one device", nullable=False),
    _column(
        "kv_bytes_per_request",
        "integer",
        "bytes",
        "KV cache of one prompt over the whole instance: what a PD transfer moves",
        nullable=False,
    ),
    *(
        _column(f"{phase}_step_{kind}_ms", "split", "ms", f"{kind} part of the {phase} step")
        for phase in ("prefill", "decode")
        for kind in STEP_KINDS
    ),
    _column(
        "realised_input_length_mean",
        "float",
        "tokens",
        "mean input length of the composed batch; NULL for fixed lengths",
    ),
    _column("decode_step_p50_ms", "float", "ms", "median decode step over random compositions; NULL for fixed lengths"),
    _column(
        "decode_step_p90_ms",
        "float",
        "ms",
        "90th percentile of the decode step over random compositions; NULL for fixed lengths",
    ),
    _column(
        "decode_step_p99_ms",
        "float",
        "ms",
        "99th percentile of the decode step over random compositions; NULL for fixed lengths",
    ),
    _column(
        "prompt_service_ms",
        "float",
        "ms",
        "what one more prompt adds to a prefill replica that runs full steps;"
        " NULL under waves and seed002, and outside the prefill phase",
    ),
)
