"""Options of `evaluate` as plain values. What they mean is sweepdb.evaluating.requests."""

from __future__ import annotations

from dataclasses import dataclass

from evaluator.inputs.plan_search import Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What `evaluate` was told, as plain values. What is empty or None was left to the device, model or engine."""

    models: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("TEST_DEVICE",)
    num_devices: tuple[int, ...] = ()
    total_devices: int | None = None
    prefill_devices: tuple[int, ...] = ()
    decode_devices: tuple[int, ...] = ()
    input_length: str | None = None
    output_length: float | None = None
    workload_names: tuple[str, ...] = ()
    prefix_cache_hit_rate: float = 0.0
    max_batched_tokens: int | None = None
    linears: tuple[str, ...] = ()  # none: as published, or the convention's own
    experts: str | None = None
    attention: str | None = None
    mxfp4_group_size: int = 32
    mtp_tokens: int = 0
    mtp_acceptance: tuple[float, ...] | None = None
    compile: bool = True
    convention: str = "physical"
    modes: tuple[str, ...] = ()
    search: str | None = None  # None: what the engine can launch; every legal plan without one
    tp_sizes: Sizes = None
    pp_sizes: Sizes = None
    dp_sizes: Sizes = None
    ep_sizes: Sizes = None
    moe_tp_sizes: Sizes = None
    moe_dp_sizes: Sizes = None
    batch_range: tuple[int, int | None] = (1, None)
    serving_cost_ms: float = 0.0
    serving_models: tuple[str, ...] = ()  # none: each device's usual one
    client_shortest: float | None = None
    prompts_per_user: int | None = None
    poll_steps: int | None = None
    seats: int | None = None
    wait_steps: int | None = None
    routing: str | None = None
    family: str = "auto"
