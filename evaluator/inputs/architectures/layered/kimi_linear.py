"""Kimi-Linear and Kimi-K3: delta nets between layers of latent attention, without positions.

K3's experts work in fewer dimensions, and its blocks read a mixture of residuals."""

from __future__ import annotations

from collections.abc import Mapping

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.architectures.deepseek import latent_heads
from evaluator.inputs.model import GatedDeltaNet, LayerGroup, ModelSpec, MoeMlp
from evaluator.inputs.yaml_file import shortened


def _kimi_linear(reader: ConfigReader) -> ModelSpec:
    reader.one_of("hidden_act", "silu", "situ")
    reader.forbid("latent attention with biases", "attention_bias")
    # Scales of the activation; which experts are chosen, not how many; heads of keys, which the latent has none of.
    reader.ignore(
        "activation_situ_beta", "activation_situ_linear_beta", "moe_renormalize", "moe_router_activation_func",
        "num_expert_group", "n_group", "topk_group", "use_grouped_topk", "num_key_value_heads", "head_dim",
        "qk_head_dim", "linear_lower_bound",
    )  # fmt: skip
    reader.require("kimi_linear whose attention turns positions", "mla_use_nope")
    total = reader.size("num_hidden_layers")
    net, kinds = _delta_net(reader, total)
    full, experts = latent_heads(reader, output_gate=reader.flag("mla_use_output_gate")), _experts(reader)
    dense = reader.dense()
    routed = _routed(reader, total)
    layers = [
        LayerGroup(count=1, attention=net if linear else full, mlp=experts if sparse else dense)
        for linear, sparse in zip(kinds, routed, strict=True)
    ]
    if drafts := reader.count("num_nextn_predict_layers") or reader.count("num_mtp_layers"):
        raise reader.refuse(f"kimi_linear with {drafts} layers of drafts (num_nextn_predict_layers)")
    every = reader.count("attn_res_block_size")
    maximum = reader.count("max_position_embeddings") or reader.count("model_max_length")
    return reader.model_spec(layers, position="none", residual_block=every, max_positions=maximum or None)


def _delta_net(reader: ConfigReader, total: int) -> tuple[GatedDeltaNet, list[bool]]:
    said = reader.value("linear_attn_config") or {}
    if not isinstance(said, Mapping):
        raise reader.refuse(f"linear_attn_config {shortened(said)}")
    inner = ConfigReader(said, f"{reader.where}, linear_attn_config")
    inner.ignore("gate_lower_bound")
    heads = inner.size("num_heads", default=reader.size("linear_num_heads", default=32))
    width = inner.size("head_dim", default=reader.size("linear_head_dim", default=128))
    tokens = inner.size("short_conv_kernel_size", default=reader.size("linear_conv_kernel_dim", default=4))
    linear, full = inner.numbers("kda_layers"), inner.numbers("full_attn_layers")
    rank = None if inner.flag("use_full_rank_gate") else width
    if unread := inner.unread():
        raise reader.refuse(f"{', '.join(map(shortened, unread))} of linear_attn_config")
    net = GatedDeltaNet(
        key_heads=heads, value_heads=heads, key_head_dim=width, value_head_dim=width, convolution=tokens,
        decay_rank=width, gate_rank=rank,
    )  # fmt: skip
    reader.ignore("layer_types")  # linear_attn_config says which are which
    if not said and (kinds := reader.kinds("layer_types", total, ("linear_attention", "full_attention"))):
        return net, [kind == "linear_attention" for kind in kinds]
    if sorted([*linear, *full]) != list(range(1, total + 1)):
        raise reader.refuse(f"kda_layers and full_attn_layers that are not the {total} layers, each once")
    return net, [layer + 1 in linear for layer in range(total)]


def _experts(reader: ConfigReader) -> MoeMlp:
    latent = reader.count("routed_expert_hidden_size") or None
    shared = reader.size("num_shared_experts", "n_shared_experts", default=1)
    reader.ignore("topk_method")  # its correction of scores is there always
    return reader.experts(
        "num_experts",
        "num_local_experts",
        chosen="num_experts_per_token num_experts_per_tok",
        shared=shared,
        router_bias=True,
        latent_size=latent,
        latent_norm=latent is not None and reader.flag("latent_moe_use_norm"),
    )


def _routed(reader: ConfigReader, total: int) -> list[bool]:
    first = min(total, reader.count("first_k_dense_replace", 1))
    if reader.size("moe_layer_freq", default=1) != 1:
        raise reader.refuse("moe_layer_freq other than 1")
    usual = ["dense"] * first + ["sparse"] * (total - first)
    kinds = reader.kinds("mlp_layer_types", total, ("dense", "sparse")) or usual
    return [kind == "sparse" for kind in kinds]


READERS = {"kimi_linear": _kimi_linear}
