"""Qwen2 and Qwen3, dense and mixtures of experts, their language parts beside encoders, and MiMo."""

from __future__ import annotations

from typing import Any

from evaluator.inputs.architectures.config_reader import ConfigReader, grouped_queries, model_spec, require_gated
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LayerGroup, ModelSpec, MoeMlp


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
    require_gated(reader)
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    return model_spec(reader, _windowed_last(reader, grouped_queries(reader, qkv_bias=True), mlp))


def _mimo(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    if not reader.flag("attention_bias", default=True):
        raise reader.refuse("mimo without biases of queries, keys and values")
    reader.ignore("sliding_window", "use_mrope")  # no window unless use_sliding_window; positions cost the same
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    return model_spec(
        reader,
        _windowed_last(reader, grouped_queries(reader, qkv_bias=True), mlp),
        mtp_layers=reader.count("num_nextn_predict_layers"),
    )


def _qwen3(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    attention = grouped_queries(reader, qk_norm="per_head", qkv_bias=reader.flag("attention_bias"))
    return model_spec(reader, _windowed_last(reader, attention, mlp))


def _qwen2_moe(reader: ConfigReader) -> ModelSpec:
    attention = grouped_queries(reader, qkv_bias=reader.flag("qkv_bias", default=True))
    shared = reader.count("shared_expert_intermediate_size")
    return _mixture(reader, attention, shared_intermediate_size=shared, shared_gate=shared > 0)


def _qwen3_moe(reader: ConfigReader) -> ModelSpec:
    if reader.count("shared_expert_intermediate_size"):
        raise reader.refuse("shared experts of qwen3_moe (shared_expert_intermediate_size)")
    reader.ignore("use_qk_norm")
    return _mixture(reader, grouped_queries(reader, qk_norm="per_head", qkv_bias=reader.flag("attention_bias")))


def _mixture(reader: ConfigReader, attention: GroupedQueryAttention, **shared: Any) -> ModelSpec:  # noqa: ANN401  fields of the record
    require_gated(reader)
    if reader.flag("use_sliding_window"):
        raise reader.refuse("a mixture of experts with a sliding window (use_sliding_window)")
    if set(reader.words("layer_types")) - {"full_attention"}:
        raise reader.refuse("layer_types other than its window says")
    reader.ignore("max_window_layers", "sliding_window")
    total = reader.size("num_hidden_layers")
    step = reader.size("decoder_sparse_step", default=1)
    only_dense = set(reader.numbers("mlp_only_layers"))
    sparse = sum(1 for layer in range(total) if layer not in only_dense and (layer + 1) % step == 0)
    moe = MoeMlp(
        experts=reader.size("num_experts", "num_local_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=reader.size("moe_intermediate_size"),
        **shared,
    )
    dense = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    layers = [
        LayerGroup(count=total - sparse, attention=attention, mlp=dense),
        LayerGroup(count=sparse, attention=attention, mlp=moe),
    ]
    return model_spec(reader, layers)


READERS = {
    "mimo": _mimo,
    "qwen2": _qwen2,
    "qwen2_moe": _qwen2_moe,
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl_moe_text": _qwen3_moe,
    "qwen3_vl_text": _qwen3,
}
