"""Qwen2 to Qwen3.5 with their language parts, and MiMo."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import DenseMlp, GatedDeltaNet, GroupedQueryAttention, LayerGroup, ModelSpec, MoeMlp


def _windowed_last(reader: ConfigReader, attention: GroupedQueryAttention, mlp: DenseMlp) -> list[LayerGroup]:
    total = reader.size("num_hidden_layers")
    reader.ignore("max_window_layers")  # of no meaning without a window
    sliding = reader.flag("use_sliding_window")
    known = {"full_attention", "sliding_attention"} if sliding else {"full_attention"}
    if set(reader.words("layer_types")) - known:
        raise reader.refuse("layer_types other than its window says")
    if not sliding:
        return [LayerGroup(count=total, attention=attention, mlp=mlp)]
    full = min(total, reader.count("max_window_layers", total))
    window = reader.size("sliding_window")
    return [
        LayerGroup(count=full, attention=attention, mlp=mlp),
        LayerGroup(count=total - full, attention=attention, mlp=mlp, window=window),
    ]


def _qwen2(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    mlp = reader.dense()
    return reader.model_spec(_windowed_last(reader, reader.grouped_queries(qkv_bias=True), mlp))


def _mimo(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    if not reader.flag("attention_bias", default=True):
        raise reader.refuse("mimo without biases of queries, keys and values")
    reader.ignore("sliding_window", "use_mrope")  # no window unless use_sliding_window; positions cost the same
    mlp = reader.dense()
    return reader.model_spec(
        _windowed_last(reader, reader.grouped_queries(qkv_bias=True), mlp),
        mtp_layers=reader.count("num_nextn_predict_layers"),
    )


def _qwen3(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    mlp = reader.dense()
    attention = reader.grouped_queries(qk_norm="per_head", qkv_bias=reader.flag("attention_bias"))
    return reader.model_spec(_windowed_last(reader, attention, mlp))


def _qwen2_moe(reader: ConfigReader) -> ModelSpec:
    attention = reader.grouped_queries(qkv_bias=reader.flag("qkv_bias", default=True))
    shared = reader.count("shared_expert_intermediate_size")
    return _mixture(reader, attention, shared_intermediate_size=shared, shared_gate=shared > 0)


def _qwen3_moe(reader: ConfigReader) -> ModelSpec:
    if reader.count("shared_expert_intermediate_size"):
        raise reader.refuse("shared experts of qwen3_moe (shared_expert_intermediate_size)")
    reader.ignore("use_qk_norm")
    return _mixture(reader, reader.grouped_queries(qk_norm="per_head", qkv_bias=reader.flag("attention_bias")))


def _mixture(reader: ConfigReader, attention: GroupedQueryAttention, **shared: Any) -> ModelSpec:  # noqa: ANN401  fields of the record
    reader.require_gated()
    reader.forbid("a mixture of experts with a sliding window", "use_sliding_window")
    if set(reader.words("layer_types")) - {"full_attention"}:
        raise reader.refuse("layer_types other than its window says")
    reader.ignore("max_window_layers", "sliding_window")
    total = reader.size("num_hidden_layers")
    step = reader.size("decoder_sparse_step", default=1)
    only_dense = set(reader.numbers("mlp_only_layers"))
    sparse = sum(1 for layer in range(total) if layer not in only_dense and (layer + 1) % step == 0)
    moe = reader.experts("num_experts", "num_local_experts", **shared)
    return reader.model_spec(reader.first_dense_layers(attention, moe, total - sparse))


def _hybrid(reader: ConfigReader) -> ModelSpec:
    """Qwen3-Next and Qwen3.5: delta nets, with gated full attention on every fourth layer."""
    reader.require_gated()
    reader.require("full attention without a gate", "attn_output_gate")
    reader.forbid("drafts with an embedding of their own", "mtp_use_dedicated_embeddings")
    reader.one_of("mamba_ssm_dtype", "float32")
    reader.ignore("output_gate_type")  # of the norm behind a delta net
    full = reader.grouped_queries(qk_norm="per_head", qkv_bias=reader.flag("attention_bias"), output_gate=True)
    reader.forbid("attention with biases", "attention_bias")
    net = GatedDeltaNet(
        key_heads=reader.size("linear_num_key_heads"),
        value_heads=reader.size("linear_num_value_heads"),
        key_head_dim=reader.size("linear_key_head_dim"),
        value_head_dim=reader.size("linear_value_head_dim"),
        convolution=reader.size("linear_conv_kernel_dim"),
    )
    if net.value_heads % net.key_heads:
        raise reader.refuse("linear_num_value_heads that linear_num_key_heads does not divide")
    kinds = _kinds_of_layers(reader)
    mlps = _mlps_of_hybrid(reader, len(kinds))
    layers = [
        LayerGroup(count=1, attention=full if kind == "full_attention" else net, mlp=mlp)
        for kind, mlp in zip(kinds, mlps, strict=True)
    ]
    rope = reader.value("rope_parameters")
    said = rope.get("partial_rotary_factor") if isinstance(rope, Mapping) else None
    share = reader.share("partial_rotary_factor", 0.25)
    return reader.model_spec(
        layers,
        rope_fraction=said if isinstance(said, float) and 0 < said <= 1 else share,
        mtp_layers=reader.count("mtp_num_hidden_layers"),
    )


def _kinds_of_layers(reader: ConfigReader) -> list[str]:
    total, often = reader.size("num_hidden_layers"), reader.size("full_attention_interval", default=4)
    usual = ["linear_attention" if (layer + 1) % often else "full_attention" for layer in range(total)]
    return reader.kinds("layer_types", total, ("linear_attention", "full_attention")) or usual


def _mlps_of_hybrid(reader: ConfigReader, total: int) -> list[DenseMlp | MoeMlp]:
    if not (reader.value("num_experts") or reader.value("num_local_experts")):
        return [reader.dense()] * total
    shared = reader.count("shared_expert_intermediate_size")
    moe = reader.experts("num_experts", "num_local_experts", shared_intermediate_size=shared, shared_gate=shared > 0)
    dense, step = set(reader.numbers("mlp_only_layers")), reader.size("decoder_sparse_step", default=1)
    reader.ignore("intermediate_size")  # of dense layers, where there are any
    if dense or step > 1:
        other = reader.dense()
        return [other if layer in dense or (layer + 1) % step else moe for layer in range(total)]
    return [moe] * total


READERS = {
    "mimo": _mimo,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_5_moe_text": _hybrid,
    "qwen3_5_text": _hybrid,
    "qwen3_moe": _qwen3_moe,
    "qwen3_next": _hybrid,
    "qwen3_vl_moe_text": _qwen3_moe,
    "qwen3_vl_text": _qwen3,
}
