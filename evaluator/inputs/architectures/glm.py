"""GLM-4.5 to 4.7: grouped queries, or latent attention in the smallest, with shared and routed experts."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.architectures.deepseek import latent_queries
from evaluator.inputs.model import ModelSpec


def _glm4_moe(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    reader.ignore("n_group", "topk_group")  # which experts are chosen, not how many
    attention = reader.grouped_queries(
        qkv_bias=reader.flag("attention_bias"),
        qk_norm="per_head" if reader.flag("use_qk_norm") else "none",
    )
    moe = reader.experts("n_routed_experts", shared=reader.count("n_shared_experts"), router_bias=True)
    return reader.model_spec(
        reader.first_dense_layers(attention, moe),
        rope_fraction=reader.share("partial_rotary_factor", 0.5),
        mtp_layers=reader.count("num_nextn_predict_layers"),
    )


def _lite(reader: ConfigReader) -> ModelSpec:
    reader.ignore("num_local_experts")
    total, kinds = reader.size("num_hidden_layers"), reader.words("mlp_layer_types")
    first = reader.count("first_k_dense_replace", kinds.count("dense") if kinds else 1)
    if kinds and kinds != ["dense"] * first + ["sparse"] * (total - first):
        raise reader.refuse("mlp_layer_types other than dense layers before those with experts")
    attention = latent_queries(reader)
    moe = reader.experts("n_routed_experts", shared=reader.count("n_shared_experts", 1), router_bias=True)
    reader.one_of("topk_method", "noaux_tc")
    layers = reader.first_dense_layers(attention, moe, first)
    return reader.model_spec(layers, mtp_layers=reader.count("num_nextn_predict_layers"))


READERS = {"glm4_moe_lite": _lite, "glm4_moe": _glm4_moe}
