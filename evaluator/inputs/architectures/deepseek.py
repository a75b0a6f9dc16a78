"""DeepSeek-V2, V3, V3.2, Kimi-K2, and GLM from 4.5 on: shared and routed experts, most with latent attention."""

from __future__ import annotations

from dataclasses import replace

from evaluator.inputs.architectures.config_reader import ConfigReader, like_layers
from evaluator.inputs.model import LatentAttention, LayerGroup, ModelSpec, MoeMlp, TokenIndexer

_SPARSE = {"deepseek_sparse_attention", "indexed_attention"}


def _deepseek_v3(reader: ConfigReader) -> ModelSpec:
    attention, moe = latent_queries(reader), _experts(reader)
    return reader.model_spec(
        reader.first_dense_layers(attention, moe), mtp_layers=reader.count("num_nextn_predict_layers")
    )


def _sparse(reader: ConfigReader) -> ModelSpec:
    """DeepSeek-V3.2 and GLM-5: attention to chosen tokens."""
    reader.forbid("an MLP with biases", "mlp_bias")
    reader.ignore("indexer_rope_interleave", "index_share_for_mtp_iteration", "moe_router_dtype", "num_experts")
    total = reader.size("num_hidden_layers")
    attention = replace(latent_queries(reader), chosen_keys=reader.size("index_topk"))
    indexer = TokenIndexer(heads=reader.size("index_n_heads"), head_dim=reader.size("index_head_dim"))
    owners = _owners(reader, total)
    dense = reader.dense()
    first, moe = min(total, reader.count("first_k_dense_replace")), _experts(reader)
    if (kinds := reader.words("mlp_layer_types")) and kinds != ["dense"] * first + ["sparse"] * (total - first):
        raise reader.refuse("mlp_layer_types other than first_k_dense_replace says")
    if (kinds := reader.words("layer_types")) and (len(kinds) != total or set(kinds) - _SPARSE):
        raise reader.refuse("layer_types other than sparse attention with an indexer")
    layers = [
        LayerGroup(
            count=1,
            attention=replace(attention, indexer=indexer if owns else None),
            mlp=dense if layer < first else moe,
        )
        for layer, owns in enumerate(owners)
    ]
    groups = sorted(like_layers(layers), key=_order)
    return reader.model_spec(groups, mtp_layers=reader.count("num_nextn_predict_layers"))


def _order(group: LayerGroup) -> tuple[bool, bool]:
    owns = isinstance(group.attention, LatentAttention) and group.attention.indexer is not None
    return isinstance(group.mlp, MoeMlp), owns


def _owners(reader: ConfigReader, total: int) -> list[bool]:
    kinds = reader.kinds("indexer_types", total, ("full", "shared"))
    often, pattern = reader.size("index_topk_freq", default=1), reader.value("index_topk_pattern")
    reader.ignore("index_skip_topk_offset")  # where such layers begin, which indexer_types says, too
    if not kinds:
        if often != 1 or pattern is not None:
            raise reader.refuse("shared indexers without indexer_types")
        return [True] * total
    if kinds[0] != "full":
        raise reader.refuse("indexer_types whose first layer shares an indexer")
    return [kind == "full" for kind in kinds]


def latent_queries(reader: ConfigReader) -> LatentAttention:
    reader.require_gated()
    if reader.size("moe_layer_freq", default=1) != 1:
        raise reader.refuse("moe_layer_freq other than 1")
    reader.forbid("latent attention with biases", "attention_bias")
    # Groups of experts limit which are chosen, not how many; keys and values are those of the latent.
    reader.ignore("n_group", "topk_group", "num_key_value_heads", "head_dim", "qk_head_dim")
    return latent_heads(reader)


def latent_heads(reader: ConfigReader, *, output_gate: bool = False) -> LatentAttention:
    return LatentAttention(
        query_heads=reader.size("num_attention_heads"),
        query_lora_rank=reader.size("q_lora_rank") if reader.value("q_lora_rank") else None,
        kv_lora_rank=reader.size("kv_lora_rank"),
        nope_head_dim=reader.size("qk_nope_head_dim"),
        rope_head_dim=reader.size("qk_rope_head_dim"),
        value_head_dim=reader.size("v_head_dim"),
        output_gate=output_gate,
    )


def _experts(reader: ConfigReader) -> MoeMlp:
    corrected = reader.word("topk_method", "") == "noaux_tc"
    return reader.experts("n_routed_experts", shared=reader.count("n_shared_experts"), router_bias=corrected)


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


def _glm4_lite(reader: ConfigReader) -> ModelSpec:
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


READERS = {
    "deepseek_v2": _deepseek_v3,
    "deepseek_v3": _deepseek_v3,
    "deepseek_v32": _sparse,
    "glm4_moe": _glm4_moe,
    "glm4_moe_lite": _glm4_lite,
    "glm_moe_dsa": _sparse,
    "kimi_k2": _deepseek_v3,
}
