"""GLM-4.5 to 4.7: grouped queries, or latent attention in the smallest, with shared and routed experts."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import (
    ConfigReader,
    first_dense_layers,
    grouped_queries,
    model_spec,
    require_gated,
)
from evaluator.inputs.architectures.deepseek import latent_queries
from evaluator.inputs.model import DenseMlp, LayerGroup, ModelSpec, MoeMlp
from evaluator.inputs.yaml_file import shortened


def _glm4_moe(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    reader.ignore("n_group", "topk_group")  # which experts are chosen, not how many
    attention = grouped_queries(
        reader,
        qkv_bias=reader.flag("attention_bias"),
        qk_norm="per_head" if reader.flag("use_qk_norm") else "none",
    )
    moe_size = reader.size("moe_intermediate_size")
    moe = MoeMlp(
        experts=reader.size("n_routed_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=moe_size,
        shared_intermediate_size=moe_size * reader.count("n_shared_experts"),
        router_bias=True,
    )
    return model_spec(
        reader,
        first_dense_layers(reader, attention, moe),
        rope_fraction=reader.share("partial_rotary_factor", 0.5),
        mtp_layers=reader.count("num_nextn_predict_layers"),
    )


def _lite(reader: ConfigReader) -> ModelSpec:
    reader.ignore("num_local_experts")
    total, kinds = reader.size("num_hidden_layers"), reader.words("mlp_layer_types")
    first = reader.count("first_k_dense_replace", kinds.count("dense") if kinds else 1)
    if kinds and kinds != ["dense"] * first + ["sparse"] * (total - first):
        raise reader.refuse("mlp_layer_types other than dense layers before those with experts")
    attention, moe_size = latent_queries(reader), reader.size("moe_intermediate_size")
    moe = MoeMlp(
        experts=reader.size("n_routed_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=moe_size,
        shared_intermediate_size=moe_size * reader.count("n_shared_experts", 1),
        router_bias=True,
    )
    if (said := reader.word("topk_method", "noaux_tc")) != "noaux_tc":
        raise reader.refuse(f"a router of kind {shortened(said)} (topk_method)")
    dense = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    layers = [
        LayerGroup(count=first, attention=attention, mlp=dense),
        LayerGroup(count=total - first, attention=attention, mlp=moe),
    ]
    return model_spec(reader, layers, mtp_layers=reader.count("num_nextn_predict_layers"))


READERS = {"glm4_moe_lite": _lite, "glm4_moe": _glm4_moe}
