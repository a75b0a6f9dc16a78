"""Llama and models of its shape."""

from __future__ import annotations

from evaluator.inputs.architectures.config_reader import ConfigReader, grouped_queries, model_spec, require_gated
from evaluator.inputs.model import DenseMlp, LayerGroup, ModelSpec


def _llama(reader: ConfigReader) -> ModelSpec:
    require_gated(reader)
    bias = reader.flag("attention_bias")
    attention = grouped_queries(reader, qkv_bias=bias, output_bias=bias)
    mlp = DenseMlp(intermediate_size=reader.size("intermediate_size"), bias=reader.flag("mlp_bias"))
    return model_spec(reader, [LayerGroup(count=reader.size("num_hidden_layers"), attention=attention, mlp=mlp)])


READERS = {"llama": _llama}
