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


def _smollm3(reader: ConfigReader) -> ModelSpec:
    # Positions of some layers are not turned, which nothing else depends on.
    reader.ignore("no_rope_layers", "no_rope_layer_interval")
    if reader.flag("use_sliding_window"):
        raise reader.refuse("smollm3 with a sliding window (use_sliding_window)")
    if set(reader.words("layer_types")) - {"full_attention"}:
        raise reader.refuse("layer_types other than its window says")
    reader.ignore("sliding_window", "max_window_layers")
    return _llama(reader)


READERS = {"llama": _llama, "smollm3": _smollm3}
