"""Hunyuan V1: queries and keys normalised per head; one shared expert beside the routed ones."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import GroupedQueryAttention, LayerGroup, ModelSpec, MoeMlp

# Ids of tokens, and what published files keep of pooling, classification and images, which these classes do not have.
_NOTHING_HERE = (
    "eod_token_id", "pad_id", "sep_token_id", "mask_init_id", "text_start_id", "text_end_id", "im_start_id",
    "im_end_id", "im_newline_id", "org_vocab_size", "pool_type", "class_num", "dense_list", "num_media_embeds",
    "anyres_pooling_size", "cla_share_factor",
)  # fmt: skip


def _attention(reader: ConfigReader) -> GroupedQueryAttention:
    reader.require_gated()
    reader.ignore(*_NOTHING_HERE)
    if reader.value("norm_type", "rms") != "rms":
        raise reader.refuse("norms that are not RMS norms (norm_type)")
    reader.require("attention without rotated positions", "use_rotary_pos_emb")
    reader.forbid("KV caches shared between layers", "use_cla")
    reader.require("attention without norms of queries and keys", "use_qk_norm")
    bias = reader.flag("attention_bias")
    attention = reader.grouped_queries(qk_norm="per_head", qkv_bias=bias, output_bias=bias)
    if reader.size("attention_head_dim", default=attention.head_dim) != attention.head_dim:
        raise reader.refuse("heads of two widths (attention_head_dim)")
    return attention


def _dense(reader: ConfigReader) -> ModelSpec:
    mlp = reader.dense()
    return reader.model_spec(reader.alike(_attention(reader), mlp))


def _moe(reader: ConfigReader) -> ModelSpec:
    attention, total = _attention(reader), reader.size("num_hidden_layers")
    inner = _same_everywhere(reader, "intermediate_size")
    if "moe_intermediate_size" in reader.config and _same_everywhere(reader, "moe_intermediate_size") != inner:
        raise reader.refuse("experts of another width than the shared one (moe_intermediate_size)")
    if reader.count("moe_layer_num_skipped"):
        raise reader.refuse("layers without experts (moe_layer_num_skipped)")
    reader.require("experts without a shared one", "use_mixed_mlp_moe")
    shared = _same_everywhere(reader, "num_shared_expert", default=1)
    moe = MoeMlp(
        experts=_same_everywhere(reader, "num_experts"),
        experts_per_token=_same_everywhere(reader, "moe_topk"),
        intermediate_size=inner,
        shared_intermediate_size=inner * shared,
    )
    return reader.model_spec([LayerGroup(count=total, attention=attention, mlp=moe)])


def _same_everywhere(reader: ConfigReader, name: str, default: int | None = None) -> int:
    if not isinstance(reader.value(name), list):
        return reader.size(name, default=default)
    found = set(reader.numbers(name))
    if len(found) != 1 or min(found) < 1:
        raise reader.refuse(f"layers that differ in {name}")
    return found.pop()


READERS = {"hunyuan_v1_dense": _dense, "hunyuan_v1_moe": _moe}
