"""Qwen2 and Qwen3, dense, mixtures of experts of Qwen3, their language parts beside encoders, and MiMo."""

from __future__ import annotations

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


def _qwen3_moe(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    if reader.flag("use_sliding_window"):
        raise reader.refuse("a mixture of experts with a sliding window (use_sliding_window)")
    if reader.count("shared_expert_intermediate_size"):
        raise reader.refuse("shared experts of qwen3_moe (shared_expert_intermediate_size)")
    reader.ignore("max_window_layers", "sliding_window", "use_qk_norm")
    attention = grouped_queries(reader, qk_norm="per_head", qkv_bias=reader.flag("attention_bias"))
    total = reader.size("num_hidden_layers")
    step = reader.size("decoder_sparse_step", default=1)
    only_dense = set(reader.numbers("mlp_only_layers"))
    sparse = sum(1 for layer in range(total) if layer not in only_dense and (layer + 1) % step == 0)
    moe = MoeMlp(
        experts=reader.size("num_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=reader.size("moe_intermediate_size"),
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
    "qwen3": _qwen3,
    "qwen3_moe": _qwen3_moe,
    "qwen3_vl_moe_text": _qwen3_moe,
    "qwen3_vl_text": _qwen3,
}
