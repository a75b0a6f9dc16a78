"""Command: attention and MLP side by side behind one norm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import GroupedQueryAttention, LayerGroup, ModelSpec
from evaluator.inputs.yaml_file import shortened

# What published files say of what their classes do whatever they say.
_FIXED: dict[str, Any] = {
    "order_of_interleaved_layers": "local_attn_first",
    "position_embedding_type": "rope_gptj",
    "rotary_pct": 1.0,
    "use_embedding_sharing": True,
    "use_gated_activation": True,
    "use_parallel_block": True,
}


def _cohere(reader: ConfigReader) -> ModelSpec:
    """Command-R and R+: every layer is full and rotary."""
    own = reader.flag("use_qk_norm")
    attention = _attention(reader, qk_norm="each_head" if own else "none")
    return _spec(reader, [_layer(reader, attention)] * reader.size("num_hidden_layers"))


def _cohere2(reader: ConfigReader) -> ModelSpec:
    """Command-R7B and Command-A: every few layers one is full, without positions."""
    for name, said in _FIXED.items():
        if (found := reader.value(name)) is not None and found != said:
            raise reader.refuse(f"cohere2 with {name} {shortened(found)}")
    reader.forbid("cohere2 with norms of queries and keys", "use_qk_norm")
    reader.ignore("cache_implementation", "use_parallel_embedding")  # how a program keeps keys, and deals out a table
    near = _attention(reader)
    far = replace(near, rope_fraction=0.0)
    slides = _sliding(reader)
    if any(slides) and reader.value("sliding_window", 4096) is None:
        raise reader.refuse("cohere2 with windows of no size (sliding_window)")
    window = reader.size("sliding_window", default=4096)
    layers = [_layer(reader, near, window) if slid else _layer(reader, far) for slid in slides]
    return _spec(reader, layers)


def _attention(reader: ConfigReader, **options: Any) -> GroupedQueryAttention:  # noqa: ANN401  fields of the record
    reader.require_gated()
    reader.forbid("cohere with biases", "attention_bias")
    # A scale of logits; what is added where a norm divides; how long a tokeniser's rows may be.
    reader.ignore("logit_scale", "layer_norm_eps", "model_max_length")
    attention = reader.grouped_queries(**options)
    if attention.query_heads * attention.head_dim != reader.size("hidden_size"):
        raise reader.refuse("cohere with heads that together are not as wide as a row (head_dim)")  # vLLM reads none
    return attention


def _layer(reader: ConfigReader, attention: GroupedQueryAttention, window: int | None = None) -> LayerGroup:
    mlp = reader.dense()
    return LayerGroup(count=1, attention=attention, mlp=mlp, window=window, parallel_mlp=True)


def _sliding(reader: ConfigReader) -> list[bool]:
    often = reader.size("sliding_window_pattern", "_sliding_window_pattern", "layer_switch", default=4)
    reader.ignore("_sliding_window_pattern", "layer_switch")
    return reader.sliding_layers(reader.size("num_hidden_layers"), often)


def _spec(reader: ConfigReader, layers: list[LayerGroup]) -> ModelSpec:
    tied = reader.flag("tie_word_embeddings", default=True)
    return reader.model_spec(layers, tie_word_embeddings=tied, norm="layer_unshifted")


READERS = {"cohere": _cohere, "cohere2": _cohere2}
