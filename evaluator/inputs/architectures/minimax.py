"""MiniMax-M2 and M3: full attention, or attention to chosen blocks of keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import GroupedQueryAttention, LayerGroup, ModelSpec, TokenIndexer
from evaluator.inputs.yaml_file import shortened


def _minimax_m2(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
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
    norm = reader.one_of("qk_norm_type", "per_layer", "per_head")
    attention = reader.grouped_queries(qk_norm=norm if reader.flag("use_qk_norm", default=True) else "none")
    moe = reader.experts(
        "num_local_experts", width="intermediate_size", router_bias=reader.flag("use_routing_bias", default=True)
    )
    rotated = reader.count("rotary_dim") or reader.share("partial_rotary_factor", 0.5) * attention.head_dim
    # The published weights hold no MTP module, whatever num_mtp_modules says.
    layers = reader.alike(attention, moe)
    return reader.model_spec(layers, rope_fraction=float(rotated) / attention.head_dim)


def _minimax_m3(reader: ConfigReader) -> ModelSpec:
    """MiniMax-M3: blocks are chosen for each group of heads."""
    reader.one_of("hidden_act", "swigluoai", "silu")
    reader.forbid("attention with a gate", "attention_output_gate")
    # Scales of gates and norms; modules that the published weights do not hold; widths said twice.
    reader.ignore(
        "swiglu_alpha", "swiglu_limit", "use_gemma_norm", "num_mtp_modules", "first_k_dense_replace", "rotary_dim",
        "moe_intermediate_size", "n_shared_experts", "qk_norm_type", "use_qk_norm",
    )  # fmt: skip
    total = reader.size("num_hidden_layers")
    full = reader.grouped_queries(qk_norm="per_head")
    sparse, blocks = _blocks(reader, full)
    said_blocks, said_experts = _layer_flags(reader, blocks, total)
    dense = reader.dense("dense_intermediate_size")
    moe = reader.experts(
        "num_local_experts",
        width="intermediate_size",
        shared_intermediate_size=reader.count("shared_intermediate_size"),
        router_bias=reader.flag("use_routing_bias", default=True),
    )
    layers = [
        LayerGroup(count=1, attention=sparse if chosen else full, mlp=moe if routed else dense)
        for chosen, routed in zip(said_blocks, said_experts, strict=True)
    ]
    share = reader.share("partial_rotary_factor", 0.5)
    drafts = reader.count("num_nextn_predict_layers")
    return reader.model_spec(layers, rope_fraction=share, mtp_layers=drafts)


def _blocks(reader: ConfigReader, full: GroupedQueryAttention) -> tuple[GroupedQueryAttention, Mapping[str, Any]]:
    said = reader.value("sparse_attention_config") or {}
    if not isinstance(said, Mapping):
        raise reader.refuse(f"sparse_attention_config {shortened(said)}")
    inner = ConfigReader(said, f"{reader.where}, sparse_attention_config")
    inner.one_of("sparse_score_type", "max")
    size = inner.size("sparse_block_size", default=reader.size("index_block_size", default=128))
    chosen = inner.size("sparse_topk_blocks", default=reader.size("index_topk_blocks", default=16))
    heads = inner.size("sparse_num_index_heads", default=reader.size("index_n_heads", default=4))
    width = inner.size("sparse_index_dim", default=reader.size("index_head_dim", default=128))
    # Which blocks are always among the chosen; values that no published indexer has.
    reader.ignore("index_local_blocks")
    indexer = TokenIndexer(heads=heads, head_dim=width)
    return replace(full, chosen_keys=chosen * size, chosen_block=size, indexer=indexer), said


def _layer_flags(reader: ConfigReader, blocks: Mapping[str, Any], total: int) -> tuple[list[bool], list[bool]]:
    kinds, widths = reader.words("layer_types"), reader.words("mlp_layer_types")
    frequency = ConfigReader(blocks, f"{reader.where}, sparse_attention_config")
    chosen = [int(kind == "minimax_m3_sparse") for kind in kinds] or frequency.numbers("sparse_attention_freq")
    routed = [int(kind == "sparse") for kind in widths] or reader.numbers("moe_layer_freq")
    for name, flags in (("sparse_attention_freq", chosen), ("moe_layer_freq", routed)):
        if len(flags) != total or set(flags) - {0, 1}:
            raise reader.refuse(f"{name} that is no list of {total} zeros and ones")
    return [bool(flag) for flag in chosen], [bool(flag) for flag in routed]


READERS = {
    "minimax_m2": _minimax_m2,
    "minimax_m3": _minimax_m3,
    "minimax_m3_vl": _minimax_m3,
    "minimax_m3_vl_text": _minimax_m3,
}
