"""MiMo-V2-Flash: windows with sinks and twice the keys on most layers, values narrower than keys."""

from __future__ import annotations

from dataclasses import replace

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import GroupedQueryAttention, LayerGroup, ModelSpec


def _mimo_v2(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    if reader.flag("attention_bias") or reader.flag("mlp_bias") or reader.count("n_shared_experts"):
        raise reader.refuse("mimo_v2_flash with biases or shared experts (attention_bias, mlp_bias, n_shared_experts)")
    # Chunks are nowhere; scales; the window said twice; which experts are chosen, not how many.
    reader.ignore(
        "attention_chunk_size", "attention_value_scale", "swa_rope_theta", "sliding_window_size", "n_group",
        "topk_group", "layernorm_epsilon", "num_local_experts",
    )  # fmt: skip
    total, window = reader.size("num_hidden_layers"), reader.size("sliding_window")
    values = reader.size("v_head_dim")
    full = reader.grouped_queries(value_head_dim=values, sinks=reader.flag("add_full_attention_sink_bias"))
    sliding = _sliding(reader, full)
    moe = reader.experts("n_routed_experts", router_bias=reader.word("topk_method", "noaux_tc") == "noaux_tc")
    dense = reader.dense()
    slides = _flags(reader, total, "hybrid_layer_pattern", "layer_types", "sliding_attention")
    routed = _flags(reader, total, "moe_layer_freq", "mlp_layer_types", "sparse")
    layers = [
        LayerGroup(
            count=1, attention=sliding if slid else full, mlp=moe if sparse else dense, window=window if slid else None
        )
        for slid, sparse in zip(slides, routed, strict=True)
    ]
    return reader.model_spec(layers, rope_fraction=reader.share("partial_rotary_factor", 0.334))


def _sliding(reader: ConfigReader, full: GroupedQueryAttention) -> GroupedQueryAttention:
    heads = reader.size("swa_num_attention_heads", default=full.query_heads)
    kv_heads = reader.size("swa_num_key_value_heads", default=2 * full.kv_heads)
    if heads % kv_heads:
        raise reader.refuse(f"{kv_heads} heads of keys for {heads} queries in a window (swa_num_key_value_heads)")
    return replace(
        full,
        query_heads=heads,
        kv_heads=kv_heads,
        head_dim=reader.size("swa_head_dim", default=full.head_dim),
        value_head_dim=reader.size("swa_v_head_dim", default=full.value_width),
        sinks=reader.flag("add_swa_attention_sink_bias", default=True),
    )


def _flags(reader: ConfigReader, total: int, numbers: str, words: str, word: str) -> list[bool]:
    said = reader.numbers(numbers) or [int(kind == word) for kind in reader.words(words)]
    if len(said) != total or set(said) - {0, 1}:
        raise reader.refuse(f"{numbers} that is no list of {total} zeros and ones")
    return [bool(flag) for flag in said]


READERS = {"mimo_v2_flash": _mimo_v2}
