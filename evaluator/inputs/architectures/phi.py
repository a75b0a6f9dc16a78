"""Phi-3 and Phi-4: Llama's shape with packed projections, and one window for all layers where there is any."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import (
    ConfigReader,
    grouped_queries,
    model_spec,
    require_gated,
    windowed_layers,
)
from evaluator.inputs.model import DenseMlp, ModelSpec


def _phi3(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    if reader.flag("attention_bias"):
        raise reader.refuse("phi3 with biases (attention_bias)")
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"))
    return model_spec(
        reader,
        windowed_layers(reader, grouped_queries(reader), mlp),
        rope_fraction=reader.share("partial_rotary_factor", 1.0),
    )


READERS = {"phi3": _phi3}
