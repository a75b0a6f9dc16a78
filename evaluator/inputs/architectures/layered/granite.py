"""Granite 4 (hybrid): Mamba2 between attention layers, each followed by a shared MLP, some by experts."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import DenseMlp, LayerGroup, ModelSpec, MoeMlp, StateSpace
from evaluator.inputs.yaml_file import shortened

_KINDS = {"mamba": "mamba", "linear_attention": "mamba", "attention": "attention", "full_attention": "attention"}


def _granite_hybrid(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    for name in ("attention_bias", "mamba_proj_bias"):
        reader.forbid("granitemoehybrid with biases", name)
    # Scales of embeddings, scores, residuals and logits; bounds of rates; the expansion is heads by their size.
    reader.ignore(
        "attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier", "time_step_limit",
        "time_step_min", "time_step_max", "mamba_expand",
    )  # fmt: skip
    space = StateSpace(
        heads=reader.size("mamba_n_heads"),
        head_dim=_head_dim(reader),
        groups=reader.size("mamba_n_groups", default=1),
        state_size=reader.size("mamba_d_state", default=256),
        convolution=reader.size("mamba_d_conv", default=4),
        convolution_bias=reader.flag("mamba_conv_bias", default=True),
        chunk=reader.size("mamba_chunk_size", default=256),
    )
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


READERS = {"granitemoehybrid": _granite_hybrid}
