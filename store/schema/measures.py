"""The measured columns of a probe. One declared here is stored, sealed, queried and documented.

A new column also needs the evaluator that fills it and a migration."""

from __future__ import annotations

from store.schema.declaring import DOUBLE, LONG, PHASES, Column, OnPairs, Phase, optional

PREFILLS: tuple[Phase, ...] = ("prefill", "aggregated")
DECODES: tuple[Phase, ...] = ("decode", "aggregated")
STEP_KINDS = ("matrix", "vector", "memory", "communication", "overhead")


def _milliseconds(
    name: str,
    meaning: str,
    phases: tuple[Phase, ...] = PHASES,
    *,
    on_pairs: OnPairs | None = None,
    told: str | None = None,
) -> Column:
    return optional(name, DOUBLE, "ms", meaning, told=told, phases=phases, on_pairs=on_pairs)


def _bytes(name: str, meaning: str) -> Column:
    return Column(name, LONG, "bytes", meaning)


MEASURES: tuple[Column, ...] = (
    Column("concurrency", LONG, "requests", "requests in flight in one instance: batch_size x dp x pp"),
    _milliseconds("ttft_ms", "mean time from arrival at the instance to the first token; NULL for decode", PREFILLS),
    _milliseconds("prefill_step_ms", "one full prefill wave; NULL for decode", PREFILLS),
    optional(
        "prefill_chunks",
        LONG,
        "chunks",
        "chunks one prompt is split into; 1 where it fits the token budget; NULL for decode",
        phases=PREFILLS,
    ),
    _milliseconds(
        "makespan_ms",
        "time until the last prompt of the batch is prefilled, serving cost included; NULL for decode",
        PREFILLS,
        on_pairs="alone",
    ),
    _milliseconds(
        "decode_step_ms", "one engine step over the decode batch, before folding by MTP; NULL for prefill", DECODES
    ),
    optional(
        "tokens_per_step",
        DOUBLE,
        "tokens",
        "expected tokens a request gains in one decode step (1 without MTP); NULL for prefill",
        phases=DECODES,
        on_pairs="alone",
    ),
    _milliseconds(
        "tpot_inclusive_ms",
        "e2e / output_length; NULL for prefill",
        DECODES,
        on_pairs="alone",
        told="e2e / output_length; under upstream, of prompts in chunks, the exclusive TPOT; NULL for prefill",
    ),
    _milliseconds(
        "tpot_exclusive_ms", "(e2e - ttft) / max(output_length - 1, 1); NULL for prefill", DECODES, on_pairs="alone"
    ),
    _milliseconds(
        "e2e_ms",
        "arrival to last token; NULL where the phase has none",
        ("aggregated",),
        told="arrival to last token; under upstream, of prompts in chunks, that of the last request; NULL where the"
        " phase has none",
    ),
    _bytes("weight_bytes", "weights on the fullest device"),
    _bytes("kv_cache_bytes", "KV cache on one device with every request at its full length"),
    _bytes("kv_cache_mean_bytes", "KV cache on one device with every request at its mean length"),
    _bytes("activation_bytes", "peak activations on one device"),
    _bytes("kv_bytes_per_request", "KV cache of one prompt over the whole instance: what a PD transfer moves"),
    *(
        _milliseconds(f"{phase}_step_{kind}_ms", f"{kind} part of the {phase} step", phases)
        for phase, phases in (("prefill", PREFILLS), ("decode", DECODES))
        for kind in STEP_KINDS
    ),
    optional(
        "realised_input_length_mean",
        DOUBLE,
        "tokens",
        "mean input length of the composed batch; NULL for fixed lengths",
    ),
    *(
        _milliseconds(
            f"decode_step_{name}_ms",
            f"{meaning} decode step over random compositions; NULL for fixed lengths",
            DECODES,
        )
        for name, meaning in (("p50", "median"), ("p90", "90th percentile of the"), ("p99", "99th percentile of the"))
    ),
    _milliseconds(
        "prompt_service_ms",
        "what one more prompt adds to a prefill replica that runs full steps;"
        " NULL under waves and seed002, and outside the prefill phase",
        ("prefill",),
    ),
    _milliseconds(
        "ttft_in_step_ms",
        "mean time to the first token if users of equal lengths stayed in step, where that is more than 1.5 times off"
        " ttft_ms: first tokens lie between the two; NULL elsewhere",
        PREFILLS,
    ),
)
