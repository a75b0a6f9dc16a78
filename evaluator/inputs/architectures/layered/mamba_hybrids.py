"""Hybrids of Mamba2 and attention: one after the other in Nemotron-H and 3 and in Granite 4, where an MLP follows each;
side by side in every layer of Falcon-H1."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LayerGroup, ModelSpec, MoeMlp, StateSpace
from evaluator.inputs.yaml_file import shortened

_LETTERS = {"M": "mamba", "*": "attention", "E": "moe", "-": "mlp"}
_NAMES = {"linear_attention": "mamba", "full_attention": "attention"}
_KINDS = {"mamba": "mamba", "linear_attention": "mamba", "attention": "attention", "full_attention": "attention"}
_BIASES = ("attention_bias", "mlp_bias", "use_bias", "mamba_proj_bias")


def _nemotron_h(reader: ConfigReader) -> ModelSpec:
    for name in _BIASES:
        reader.forbid("nemotron_h with biases", name)
    if reader.count("sliding_window"):
        raise reader.refuse("nemotron_h with a window (sliding_window)")
    reader.one_of("mamba_ssm_cache_dtype", "float32")
    reader.one_of("mlp_hidden_act", "relu2")
    reader.one_of("mamba_hidden_act", "silu")
    # Bounds of rates, what training scales, how a program runs it, and which of equal experts are chosen. The expansion
    # is heads by their size; positions are turned nowhere.
    reader.ignore(
        "time_step_floor", "time_step_limit", "time_step_max", "time_step_min", "time_step_rank", "norm_eps", "expand",
        "rescale_prenorm_residual", "residual_in_fp32", "use_mamba_kernels", "num_logits_to_keep", "n_group",
        "topk_group", "moe_shared_expert_overlap", "partial_rotary_factor", "num_local_experts", "n_shared_experts",
        "layer_types",
    )  # fmt: skip
    blocks = _blocks(reader, "hybrid_override_pattern", "layers_block_type")
    if reader.size("num_hidden_layers", default=len(blocks)) != len(blocks):
        raise reader.refuse(f"a pattern of {len(blocks)} layers other than num_hidden_layers says")
    parts = {kind: _part(reader, kind) for kind in dict.fromkeys(blocks)}
    drafts = reader.count("num_nextn_predict_layers")
    mixed = _blocks(reader, "mtp_hybrid_override_pattern", "mtp_layers_block_type", usual=["attention", "moe"])
    if drafts and mixed != ["attention", "moe"]:
        raise reader.refuse(f"drafts of other blocks than attention and experts: {shortened(mixed)}")
    if drafts and not {"attention", "moe"} <= parts.keys():
        raise reader.refuse("drafts of blocks that no layer has")
    return reader.model_spec(
        [parts[kind] for kind in blocks],
        position="none",
        mtp_layers=drafts,
        draft_layer=LayerGroup(count=1, attention=parts["attention"].attention, mlp=parts["moe"].mlp)
        if drafts
        else None,
    )


def _blocks(reader: ConfigReader, letters: str, names: str, usual: list[str] | None = None) -> list[str]:
    pattern, said = reader.word(letters, ""), reader.words(names)
    found = [_LETTERS.get(letter, letter) for letter in pattern] or [_NAMES.get(name, name) for name in said]
    if unknown := set(found) - set(_LETTERS.values()):
        raise reader.refuse(f"layers of kind {shortened(sorted(unknown))} ({letters})")
    if not found and usual is None:
        raise reader.refuse(f"nemotron_h without {letters}")
    return found or list(usual or ())


def _part(reader: ConfigReader, kind: str) -> LayerGroup:
    if kind == "mamba":
        return LayerGroup(count=1, attention=_state_space(reader), mlp=None)
    if kind == "attention":
        return LayerGroup(count=1, attention=_attention(reader), mlp=None)
    if kind == "mlp":
        width = reader.size("intermediate_size")
        return LayerGroup(count=1, attention=None, mlp=DenseMlp(intermediate_size=width, gated=False))
    return LayerGroup(count=1, attention=None, mlp=_experts(reader))


def _attention(reader: ConfigReader) -> GroupedQueryAttention:
    if reader.value("attention_head_dim") is None:
        return reader.grouped_queries()
    heads = reader.size("num_attention_heads")
    kv_heads = reader.size("num_key_value_heads", default=heads)
    return GroupedQueryAttention(query_heads=heads, kv_heads=kv_heads, head_dim=reader.size("attention_head_dim"))


def _state_space(reader: ConfigReader) -> StateSpace:
    return StateSpace(
        heads=reader.size("mamba_num_heads"),
        head_dim=reader.size("mamba_head_dim"),
        groups=reader.size("n_groups", default=8),
        state_size=reader.size("ssm_state_size"),
        convolution=reader.size("conv_kernel", default=4),
        convolution_bias=reader.flag("use_conv_bias", default=True),
        chunk=reader.size("chunk_size", default=128),
    )


def _experts(reader: ConfigReader) -> MoeMlp:
    reader.ignore("intermediate_size")
    return reader.experts(
        "n_routed_experts",
        shared_intermediate_size=reader.count("moe_shared_expert_intermediate_size"),
        router_bias=True,
        gated=False,
        latent_size=reader.count("moe_latent_size") or None,
    )


_FALCON_BIASES = ("attention_bias", "mlp_bias", "mamba_proj_bias", "projectors_bias")


def _falcon_h1(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    for name in _FALCON_BIASES:
        reader.forbid("falcon_h1 with biases", name)
    if reader.value("attn_layer_indices") is not None:
        raise reader.refuse("layers without attention (attn_layer_indices)")
    reader.require("layers without an MLP", "mamba_use_mlp")
    # Scales of what layers read and give, bounds of rates, how a norm and its gate follow one another, and what the
    # width of an MLP came of.
    reader.ignore(
        "attention_in_multiplier", "attention_out_multiplier", "embedding_multiplier", "key_multiplier",
        "lm_head_multiplier", "mlp_multipliers", "ssm_in_multiplier", "ssm_multipliers", "ssm_out_multiplier",
        "time_step_floor", "time_step_limit", "time_step_max", "time_step_min", "time_step_rank",
        "mamba_norm_before_gate", "mlp_expansion_factor", "num_logits_to_keep", "mamba_expand", "layer_types",
        "layers_block_type",
    )  # fmt: skip
    layer = LayerGroup(
        count=reader.size("num_hidden_layers"),
        attention=reader.grouped_queries(),
        mlp=reader.dense(),
        beside=_falcon_space(reader),
    )
    return reader.model_spec([layer])


def _falcon_space(reader: ConfigReader) -> StateSpace:
    heads = reader.size("mamba_n_heads", default=128)
    inner = reader.size("mamba_d_ssm", default=reader.size("mamba_expand", default=2) * reader.size("hidden_size"))
    said = reader.value("mamba_d_head")
    head_dim = inner // heads if said in {None, "auto"} else reader.size("mamba_d_head")
    if heads * head_dim != inner:
        raise reader.refuse(f"{heads} heads of {head_dim} in a state space of {shortened(inner)} (mamba_d_ssm)")
    return _named_space(reader, heads, head_dim, norm=reader.flag("mamba_rms_norm"))


def _named_space(reader: ConfigReader, heads: int, head_dim: int, **options: bool) -> StateSpace:
    """By the names of Mamba's own files."""
    return StateSpace(
        heads=heads,
        head_dim=head_dim,
        groups=reader.size("mamba_n_groups", default=1),
        state_size=reader.size("mamba_d_state", default=256),
        convolution=reader.size("mamba_d_conv", default=4),
        convolution_bias=reader.flag("mamba_conv_bias", default=True),
        chunk=reader.size("mamba_chunk_size", default=256),
        **options,
    )


