"""MiniMax-M2: full attention, experts with a routing bias."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader, grouped_queries, model_spec, require_gated
from evaluator.inputs.model import LayerGroup, ModelSpec, MoeMlp


def _minimax_m2(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    # Scales of residuals; sizes of layers and MTP modules that the published weights do not hold.
    reader.ignore(
        "layernorm_full_attention_beta", "layernorm_linear_attention_beta", "layernorm_mlp_beta",
        "mlp_intermediate_size", "mtp_transformer_layers", "num_mtp_modules", "use_mtp", "shared_moe_mode",
        "partial_rotary_factor", "rotary_dim",
    )  # fmt: skip
    if set(reader.numbers("attn_type_list") or [1]) != {1}:
        raise reader.refuse("attn_type_list with other than full attention")
    if reader.count("shared_intermediate_size"):
        raise reader.refuse("shared experts of minimax_m2 (shared_intermediate_size)")
    norm = reader.word("qk_norm_type", "per_layer") if reader.flag("use_qk_norm", default=True) else "none"
    attention = grouped_queries(reader, qk_norm=norm)
    moe = MoeMlp(
        experts=reader.size("num_local_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=reader.size("intermediate_size"),
        router_bias=reader.flag("use_routing_bias", default=True),
    )
    rotated = reader.count("rotary_dim") or reader.share("partial_rotary_factor", 0.5) * attention.head_dim
    # The published weights hold no MTP module, whatever num_mtp_modules says.
    layers = [LayerGroup(count=reader.size("num_hidden_layers"), attention=attention, mlp=moe)]
    return model_spec(reader, layers, rope_fraction=float(rotated) / attention.head_dim)


READERS = {"minimax_m2": _minimax_m2}
