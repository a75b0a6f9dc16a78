"""gpt-oss: sinks, windows on every second layer, experts with biases."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import (
    ConfigReader,
    grouped_queries,
    model_spec,
    require_gated,
    windowed_layers,
)
from evaluator.inputs.model import ModelSpec, MoeMlp


def _gpt_oss(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    reader.ignore(
        "initial_context_length", "experts_per_token", "swiglu_limit", "swiglu_alpha"
    )  # scales, spelled twice
    bias = reader.flag("attention_bias", default=True)
    attention = grouped_queries(reader, qkv_bias=bias, output_bias=bias, sinks=True)
    moe = MoeMlp(
        experts=reader.size("num_local_experts"),
        experts_per_token=reader.size("num_experts_per_tok", "experts_per_token"),
        intermediate_size=reader.size("intermediate_size"),
        expert_bias=True,
        router_bias=True,
    )
    return model_spec(reader, windowed_layers(reader, attention, moe))


READERS = {"gpt_oss": _gpt_oss}