def _granite_hybrid(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    for name in ("attention_bias", "mamba_proj_bias"):
        reader.forbid("granitemoehybrid with biases", name)
    # Scales of embeddings, scores, residuals and logits; bounds of rates; the expansion is heads by their size.
    reader.ignore(
        "attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier", "time_step_limit",
        "time_step_min", "time_step_max", "mamba_expand",
    )  # fmt: skip
    space = _named_space(reader, reader.size("mamba_n_heads"), _head_dim(reader))
    full, mlp = reader.grouped_queries(), _mlp(reader)
    total, kinds = reader.size("num_hidden_layers"), reader.words("layer_types") or reader.words("layers_block_type")
    if len(kinds) != total or set(kinds) - _KINDS.keys():
        raise reader.refuse(f"layer_types {shortened(sorted(set(kinds)))} of {len(kinds)} layers")
    layers = [LayerGroup(count=1, attention=space if _KINDS[kind] == "mamba" else full, mlp=mlp) for kind in kinds]
    turned = reader.word("position_embedding_type", "nope") == "rope"
    return reader.model_spec(layers, position="rope" if turned else "none")


def _head_dim(reader: ConfigReader) -> int:
    said = reader.value("mamba_d_head")
    if isinstance(said, int) and not isinstance(said, bool):
        return reader.size("mamba_d_head")
    return reader.size("mamba_expand", default=2) * reader.size("hidden_size") // reader.size("mamba_n_heads")


def _mlp(reader: ConfigReader) -> DenseMlp | MoeMlp:
    shared = reader.size("shared_intermediate_size")
    if not reader.count("num_local_experts"):
        reader.ignore("num_experts_per_tok", "intermediate_size")
        return DenseMlp(intermediate_size=shared)
    return reader.experts("num_local_experts", width="intermediate_size", shared_intermediate_size=shared)


READERS = {"nemotron_h": _nemotron_h, "falcon_h1": _falcon_h1, "granitemoehybrid": _granite_hybrid}
