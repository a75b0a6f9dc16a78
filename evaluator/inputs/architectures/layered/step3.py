"""Step-3.5 and 3.7: window layers with another number of heads, gates on heads, and MTP."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import GroupedQueryAttention, LayerGroup, ModelSpec
from evaluator.inputs.yaml_file import shortened


def _step3(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    reader.forbid("step3 with biases", "attention_bias", "mlp_bias")
    # Bounds of gates and scales of scores; the one shared expert, whose width is said; which experts are chosen; bits
    # of a router; how far positions of which layers are stretched.
    reader.ignore(
        "swiglu_limits", "swiglu_limits_shared", "query_pre_attn_scalar", "moe_router_scaling_factor",
        "n_shared_experts", "num_local_experts", "num_experts", "moe_router_activation", "need_fp32_gate",
        "norm_expert_weight", "yarn_only_types", "max_seq_len", "zero_centered", "num_attention_groups",
        "moe_num_experts", "moe_top_k", "share_expert_dims", "moe_layer_offset",
    )  # fmt: skip
    _require_usual(reader)
    total, drafts = reader.size("num_hidden_layers"), reader.count("num_nextn_predict_layers")
    slides = _slides(reader, total, drafts)
    routed = _routed(reader, total, len(slides))
    full = reader.grouped_queries("num_attention_groups", qk_norm="per_head", head_gate=True)
    near, window = replace(full, query_heads=_sliding_heads(reader, full)), reader.size("sliding_window")
    near, full = (
        replace(one, rope_fraction=_turned(reader, [slid == windowed for slid in slides]))
        for one, windowed in ((near, True), (full, False))
    )
    moe = reader.experts(
        "n_routed_experts",
        "moe_num_experts",
        "num_experts",
        chosen="num_experts_per_tok moe_top_k",
        shared_intermediate_size=reader.size("share_expert_dim", "share_expert_dims"),
        router_bias=reader.flag("use_moe_router_bias", default=True),
    )
    dense = reader.dense()

    def layer(slid: bool, sparse: bool) -> LayerGroup:
        mlp = moe if sparse else dense
        return LayerGroup(count=1, attention=near if slid else full, mlp=mlp, window=window if slid else None)

    layers = [layer(slid, sparse) for slid, sparse in zip(slides[:total], routed[:total], strict=True)]
    modules = {layer(slid, sparse) for slid, sparse in zip(slides[total:], routed[total:], strict=True)}
    if len(modules) > 1:
        raise reader.refuse("modules that draft of layers that differ (mtp_layer_types, mtp_mlp_layer_types)")
    return reader.model_spec(layers, mtp_layers=drafts if modules else 0, draft_layer=next(iter(modules), None))


def _require_usual(reader: ConfigReader) -> None:
    for name in ("use_moe", "use_head_wise_attn_gate", "use_qk_norm"):
        if not reader.flag(name, default=True):
            raise reader.refuse(f"step3 without {name}")
    reader.one_of("att_impl_type", "GQA")
    if reader.size("moe_every_n_layer", default=1) != 1 or reader.flag("sink"):
        raise reader.refuse("experts in every so many layers, or sinks (moe_every_n_layer, sink)")
    if not all(reader.numbers("use_rope_layers")):
        raise reader.refuse("layers without positions (use_rope_layers)")


def _turned(reader: ConfigReader, meant: list[bool]) -> float | None:
    said = reader.value("partial_rotary_factors")
    if said is None:
        return None
    shares = {share for share, mine in zip(said, meant, strict=False) if mine} if isinstance(said, list) else set()
    share = next(iter(shares), None)
    if len(shares) != 1 or isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise reader.refuse(f"shares of a head that differ among layers of a kind: {shortened(said)}")
    return None if share == 1 else float(share)


def _sliding_heads(reader: ConfigReader, full: GroupedQueryAttention) -> int:
    """The file must say them: published models have more there."""
    own, other = reader.value("per_layer_config"), reader.value("attention_other_setting")
    said = next(iter(own.values()), {}) if isinstance(own, Mapping) else other
    stated = reader.count("num_sliding_attention_heads")
    inner = ConfigReader(said if isinstance(said, Mapping) else {}, f"{reader.where}, attention_other_setting")
    heads = stated or inner.count("num_attention_heads")
    if not heads:
        raise reader.refuse(
            "heads of layers with a window that the file does not say (num_sliding_attention_heads; 96 in"
            " stepfun-ai/Step-3.7-Flash of the catalogue)"
        )
    for name, own in (("num_attention_groups", full.kv_heads), ("head_dim", full.head_dim)):
        if inner.count(name, own) != own:
            raise reader.refuse(f"another {name} in layers with a window (attention_other_setting)")
    if heads % full.kv_heads:
        raise reader.refuse(f"{full.kv_heads} heads of keys for {heads} queries in a window")
    return heads


def _slides(reader: ConfigReader, total: int, drafts: int) -> list[bool]:
    """Draft layers come last in the list, or in a list of their own."""
    kinds, behind = reader.words("layer_types"), reader.words("mtp_layer_types")
    if len(kinds) == total and len(behind) == drafts:
        kinds = [*kinds, *behind]
    if len(kinds) not in {total, total + drafts} or set(kinds) - {"sliding_attention", "full_attention"}:
        raise reader.refuse(f"layer_types {shortened(sorted(set(kinds)))} of {len(kinds)} layers")
    return [kind == "sliding_attention" for kind in kinds]


def _routed(reader: ConfigReader, total: int, every: int) -> list[bool]:
    first, kinds = reader.count("first_k_dense_replace", 3), reader.words("mlp_layer_types")
    behind, listed = reader.words("mtp_mlp_layer_types"), reader.value("moe_layers_enum")
    if not kinds and isinstance(listed, str | list):
        named = {str(part).strip() for part in (listed.split(",") if isinstance(listed, str) else listed)}
        kinds = ["sparse" if str(layer) in named else "dense" for layer in range(every)]
    kinds = kinds or ["dense"] * first + ["sparse"] * (total - first)
    if len(kinds) < total or {*kinds, *behind} - {"dense", "sparse"}:
        raise reader.refuse(f"mlp_layer_types {shortened(sorted(set(kinds)))} of {len(kinds)} layers")
    kinds = [*(kinds if len(kinds) >= every else [*kinds[:total], *behind]), *["dense"] * (every - total)]
    return [kind == "sparse" for kind in kinds[:every]]


READERS = {"step3p5": _step3, "step3p7": _step3}
