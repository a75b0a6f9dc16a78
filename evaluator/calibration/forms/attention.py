"""Prefill in blocks of 128 queries and keys, decode by bytes read; latent attention uses both."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import log2
from evaluator.calibration.forms.base import (
    Array,
    DeviceFigures,
    Inputs,
    Parts,
    Values,
    memory_seconds,
    p_norm,
    root,
    whole_power,
)

BLOCK = 128


def padded_pairs(tokens: Array, sequences: Array, pairs: Array, block: float = BLOCK) -> Array:
    """Computed pairs, when queries and keys come in blocks.

    `tokens` and `pairs` are sums. The causal half of a row's last block is wasted. Exact for equal lengths that are
    multiples of 128: length 256 takes (1 + 2) blocks of 128 x 128 = 2 x 128 rows x 192."""
    length = tokens / sequences
    rows = sequences * np.ceil(length / block) * block
    return np.asarray(rows * np.maximum(pairs / tokens + (block - 1) / 2, block), dtype=np.float64)


def prefill_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    block = values["block"]
    tokens, sequences = np.asarray(x["tokens"], float), np.asarray(x["sequences"], float)
    pairs, keys = np.asarray(x["pairs"], float), np.asarray(x["keys"], float)
    heads, kv_heads = x["heads"], x["kv_heads"]
    width = np.asarray(x["key_dim"], float) + x["value_dim"]  # of one pair: multiply-adds of the score and of the mix
    rate = np.asarray(x["peak_flops_per_s"], float) * values["compute_efficiency"]
    longest = np.ceil(keys / sequences / block)  # key blocks of one row block: the tail of the last wave
    tail = 2.0 * block * block * width * longest * figures.compute_units / rate
    compute = 2.0 * heads * padded_pairs(tokens, sequences, pairs, block) * width / rate + values["tail_waves"] * tail
    moved = (
        tokens * width * heads * 2.0
        + tokens * width * kv_heads * 2.0
        + (keys - tokens) * width * kv_heads * x["kv_bytes"]
    )
    memory = moved / (figures.memory_bytes_per_s * values["memory_efficiency"])
    compute, memory = p_norm(compute, memory, values["overlap"])
    blocks = sequences * np.ceil(tokens / sequences / block) * heads
    overhead = (
        values["fixed_us"]
        + values["block_us"] * blocks / figures.compute_units
        + values["depth_us"] * log2(1 + longest)
    )
    return Parts(overhead=overhead * 1e-6, compute=compute, memory=memory)


def decode_parts(values: Values, x: Inputs, figures: DeviceFigures) -> Parts:
    sequences, keys = np.asarray(x["sequences"], float), np.asarray(x["keys"], float)
    heads, kv_heads = x["heads"], x["kv_heads"]
    width = np.asarray(x["key_dim"], float) + x["value_dim"]
    stored = np.asarray(
        x["stored_dim"], float
    )  # numbers kept a key: key and value dimensions, or the latent vector once
    moved = (keys + sequences * values["page_keys"]) * (kv_heads * stored * x["kv_bytes"]) + sequences * (
        heads * width * 2.0
    )
    memory = memory_seconds(moved, values, x, figures)
    group = np.ceil(np.asarray(heads / kv_heads) / 16) * 16  # query heads padded to the rows of a matrix instruction
    flops = keys * (2.0 * kv_heads * group * width)
    compute = flops / (np.asarray(x["peak_flops_per_s"], float) * values["compute_efficiency"])
    one_wave = (values["wave_us"] + values["key_us"] * keys / sequences) * (1e-6 * stored / 256)
    waves = np.ceil(sequences * kv_heads / figures.compute_units) * one_wave
    exponent = values["overlap"]
    compute_power = whole_power(compute, exponent) + whole_power(waves, exponent)
    both = compute_power + whole_power(memory, exponent)
    body = root(both, exponent)
    share = compute_power / both
    ramp = values["ramp_us"] * moved / (moved + values["ramp_mb"] * 1e6)
    overhead = values["fixed_us"] + ramp + values["depth_us"] * log2(1 + keys / sequences / 32)
    return Parts(overhead=overhead * 1e-6, compute=body * share, memory=body * (1 - share))
