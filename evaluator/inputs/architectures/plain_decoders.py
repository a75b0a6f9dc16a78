"""Models of Llama's shape, with windows, learned positions, ALiBi or a mixture of experts."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LayerGroup, ModelSpec


def _llama(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    bias = reader.flag("attention_bias")
    attention = reader.grouped_queries(qkv_bias=bias, output_bias=bias)
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"), bias=reader.flag("mlp_bias"))
    return reader.model_spec(reader.alike(attention, mlp))


def _smollm3(reader: ConfigReader) -> ModelSpec:
    # Positions of some layers are not turned, which nothing else depends on.
    reader.ignore("no_rope_layers", "no_rope_layer_interval")
    reader.forbid("smollm3 with a sliding window", "use_sliding_window")
    if set(reader.words("layer_types")) - {"full_attention"}:
        raise reader.refuse("layer_types other than its window says")
    reader.ignore("sliding_window", "max_window_layers")
    return _llama(reader)


def _mistral(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    mlp = reader.dense()
    return reader.model_spec(reader.windowed_layers(reader.grouped_queries(), mlp))


def _mixtral(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    moe = reader.experts("num_local_experts", width="intermediate_size")
    return reader.model_spec(reader.windowed_layers(reader.grouped_queries(), moe))


def _phi3(reader: ConfigReader) -> ModelSpec:
    """Packed projections; one window for all layers, if any."""
    reader.require_gated()
    reader.forbid("phi3 with biases", "attention_bias")
    mlp = reader.dense()
    return reader.model_spec(
        reader.windowed_layers(reader.grouped_queries(), mlp),
        rope_fraction=reader.share("partial_rotary_factor", 1.0),
    )


def _opt(reader: ConfigReader) -> ModelSpec:
    reader.one_of("activation_function", "relu", "gelu")
    if reader.value("word_embed_proj_dim", reader.value("hidden_size")) != reader.value("hidden_size"):
        raise reader.refuse("an embedding narrower than the hidden size (word_embed_proj_dim)")
    if not reader.flag("enable_bias", default=True) or not reader.flag("layer_norm_elementwise_affine", default=True):
        raise reader.refuse("OPT without biases (enable_bias, layer_norm_elementwise_affine)")
    attention = reader.grouped_queries(qkv_bias=True, output_bias=True)
    reader.ignore("do_layer_norm_before")  # where a norm stands, not whether
    mlp = reader.dense("ffn_dim", gated=False, bias=True)
    return reader.model_spec(
        reader.alike(attention, mlp),
        tie_word_embeddings=reader.flag("tie_word_embeddings", default=True),
        norm="layer",
        position="learned",
        learned_positions=reader.size("max_position_embeddings") + 2,  # OPT offsets positions by two rows
    )


def _bloom(reader: ConfigReader) -> ModelSpec:
    hidden = reader.size("hidden_size", "n_embed")
    heads = reader.size("n_head", "num_attention_heads")
    attention = GroupedQueryAttention(
        query_heads=heads, kv_heads=heads, head_dim=hidden // heads, qkv_bias=True, output_bias=True
    )
    mlp = DenseMlp(intermediate_size=4 * hidden, gated=False, bias=True)
    # Where a residual is taken from; whether softmax is written out; masks of padding: no operator.
    reader.ignore(
        "apply_residual_connection_post_layernorm", "masked_softmax_fusion", "attention_softmax_in_fp32",
        "offset_alibi", "slow_but_exact", "skip_bias_add", "skip_bias_add_qkv", "bias_dropout_fusion",
        "seq_length",
    )  # fmt: skip
    return reader.model_spec(
        [LayerGroup(count=reader.size("n_layer", "num_hidden_layers"), attention=attention, mlp=mlp)],
        tie_word_embeddings=reader.flag("tie_word_embeddings", default=True),
        norm="layer",
        embedding_norm=True,
        position="alibi",
    )


def _gpt_oss(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    reader.ignore(
        "initial_context_length", "experts_per_token", "swiglu_limit", "swiglu_alpha"
    )  # scales, spelled twice
    bias = reader.flag("attention_bias", default=True)
    attention = reader.grouped_queries(qkv_bias=bias, output_bias=bias, sinks=True)
    moe = reader.experts(
        "num_local_experts",
        chosen="num_experts_per_tok experts_per_token",
        width="intermediate_size",
        expert_bias=True,
        router_bias=True,
    )
    return reader.model_spec(reader.windowed_layers(attention, moe))


def _ernie_attention(reader: ConfigReader) -> GroupedQueryAttention:
    reader.require_gated()
    if reader.flag("use_bias"):
        raise reader.refuse(f"{reader.word('model_type', '')} with biases (use_bias)")
    reader.require("norms other than RMS", "use_rmsnorm")
    return reader.grouped_queries()


def _ernie(reader: ConfigReader) -> ModelSpec:
    mlp = reader.dense()
    layers = reader.alike(_ernie_attention(reader), mlp)
    return reader.model_spec(layers, **_ernie_tied(reader))


def _ernie_moe(reader: ConfigReader) -> ModelSpec:
    attention, total = _ernie_attention(reader), reader.size("num_hidden_layers")
    # How full experts may get when training, and the least sum of weights that is divided by.
    reader.ignore("moe_capacity", "moe_use_aux_free", "moe_norm_min", "moe_gate")
    first, last = reader.count("moe_layer_start_index"), reader.value("moe_layer_end_index")
    last = total - 1 if last in {None, -1} else reader.count("moe_layer_end_index")
    step = reader.size("moe_layer_interval", default=1)
    sparse = sum(1 for layer in range(total) if first <= layer <= last and (layer + 1) % step == 0)
    shared = reader.count("moe_num_shared_experts")
    moe = reader.experts("moe_num_experts", chosen="moe_k", shared=shared, router_bias=True)
    layers = reader.first_dense_layers(attention, moe, total - sparse)
    return reader.model_spec(layers, mtp_layers=reader.count("num_nextn_predict_layers"), **_ernie_tied(reader))


def _ernie_tied(reader: ConfigReader) -> dict[str, bool]:
    return {"tie_word_embeddings": reader.flag("tie_word_embeddings", default=True)}


READERS = {
    "llama": _llama,
    "smollm3": _smollm3,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "phi3": _phi3,
    "opt": _opt,
    "bloom": _bloom,
    "gpt_oss": _gpt_oss,
    "ernie4_5": _ernie,
    "ernie4_5_moe": _ernie_moe,
}
