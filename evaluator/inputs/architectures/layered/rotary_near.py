"""Near layers are rotary, and every few layers one sees all without positions.

Command has attention and MLP side by side behind one norm, Llama 4 chunks, and experts on some layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import GroupedQueryAttention, LayerGroup, ModelSpec, MoeMlp
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


def _llama4(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    reader.forbid("llama4 with biases", "attention_bias")
    # Scales of queries by their position.
    reader.ignore("attn_scale", "floor_scale", "attn_temperature_tuning")
    total, chunk = reader.size("num_hidden_layers"), reader.count("attention_chunk_size", 8192)
    turned, chunks = _turned(reader, total), _chunks(reader, total)
    near = reader.grouped_queries(unscaled_norm="query_key" if reader.flag("use_qk_norm", default=True) else "")
    far = replace(near, rope_fraction=0.0, unscaled_norm="")
    moe = MoeMlp(
        experts=reader.size("num_local_experts"),
        experts_per_token=reader.size("num_experts_per_tok", default=1),
        intermediate_size=reader.size("intermediate_size"),
        shared_intermediate_size=reader.size("intermediate_size"),
    )
    dense = reader.dense("intermediate_size_mlp")
    often = reader.size("interleave_moe_layer_step", default=1)
    routed = reader.numbers("moe_layers") or range(often - 1, total, often)
    layers = [
        LayerGroup(
            count=1,
            attention=near if turned[layer] else far,
            mlp=moe if layer in routed else dense,
            window=chunk if chunks[layer] and chunk else None,
            chunked=bool(chunks[layer] and chunk),
        )
        for layer in range(total)
    ]
    return reader.model_spec(layers)


def _turned(reader: ConfigReader, total: int) -> list[int]:
    often = reader.size("no_rope_layer_interval", default=4)
    flags = reader.numbers("no_rope_layers") or [int((layer + 1) % often != 0) for layer in range(total)]
    if len(flags) < total or set(flags) - {0, 1}:
        raise reader.refuse(f"no_rope_layers that is no list of {total} zeros and ones")
    return flags


def _chunks(reader: ConfigReader, total: int) -> list[int]:
    kinds = reader.kinds("layer_types", total, ("chunked_attention", "full_attention"))
    return [int(kind == "chunked_attention") for kind in kinds] or _turned(reader, total)


READERS = {"cohere": _cohere, "cohere2": _cohere2, "llama4_text": _llama4}
