"""Parts of a cache: entries by token or several tokens, and states of constant size."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.inputs import model
from evaluator.inputs.cache_parts import index_bytes
from evaluator.same_objects import SameObjects
from store.light_dataclass import dataclass

BLOCK_TOKENS = 128
STATE_NUMBER_BYTES = 4.0  # of tokens that are no entry yet
HALF_BYTES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class KvState:
    """`entry_bytes` for every `ratio` of the last `window` tokens (None: all), and `request_bytes` a request."""

    entry_bytes: float = 0.0
    ratio: int = 1
    window: int | None = None
    request_bytes: float = 0.0

    def at(self, tokens: float) -> float:
        return self.entry_bytes * min(tokens, self.window or tokens) / self.ratio + self.request_bytes

    def in_blocks(self, tokens: FloatArray, requests: FloatArray, *, pooled: bool) -> FloatArray:
        kept = tokens if self.window is None else np.minimum(tokens, self.window)
        cached = _whole_blocks(requests * kept) if pooled else requests * _whole_blocks(kept)
        paged = cached * (self.entry_bytes / self.ratio)
        return paged + requests * self.request_bytes if self.request_bytes else paged


@SameObjects
def kv_states(group: model.LayerGroup, kv_bits: int, tp: int) -> tuple[KvState, ...]:
    """On one of `tp` devices, of all mixers."""
    return tuple(state for mixer in group.mixers for state in _states_of(mixer, group.window, kv_bits, tp))


def _states_of(attention: model.Mixer, window: int | None, kv_bits: int, tp: int) -> tuple[KvState, ...]:
    """KV heads replicate where devices outnumber them.

    Every device holds MLA's whole latent and indexers' keys (FP8 whatever the rest is). Linear states are in 32 bits,
    the tokens that the next convolution needs in 16."""
    if isinstance(attention, model.LatentAttention):
        # Kernels that gather keep the rotated part in 16 bits; scales of the rest are left out.
        rope_bits = kv_bits if attention.chosen_keys is None else 16
        latent = (attention.kv_lora_rank * kv_bits + attention.rope_head_dim * rope_bits) / 8
        states = [KvState(entry_bytes=latent, window=window)]
        if attention.indexer is not None:
            states.append(KvState(entry_bytes=index_bytes(attention.indexer, model.LATENT_INDEX_BITS)))
        return tuple(states)
    if isinstance(attention, model.GroupedQueryAttention):
        both = -(-attention.kv_heads // tp) * (attention.head_dim + attention.value_width) * kv_bits / 8
        states = [KvState(entry_bytes=both, window=window)]
        if attention.indexer is not None:
            states.append(KvState(entry_bytes=index_bytes(attention.indexer, model.BLOCK_INDEX_BITS)))
        return tuple(states)
    if isinstance(attention, model.CompressedAttention):
        return _compressed_states(attention, window, kv_bits)
    if isinstance(attention, model.StateSpace):
        inner = -(-attention.heads // tp) * attention.head_dim
        channels = inner + 2 * -(-attention.groups // tp) * attention.state_size
        waiting = HALF_BYTES * channels * (attention.convolution - 1)
        return (KvState(request_bytes=attention.state_bits / 8 * inner * attention.state_size + waiting),)
    keys, heads = -(-attention.key_heads // tp), -(-attention.value_heads // tp)
    channels = 2 * keys * attention.key_head_dim + heads * attention.value_head_dim
    state = attention.state_bits / 8 * heads * attention.key_head_dim * attention.value_head_dim
    return (KvState(request_bytes=state + HALF_BYTES * channels * (attention.convolution - 1)),)


def _compressed_states(attention: model.CompressedAttention, window: int | None, kv_bits: int) -> tuple[KvState, ...]:
    """A window, entries, the indexer's FP4 keys, and tokens that are no entry yet.

    Of those and their shares, as many as an entry sees are kept in 32 bits."""
    rope = attention.rope_head_dim
    entry = ((attention.head_dim - rope) * kv_bits + rope * 16) / 8
    states = [KvState(entry_bytes=entry, window=window)]
    copies = 2 if attention.chosen_entries is not None else 1
    waiting = 2 * STATE_NUMBER_BYTES * copies**2 * attention.ratio
    if attention.ratio > 1:
        states.append(KvState(entry_bytes=entry, ratio=attention.ratio, request_bytes=waiting * attention.head_dim))
    if attention.indexer is not None:
        width = attention.indexer.head_dim
        kept = index_bytes(attention.indexer, model.ENTRY_INDEX_BITS)
        states.append(KvState(entry_bytes=kept, ratio=attention.ratio, request_bytes=waiting * width))
    return tuple(states)


def _whole_blocks(tokens: FloatArray) -> FloatArray:
    return np.asarray(np.ceil(tokens / BLOCK_TOKENS) * BLOCK_TOKENS)


def layer_bytes(group: model.LayerGroup, kv_bits: int, tp: int, tokens: float) -> float:
    return sum(state.at(tokens) for state in kv_states(group, kv_bits, tp))
