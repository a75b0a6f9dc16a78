"""GLM-4.5 and 4.6: grouped queries, shared and routed experts."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import (
    ConfigReader,
    first_dense_layers,
    grouped_queries,
    model_spec,
    require_gated,
)
from evaluator.inputs.model import ModelSpec, MoeMlp


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


READERS = {"glm4_moe": _glm4_moe}
