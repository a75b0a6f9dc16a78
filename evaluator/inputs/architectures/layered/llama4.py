"""Llama 4: attention within chunks on most layers, which alone are rotary; experts on some."""

from __future__ import annotations

from dataclasses import replace

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import LayerGroup, ModelSpec, MoeMlp


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


READERS = {"llama4_text": _llama4}
