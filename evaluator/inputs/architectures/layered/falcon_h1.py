"""Falcon-H1: attention and a state space side by side in every layer, behind one norm, and an MLP."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader, grouped_queries, model_spec, require_gated
from evaluator.inputs.model import DenseMlp, LayerGroup, ModelSpec, StateSpace
from evaluator.inputs.yaml_file import shortened

_BIASES = ("attention_bias", "mlp_bias", "mamba_proj_bias", "projectors_bias")


def _falcon_h1(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    for name in _BIASES:
        if reader.flag(name):
            raise reader.refuse(f"falcon_h1 with biases ({name})")
    if reader.value("attn_layer_indices") is not None:
        raise reader.refuse("layers without attention (attn_layer_indices)")
    if not reader.flag("mamba_use_mlp", default=True):
        raise reader.refuse("layers without an MLP (mamba_use_mlp)")
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
        attention=grouped_queries(reader),
        mlp=DenseMlp(intermediate_size=reader.size("intermediate_size")),
        beside=_state_space(reader),
    )
    return model_spec(reader, [layer])


def _state_space(reader: ConfigReader) -> StateSpace:
    heads = reader.size("mamba_n_heads", default=128)
    inner = reader.size("mamba_d_ssm", default=reader.size("mamba_expand", default=2) * reader.size("hidden_size"))
    said = reader.value("mamba_d_head")
    head_dim = inner // heads if said in {None, "auto"} else reader.size("mamba_d_head")
    if heads * head_dim != inner:
        raise reader.refuse(f"{heads} heads of {head_dim} in a state space of {shortened(inner)} (mamba_d_ssm)")
    return StateSpace(
        heads=heads,
        head_dim=head_dim,
        groups=reader.size("mamba_n_groups", default=1),
        state_size=reader.size("mamba_d_state", default=256),
        convolution=reader.size("mamba_d_conv", default=4),
        convolution_bias=reader.flag("mamba_conv_bias", default=True),
        chunk=reader.size("mamba_chunk_size", default=256),
        norm=reader.flag("mamba_rms_norm"),
    )


READERS = {"falcon_h1": _falcon_h1}
