"""Formats of linear states and index keys in the cache, written behind its own: FP8+states=BF16+index=FP8."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from evaluator.inputs.model import (
    BLOCK_INDEX_BITS,
    ENTRY_INDEX_BITS,
    LATENT_INDEX_BITS,
    STATE_BITS,
    CompressedAttention,
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    Mixer,
    ModelSpec,
    StateSpace,
    TokenIndexer,
)
from store.errors import InputError

STATES, INDEX = "states", "index"
_SCALE_BYTES = 4.0
_BITS: Mapping[str, Mapping[str, int]] = {STATES: {"FP32": 32, "BF16": 16}, INDEX: {"BF16": 16, "FP8": 8, "FP4": 4}}
NAMES: Mapping[str, Mapping[int, str]] = {
    part: {bits: name for name, bits in named.items()} for part, named in _BITS.items()
}


def stated_parts(attention: str) -> Mapping[str, int]:
    found = {}
    for said in attention.upper().split("+")[1:]:
        part, _, name = said.partition("=")
        formats = _BITS.get(part.lower())
        if formats is None:
            raise InputError(f"unknown part of the cache {part.lower()!r}", hint=f"one of {', '.join(_BITS)}")
        if name not in formats:
            raise InputError(f"unknown format of {part.lower()} {name!r}", hint=f"one of {', '.join(formats)}")
        found[part.lower()] = formats[name]
    return found


def stated_format(attention: str, part: str) -> str | None:
    bits = stated_parts(attention).get(part)
    return None if bits is None else NAMES[part][bits]


def with_parts(model: ModelSpec, attention: str | None) -> ModelSpec:
    parts = stated_parts(attention or "")
    if not parts:
        return model
    layers = tuple(_layer(group, parts) for group in model.layers)
    draft = None if model.draft_layer is None else _layer(model.draft_layer, parts)
    kept = [mixer for group in model.layers for mixer in group.mixers]
    if STATES in parts and not any(isinstance(one, StateSpace | GatedDeltaNet) for one in kept):
        raise InputError("`kv_cache_quantization` states a format of states, and no layer keeps a linear state")
    if INDEX in parts and not any(getattr(one, "indexer", None) for one in kept):
        raise InputError("`kv_cache_quantization` states a format of an index, and no layer has an indexer")
    return replace(model, layers=layers, draft_layer=draft)


def kept_parts(model: ModelSpec) -> str:
    """Only those that are not as usual."""
    found: dict[str, str] = {}
    for mixer in (mixer for group in model.layers for mixer in group.mixers):
        if isinstance(mixer, StateSpace | GatedDeltaNet) and mixer.state_bits != STATE_BITS:
            found[STATES] = NAMES[STATES][mixer.state_bits]
        indexer = getattr(mixer, "indexer", None)
        if isinstance(indexer, TokenIndexer) and indexer.key_bits is not None:
            found[INDEX] = NAMES[INDEX][indexer.key_bits]
    return "".join(f"+{part}={found[part]}" for part in (STATES, INDEX) if part in found)


def _layer(group: LayerGroup, parts: Mapping[str, int]) -> LayerGroup:
    attention, beside = group.attention, group.beside
    if beside is not None:
        beside = replace(beside, state_bits=parts.get(STATES, beside.state_bits))
    return replace(group, attention=None if attention is None else _mixer(attention, parts), beside=beside)


def _mixer(mixer: Mixer, parts: Mapping[str, int]) -> Mixer:
    if isinstance(mixer, StateSpace | GatedDeltaNet):
        return replace(mixer, state_bits=parts.get(STATES, mixer.state_bits))
    if mixer.indexer is None or INDEX not in parts:
        return mixer
    usual = usual_index_bits(mixer)
    return replace(mixer, indexer=replace(mixer.indexer, key_bits=parts[INDEX] if parts[INDEX] != usual else None))


def index_bytes(indexer: TokenIndexer, usual_bits: int) -> float:
    """FP8 has a scale, FP4 none, as the page of models counts."""
    bits = indexer.key_bits or usual_bits
    return indexer.head_dim * bits / 8 + (_SCALE_BYTES if bits == LATENT_INDEX_BITS else 0.0)


def usual_index_bits(mixer: LatentAttention | GroupedQueryAttention | CompressedAttention) -> int:
    if isinstance(mixer, CompressedAttention):
        return ENTRY_INDEX_BITS
    return LATENT_INDEX_BITS if isinstance(mixer, LatentAttention) else BLOCK_INDEX_BITS
