"""Gemma 3 and 4. Full layers of Gemma 4 have heads of another size, and their values are keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LayerGroup, ModelSpec, MoeMlp
from evaluator.inputs.yaml_file import shortened


def _gemma3(reader: ConfigReader) -> ModelSpec:
    # Published files with an encoder say only what differs from their class.
    reader.usual(
        vocab_size=262_208,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=256,
        max_position_embeddings=131_072,
    )
    _require_plain(reader)
    # Bounds of logits and the scale of scores; bases of positions, of which there are two.
    reader.ignore("final_logit_softcapping", "attn_logit_softcapping", "query_pre_attn_scalar", "rope_local_base_freq")
    total = reader.size("num_hidden_layers")
    often = reader.size("sliding_window_pattern", "_sliding_window_pattern", default=6)
    slides = reader.sliding_layers(total, often)
    attention = reader.grouped_queries(qk_norm="per_head")
    return _spec(reader, [(attention, slid) for slid in slides], _dense(reader))


def _gemma4(reader: ConfigReader) -> ModelSpec:
    _require_plain(reader)
    for name, part in (
        ("hidden_size_per_layer_input", "embeddings of every layer"),
        ("num_kv_shared_layers", "KV caches shared between layers"),
    ):
        if reader.count(name):
            raise reader.refuse(f"{part} ({name})")
    # The bound of logits; a table of what no layer reads; wider MLPs of layers that share caches.
    reader.ignore(
        "final_logit_softcapping", "vocab_size_per_layer_input", "use_double_wide_mlp", "expert_intermediate_size"
    )
    reader.one_of("use_bidirectional_attention", "vision")
    total = reader.size("num_hidden_layers")
    slides = reader.sliding_layers(total, 6)
    near = reader.grouped_queries(qk_norm="per_head", unscaled_norm="value")
    far = _full(reader, near)
    layers = [(near if slid else far, slid) for slid in slides]
    return _spec(reader, layers, _experts(reader) if reader.flag("enable_moe_block") else _dense(reader))


def _require_plain(reader: ConfigReader) -> None:
    said = reader.word("hidden_activation", "gelu_pytorch_tanh")
    if said != "gelu_pytorch_tanh" or reader.word("hidden_act", said) not in {said, "gelu_pytorch_tanh"}:
        raise reader.refuse(f"hidden_activation {shortened(said)}")
    reader.forbid("gemma with biases", "attention_bias")
    if reader.value("use_bidirectional_attention") is True:
        raise reader.refuse("attention in both directions (use_bidirectional_attention)")


def _full(reader: ConfigReader, near: GroupedQueryAttention) -> GroupedQueryAttention:
    own = reader.value("per_layer_config")
    said: Any = next(iter(own.values()), {}) if isinstance(own, Mapping) else {}
    if isinstance(own, Mapping) and any(other != said for other in own.values()):
        raise reader.refuse("full layers that differ (per_layer_config)")
    inner = ConfigReader(said, f"{reader.where}, per_layer_config")
    head_dim = inner.size("head_dim", default=reader.size("global_head_dim", default=512))
    same = reader.flag("attention_k_eq_v")
    kv_heads = near.kv_heads
    if same:
        kv_heads = inner.size(
            "num_key_value_heads", default=reader.size("num_global_key_value_heads", default=near.kv_heads)
        )
    reader.ignore("num_global_key_value_heads")
    if unread := inner.unread():
        raise reader.refuse(f"{', '.join(map(shortened, unread))} of per_layer_config")
    if near.query_heads % kv_heads:
        raise reader.refuse(f"{kv_heads} heads of keys for {near.query_heads} queries (num_global_key_value_heads)")
    return replace(
        near, kv_heads=kv_heads, head_dim=head_dim, values_are_keys=same, rope_fraction=_share(reader, "full_attention")
    )


def _share(reader: ConfigReader, kind: str) -> float:
    ropes = reader.value("rope_parameters")
    inner: Any = ropes.get(kind) if isinstance(ropes, Mapping) else None
    said = inner.get("partial_rotary_factor", 1.0) if isinstance(inner, Mapping) else 0.25
    return float(said) if isinstance(said, int | float) and 0 < said <= 1 else 1.0


def _dense(reader: ConfigReader) -> DenseMlp:
    reader.ignore("num_experts", "top_k_experts", "moe_intermediate_size")  # of models that enable_moe_block
    return reader.dense()


def _experts(reader: ConfigReader) -> MoeMlp:
    return reader.experts(
        "num_experts",
        chosen="top_k_experts",
        shared_intermediate_size=reader.size("intermediate_size"),
        apart_norms=True,
    )


def _spec(reader: ConfigReader, layers: list[tuple[GroupedQueryAttention, bool]], mlp: DenseMlp | MoeMlp) -> ModelSpec:
    window = reader.size("sliding_window")
    groups = [
        LayerGroup(count=1, attention=attention, mlp=mlp, window=window if slid else None) for attention, slid in layers
    ]
    tied = reader.flag("tie_word_embeddings", default=True)
    return reader.model_spec(groups, tie_word_embeddings=tied, output_norms=True)


READERS = {"gemma3_text": _gemma3, "gemma4_text": _gemma4}
