"""Llama-Nemotron: Llama whose blocks and widths were searched layer by layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from evaluator.inputs.architectures.config_reader import ConfigReader
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LayerGroup, ModelSpec
from evaluator.inputs.yaml_file import shortened

_WIDTH_MULTIPLE = 256
_KNOWN = {"attention": {"n_heads_in_group", "no_op"}, "ffn": {"ffn_mult", "no_op"}}


def _nemotron_nas(reader: ConfigReader) -> ModelSpec:
    reader.require_gated()
    reader.forbid("nemotron-nas with biases", "attention_bias", "mlp_bias")
    blocks = reader.value("block_configs")
    total = reader.size("num_hidden_layers")
    if not isinstance(blocks, list) or len(blocks) != total:
        raise reader.refuse(f"block_configs that are no list of {total} layers")
    layers = [LayerGroup(count=1, attention=_attention(reader, block), mlp=_mlp(reader, block)) for block in blocks]
    if all(layer.attention is None for layer in layers):
        raise reader.refuse("a model without any attention (block_configs)")
    return reader.model_spec(layers)


def _part(reader: ConfigReader, block: object, name: str) -> Mapping[str, Any] | None:
    said = block.get(name) if isinstance(block, Mapping) else None
    if not isinstance(said, Mapping):
        raise reader.refuse(f"block_configs without {name}: {shortened(block)}")
    if other := [key for key, value in said.items() if value and key not in _KNOWN[name]]:
        raise reader.refuse(f"{', '.join(map(shortened, other))} of block_configs")
    return None if said.get("no_op") else said


def _attention(reader: ConfigReader, block: object) -> GroupedQueryAttention | None:
    said = _part(reader, block, "attention")
    if said is None:
        return None
    heads, sharing = reader.size("num_attention_heads"), said.get("n_heads_in_group")
    if isinstance(sharing, bool) or not isinstance(sharing, int) or sharing < 1 or heads % sharing:
        raise reader.refuse(f"n_heads_in_group {shortened(sharing)} of block_configs")
    head_dim = reader.size("head_dim", default=max(1, reader.size("hidden_size") // heads))
    return GroupedQueryAttention(query_heads=heads, kv_heads=heads // sharing, head_dim=head_dim)


def _mlp(reader: ConfigReader, block: object) -> DenseMlp | None:
    said = _part(reader, block, "ffn")
    if said is None:
        return None
    wider = said.get("ffn_mult")
    if isinstance(wider, bool) or not isinstance(wider, int | float) or not 0 < wider < _WIDTH_MULTIPLE:
        raise reader.refuse(f"ffn_mult {shortened(wider)} of block_configs")
    # Two thirds of that many hidden widths, since a gated MLP has three matrices, in whole multiples.
    width = int(2 * wider * reader.size("hidden_size") / 3)
    return DenseMlp(intermediate_size=-(-width // _WIDTH_MULTIPLE) * _WIDTH_MULTIPLE)


READERS = {"nemotron-nas": _nemotron_nas}
