"""LongCat-Flash: two attentions and two MLPs a layer, experts beside both."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.architectures.deepseek import latent_queries
from evaluator.inputs.model import LayerGroup, ModelSpec, MoeMlp


def _longcat_flash(reader: ConfigReader) -> ModelSpec:
    """A published layer is two of ours: experts read with the first MLP and are added after the second."""
    reader.one_of("attention_method", "MLA")
    reader.one_of("zero_expert_type", "identity")
    reader.forbid("a router with biases", "router_bias")
    # Scales of compressed queries and keys.
    reader.ignore("mla_scale_q_lora", "mla_scale_kv_lora")
    count, attention = _layers(reader), latent_queries(reader)
    dense = reader.dense("ffn_hidden_size", "intermediate_size")
    layers = [
        LayerGroup(count=count, attention=attention, mlp=_experts(reader, dense.intermediate_size)),
        LayerGroup(count=count, attention=attention, mlp=dense),
    ]
    return reader.model_spec(layers, mtp_layers=_drafts(reader))


def _drafts(reader: ConfigReader) -> int:
    """Published weights have one module (`model.mtp`) like our last layer; files do not say so."""
    if (drafts := reader.count("num_nextn_predict_layers", 1)) > 1:
        raise reader.refuse(f"longcat_flash with {drafts} modules that draft (num_nextn_predict_layers)")
    return drafts


def _layers(reader: ConfigReader) -> int:
    """`num_hidden_layers` counts attentions, two a layer, in some files."""
    count = reader.size("num_layers")
    if (said := reader.size("num_hidden_layers", default=count)) not in {count, 2 * count}:
        raise reader.refuse(f"num_hidden_layers {said} beside num_layers {count}")
    return count


def _experts(reader: ConfigReader, beside: int) -> MoeMlp:
    experts, idle = reader.size("n_routed_experts", "num_local_experts"), reader.count("zero_expert_num")
    chosen = reader.size("moe_topk", "num_experts_per_tok")
    if chosen * experts % (experts + idle):
        raise reader.refuse(f"{chosen} of {experts + idle} experts, of whom {experts} compute: no whole number a token")
    return MoeMlp(
        experts=experts,
        experts_per_token=chosen * experts // (experts + idle),
        intermediate_size=reader.size("expert_ffn_hidden_size", "moe_intermediate_size"),
        shared_intermediate_size=beside,
        router_bias=True,  # a correction of each score
        idle_experts=idle,
        shortcut=True,
    )


READERS = {"longcat_flash": _longcat_flash}
