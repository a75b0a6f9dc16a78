# fmt: off
"""Keywords of sweepdb.evaluate and their types; `python -m tools.keyword_types` writes this file."""

import os
from collections.abc import Sequence
from typing import Literal, TypedDict

class EvaluateKeywords(TypedDict, total=False):
    """The options of `evaluate`; what is not given, or None, is left to the device, model or engine."""
    device: str | Sequence[str] | None
    num_devices: int | Sequence[int] | None
    total_devices: int | None
    prefill_devices_per_instance: int | Sequence[int] | None
    decode_devices_per_instance: int | Sequence[int] | None
    input_length: int | str | os.PathLike[str] | None
    output_length: float | None
    images: int | None
    image_size: str | None
    encoder_split: Literal["weights", "data"] | None
    workload: str | Sequence[str] | None
    prefix_cache_hit_rate: float | None
    host_hit_rate: float | None
    ssd_hit_rate: float | None
    remote_hit_rate: float | None
    host_gb_per_s: float | None
    ssd_gb_per_s: float | None
    remote_gb_per_s: float | None
    max_num_batched_tokens: int | None
    quantization: str | Sequence[str] | None
    experts_quantization: str | None
    mixers_quantization: str | None
    head_quantization: str | None
    drafts_quantization: str | None
    kv_cache_quantization: str | None
    mxfp4_group_size: int | None
    num_mtp_tokens: int | None
    mtp_acceptance_rate: float | Sequence[float] | None
    speculative: str | None
    compile: bool | None
    eager: bool | None
    convention: Literal["physical", "upstream"] | None
    mode: Literal["prefill", "decode", "aggregated"] | Sequence[Literal["prefill", "decode", "aggregated"]] | None
    search: Literal["launchable", "every", "tp"] | None
    tp_sizes: int | Sequence[int] | None
    pp_sizes: int | Sequence[int] | None
    dp_sizes: int | Sequence[int] | None
    ep_sizes: int | Sequence[int] | None
    moe_tp_sizes: int | Sequence[int] | None
    moe_dp_sizes: int | Sequence[int] | None
    dcp_sizes: int | Sequence[int] | None
    redundant_experts: int | Sequence[int] | None
    pcp_sizes: int | Sequence[int] | None
    micro_batches: int | Sequence[int] | None
    encoder_devices: int | Sequence[int] | None
    batch_range: int | tuple[int, int] | None
    serving_cost: float | None
    serving_model: str | Sequence[str] | None
    engine: str | Sequence[str] | None
    client_lengths: float | None
    prompts_per_user: int | None
    poll_steps: int | None
    max_num_seqs: int | None
    wait_steps: int | None
    routing: str | None
    arrivals: str | None
    rates: float | Sequence[float] | None
    requests: int | None
    seed: int | None
    kv_admission: Literal["current", "reserved"] | None
    dispatch: Literal["random", "least"] | None
    reject_ttft: float | None
    reject_tbt: float | None
    keep_requests: bool | None
    prefill_policy: Literal["random", "load", "cache", "mooncake"] | None
    prefill_instances: int | None
    cache_blocks: int | None
    trace_caches: str | None
    balance_threshold: float | None
    family: Literal["auto", "theoretical", "calibrated"] | None
