"""When fetching a prefix's keys beats computing them: a closed form without a store.

Source: Qin et al. 2024, Mooncake (arXiv 2407.00079). A layer of p tokens computes a p^2 d + b p d^2 and keeps 2 p d s
/ gqa bytes, so a link pays from B = 2 d s G / (gqa (a p d + b d^2)) on. Left out: latencies, efficiency below the
peak, and other traffic."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from evaluator.inputs import GroupedQueryAttention, LatentAttention, ModelSpec, load_device, load_model, parameter_count
from store.errors import InputError

ATTENTION_OPERATIONS = 4.0  # a: scores and values, two each, of every token with every other
PAPER_OPERATIONS = 22.0  # b of the paper's example, whatever the model
BYTES = 2.0  # s, of a number in the cache
BANDWIDTH_DEVICES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixTransfer:
    """Computing at the devices' peak, and fetching."""

    model: str
    device: str
    num_devices: int
    input_length: int
    kv_bytes_per_token: float
    prompt_ms: float
    least_gb_per_s: float
    least_gb_per_s_paper: float | None  # with b = 22; None where keys are no heads
    kv_transfer_gb_per_s: float | None
    transfer_ms: float | None
    fetching_pays: bool | None


BANDWIDTH_COLUMNS: tuple[str, ...] = PrefixTransfer.__slots__


def least_bytes_per_s(
    *, hidden: int, heads_a_key: float, prompt: int, operations_per_s: float, own_operations: float = PAPER_OPERATIONS
) -> float:
    """Where fetching breaks even. `own_operations` is b, `heads_a_key` gqa."""
    # Llama-3-70B at 8,192 tokens, b 22, 8 x 312e12: 2 x 8192 x 2 x 2.496e15 / (8 x 26 x 8192^2) = 5.86e9.
    together = ATTENTION_OPERATIONS * prompt * hidden + own_operations * hidden * hidden
    return 2.0 * hidden * BYTES * operations_per_s / (heads_a_key * together)


def prefix_transfer(
    model: str,
    device: str,
    *,
    input_length: int,
    num_devices: int = BANDWIDTH_DEVICES,
    kv_transfer_gb_per_s: float | None = None,
) -> PrefixTransfer:
    """Keys in 16 bits; decimal GB."""
    if input_length < 1 or num_devices < 1:
        raise InputError("`input_length` and `num_devices` must be at least 1")
    if kv_transfer_gb_per_s is not None and not (isfinite(kv_transfer_gb_per_s) and kv_transfer_gb_per_s > 0.0):
        raise InputError(f"`kv_transfer_gb_per_s` must be above 0, not {kv_transfer_gb_per_s:g}")
    name, spec = load_model(model)
    profile = load_device(device, family="theoretical")
    rates = dict(profile.matrix_flops_per_s)
    operations_per_s = num_devices * (rates.get("bf16") or rates["fp16"])
    numbers, attended = _of_layers(spec)
    ends = spec.vocab_size * spec.hidden_size * (1 if spec.tie_word_embeddings else 2)
    products = 2.0 * (parameter_count(spec).active - ends)
    operations = input_length * (products + ATTENTION_OPERATIONS * input_length * attended)
    bytes_per_token = BYTES * numbers
    seconds = operations / operations_per_s
    least = bytes_per_token * input_length / seconds
    paper = _of_the_paper(spec, input_length, operations_per_s)
    moved = None if kv_transfer_gb_per_s is None else bytes_per_token * input_length / (1e9 * kv_transfer_gb_per_s)
    return PrefixTransfer(
        model=name,
        device=profile.name,
        num_devices=num_devices,
        input_length=input_length,
        kv_bytes_per_token=bytes_per_token,
        prompt_ms=1e3 * seconds,
        least_gb_per_s=1e-9 * least,
        least_gb_per_s_paper=None if paper is None else 1e-9 * paper,
        kv_transfer_gb_per_s=kv_transfer_gb_per_s,
        transfer_ms=None if moved is None else 1e3 * moved,
        fetching_pays=None if moved is None else moved < seconds,
    )


def _of_layers(spec: ModelSpec) -> tuple[float, float]:
    kept = attended = 0.0
    for group in spec.layers:
        attention = group.attention
        if attention is None:
            continue
        chosen = group.beside is not None or getattr(attention, "chosen_keys", None)
        if chosen or not isinstance(attention, LatentAttention | GroupedQueryAttention):
            raise InputError(
                "models with linear states or attention to chosen tokens have no closed form here",
                hint="sweepdb evaluate prices their prompts",
            )
        if isinstance(attention, LatentAttention):
            kept += group.count * (attention.kv_lora_rank + attention.rope_head_dim)
            met = (attention.nope_head_dim + attention.rope_head_dim + attention.value_head_dim) / 2
            attended += group.count * attention.query_heads * met
        else:
            kept += group.count * 2 * attention.kv_heads * attention.head_dim
            attended += group.count * attention.query_heads * attention.head_dim
    return kept, attended


def _of_the_paper(spec: ModelSpec, prompt: int, operations_per_s: float) -> float | None:
    attention = next((group.attention for group in spec.layers if group.attention is not None), None)
    if not isinstance(attention, GroupedQueryAttention):
        return None
    heads_a_key = attention.query_heads / attention.kv_heads
    return least_bytes_per_s(
        hidden=spec.hidden_size, heads_a_key=heads_a_key, prompt=prompt, operations_per_s=operations_per_s
    )
