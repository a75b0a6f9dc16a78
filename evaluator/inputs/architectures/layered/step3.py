"""Step-3.5 and 3.7: heads of another number in layers with a window, and a gate on each head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evaluator.inputs.architectures.config_reader import (
    ConfigReader,
    grouped_queries,
    like_layers,
    model_spec,
    require_gated,
)
from evaluator.inputs.model import DenseMlp, LayerGroup, ModelSpec, MoeMlp
from evaluator.inputs.yaml_file import shortened


def _step3(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    if reader.flag("attention_bias") or reader.flag("mlp_bias"):
        raise reader.refuse("step3 with biases (attention_bias, mlp_bias)")
    # Bounds of gates and scales of scores; the one shared expert, whose width is said; which experts are chosen.
    reader.ignore(
        "swiglu_limits", "swiglu_limits_shared", "query_pre_attn_scalar", "moe_router_scaling_factor",
        "n_shared_experts", "mtp_layer_types", "mtp_mlp_layer_types", "num_local_experts", "num_experts",
        "partial_rotary_factors",
    )  # fmt: skip
    total, drafts = reader.size("num_hidden_layers"), reader.count("num_nextn_predict_layers")
    slides, routed = _slides(reader, total, drafts), _routed(reader, total)
    full = grouped_queries(reader, qk_norm="per_head", head_gate=True)
    heads = _sliding_heads(reader)
    if heads % full.kv_heads:
        raise reader.refuse(f"{full.kv_heads} heads of keys for {heads} queries in a window")
    near, window = replace(full, query_heads=heads), reader.size("sliding_window")
    moe = MoeMlp(
        experts=reader.size("n_routed_experts", "num_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=reader.size("moe_intermediate_size"),
        shared_intermediate_size=reader.size("share_expert_dim"),
        router_bias=reader.flag("use_moe_router_bias", default=True),
    )
    dense = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    layers = [
        LayerGroup(
            count=1, attention=near if slid else full, mlp=moe if sparse else dense, window=window if slid else None
        )
        for slid, sparse in zip(slides, routed, strict=True)
    ]
    return model_spec(reader, like_layers(layers))


def _sliding_heads(reader: ConfigReader) -> int:
    """Query heads of layers with a window, which a file must say: published models have more there."""
    own, other = reader.value("per_layer_config"), reader.value("attention_other_setting")
    said = next(iter(own.values()), {}) if isinstance(own, Mapping) else other
    stated = reader.count("num_sliding_attention_heads")
    inner = ConfigReader(said if isinstance(said, Mapping) else {}, f"{reader.where}, attention_other_setting")
    heads = stated or inner.count("num_attention_heads")
    if not heads:
        raise reader.refuse("heads of layers with a window that the file does not say (num_sliding_attention_heads)")
    return heads


def _slides(reader: ConfigReader, total: int, drafts: int) -> list[bool]:
    """Of every layer, whether it has a window; what is said of drafts behind is left out."""
    kinds = reader.words("layer_types")
    if len(kinds) not in {total, total + drafts} or set(kinds) - {"sliding_attention", "full_attention"}:
        raise reader.refuse(f"layer_types {shortened(sorted(set(kinds)))} of {len(kinds)} layers")
    return [kind == "sliding_attention" for kind in kinds[:total]]


def _routed(reader: ConfigReader, total: int) -> list[bool]:
    """Of every layer, whether it has experts."""
    first, kinds = reader.count("first_k_dense_replace", 3), reader.words("mlp_layer_types")
    kinds = kinds or ["dense"] * first + ["sparse"] * (total - first)
    if len(kinds) < total or set(kinds) - {"dense", "sparse"}:
        raise reader.refuse(f"mlp_layer_types {shortened(sorted(set(kinds)))} of {len(kinds)} layers")
    return [kind == "sparse" for kind in kinds[:total]]


READERS = {"step3p5": _step3, "step3p7": _step3}
