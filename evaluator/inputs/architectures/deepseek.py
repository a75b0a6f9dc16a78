"""DeepSeek-V2, V3 and Kimi-K2: latent attention, shared and routed experts."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader, first_dense_layers, model_spec, require_gated
from evaluator.inputs.model import LatentAttention, ModelSpec, MoeMlp


def _deepseek_v3(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    if reader.size("moe_layer_freq", default=1) != 1:
        raise reader.refuse("moe_layer_freq other than 1")
    if reader.flag("attention_bias"):
        raise reader.refuse("latent attention with biases (attention_bias)")
    # Groups of experts limit which are chosen, not how many; keys and values are those of the latent.
    reader.ignore("n_group", "topk_group", "num_key_value_heads", "head_dim", "qk_head_dim")
    attention = LatentAttention(
        query_heads=reader.size("num_attention_heads"),
        query_lora_rank=reader.size("q_lora_rank") if reader.value("q_lora_rank") else None,
        kv_lora_rank=reader.size("kv_lora_rank"),
        nope_head_dim=reader.size("qk_nope_head_dim"),
        rope_head_dim=reader.size("qk_rope_head_dim"),
        value_head_dim=reader.size("v_head_dim"),
    )
    moe_size = reader.size("moe_intermediate_size")
    moe = MoeMlp(
        experts=reader.size("n_routed_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=moe_size,
        shared_intermediate_size=moe_size * reader.count("n_shared_experts"),
        router_bias=reader.word("topk_method", "") == "noaux_tc",
    )
    return model_spec(
        reader, first_dense_layers(reader, attention, moe), mtp_layers=reader.count("num_nextn_predict_layers")
    )


READERS = {"deepseek_v2": _deepseek_v3, "deepseek_v3": _deepseek_v3, "kimi_k2": _deepseek_v3}
