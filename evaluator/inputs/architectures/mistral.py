"""Mistral, dense, and Mixtral, a mixture of experts."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import (
    ConfigReader,
    grouped_queries,
    model_spec,
    require_gated,
    windowed_layers,
)
from evaluator.inputs.model import DenseMlp, ModelSpec, MoeMlp


def _mistral(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    return model_spec(reader, windowed_layers(reader, grouped_queries(reader), mlp))


def _mixtral(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    moe = MoeMlp(
        experts=reader.size("num_local_experts"),
        experts_per_token=reader.size("num_experts_per_tok"),
        intermediate_size=reader.size("intermediate_size"),
    )
    return model_spec(reader, windowed_layers(reader, grouped_queries(reader), moe))


READERS = {"mistral": _mistral, "mixtral": _mixtral}
