# fmt: off
"""Keywords of sweepdb.plan and their types; `python -m tools.keyword_types` writes this file."""

import os
from collections.abc import Sequence
from typing import Literal, TypedDict

class PlanKeywords(TypedDict, total=False):
    """The options of `plan`; what is not given, or None, is left to the device, model or engine."""
    device: str | Sequence[str] | None
    total_devices: int | None
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
    num_mtp_tokens: int | None
    mtp_acceptance_rate: float | Sequence[float] | None
    speculative: str | None
    compile: bool | None
    eager: bool | None
    search: Literal["launchable", "every", "tp"] | None
    pp_sizes: int | Sequence[int] | None
    encoder_devices: int | Sequence[int] | None
    serving_model: str | Sequence[str] | None
    engine: str | Sequence[str] | None
    client_lengths: float | None
    arrivals: str | None
    rates: float | Sequence[float] | None
    requests: int | None
    seed: int | None
    rate: float | None
    attainment: float | None
    concurrency: float | Sequence[float] | None
    rank_by: Literal["cost", "rate", "devices", "latency"] | None
    ttft_limit: float | None
    tpot_limit: float | None
    e2e_limit: float | None
    min_tokens_per_s_per_user: float | None
    reserved_memory_gb: float | None
    confidence: float | None
    tuned_servers: bool | None
    kv_transfer_gb_per_s: float | None
    price_date: str | None
    as_predicted: bool | None
