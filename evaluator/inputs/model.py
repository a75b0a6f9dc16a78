"""Normalised hyper-parameters of a model, never its file."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Literal

from evaluator.canonical import IF_SET, IN_NO_KEY
from evaluator.inputs.images import VisionTower
from store.light_dataclass import dataclass

STATE_BITS = 32  # of a number of a linear state, as engines keep it unless told
LATENT_INDEX_BITS, BLOCK_INDEX_BITS, ENTRY_INDEX_BITS = 8, 16, 4  # of a number of an index' keys, likewise


@dataclass(frozen=True, slots=True, order=True)
class Short:
    """Requests so short that sparse attention reads all keys."""

    keys: int


Span = int | Short  # a window of sums of batches (a chunk below zero), or the requests that are short


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIndexer:
    """Small heads score every earlier token, and attention reads the best (DeepSeek-V3.2)."""

    heads: int
    head_dim: int
    key_bits: int | None = field(default=None, metadata={IF_SET: True})  # of a number of its keys; None: as is usual


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupedQueryAttention:
    """Also MHA, with as many KV heads as query heads."""

    query_heads: int
    kv_heads: int
    head_dim: int
    # each_head: as per_head, and every head has weights of its own (Command-R+).
    qk_norm: Literal["none", "per_head", "per_layer", "each_head"] = "none"
    qkv_bias: bool = False
    output_bias: bool = False
    sinks: bool = False  # one learned logit a query head (gpt-oss)
    value_head_dim: int | None = field(default=None, metadata={IF_SET: True})  # None: as wide as a key
    output_gate: bool = field(default=False, metadata={IF_SET: True})  # a second query's width gates what comes out
    chosen_keys: int | None = field(default=None, metadata={IF_SET: True})  # whole blocks that an indexer chose
    chosen_block: int = field(default=1, metadata={IF_SET: True})  # keys of a block
    indexer: TokenIndexer | None = field(default=None, metadata={IF_SET: True})
    head_gate: bool = field(default=False, metadata={IF_SET: True})  # one number gates a head's output (Step-3.5)
    rope_fraction: float | None = field(default=None, metadata={IF_SET: True})  # of its heads; None: as the model's
    unscaled_norm: Literal["", "query_key", "value"] = field(default="", metadata={IF_SET: True})  # without weights
    values_are_keys: bool = field(default=False, metadata={IF_SET: True})  # one projection makes both (Gemma 4)

    @property
    def value_width(self) -> int:
        return self.value_head_dim or self.head_dim

    @property
    def keeps_tokens(self) -> bool:
        return True

    @property
    def split_heads(self) -> dict[str, int]:
        return {"query": self.query_heads}


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """One compressed KV vector a token (DeepSeek-V2/V3).

    `chosen_keys` caps keys, chosen by the layer's own indexer or an earlier layer's."""

    query_heads: int
    query_lora_rank: int | None
    kv_lora_rank: int
    nope_head_dim: int
    rope_head_dim: int
    value_head_dim: int
    chosen_keys: int | None = field(default=None, metadata={IF_SET: True})
    indexer: TokenIndexer | None = field(default=None, metadata={IF_SET: True})
    output_gate: bool = field(default=False, metadata={IF_SET: True})  # a projection gates what comes out (Kimi-K3)

    @property
    def keeps_tokens(self) -> bool:
        return True

    @property
    def split_heads(self) -> dict[str, int]:
        return {"query": self.query_heads}


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedDeltaNet:
    """Linear attention whose state is a matrix a value head (Qwen3-Next, Qwen3.5).

    `decay_rank`: each key channel decays by itself, projected through so many dimensions (Kimi Delta Attention).
    `gate_rank`: the gate likewise."""

    key_heads: int
    value_heads: int
    key_head_dim: int
    value_head_dim: int
    convolution: int  # tokens that the convolution before it sees
    decay_rank: int | None = field(default=None, metadata={IF_SET: True})  # None: one decay a head
    gate_rank: int | None = field(default=None, metadata={IF_SET: True})  # None: one projection
    state_bits: int = field(default=STATE_BITS, metadata={IF_SET: True})  # of a number of its state

    @property
    def keeps_tokens(self) -> bool:
        return False

    @property
    def split_heads(self) -> dict[str, int]:
        return {"key": self.key_heads, "value": self.value_heads}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedAttention:
    """A window, and entries of `ratio` tokens (DeepSeek-V4); ratio 1: the window alone.

    Keys are values. `chosen_entries` caps entries, chosen by an indexer; entries then overlap."""

    query_heads: int
    query_lora_rank: int
    head_dim: int
    rope_head_dim: int
    output_groups: int
    output_rank: int
    ratio: int = 1
    chosen_entries: int | None = None
    indexer: TokenIndexer | None = None

    @property
    def keeps_tokens(self) -> bool:
        return True

    @property
    def split_heads(self) -> dict[str, int]:
        return {"query": self.query_heads, "output": self.output_groups}


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpace:
    """Mamba2: a state matrix a head."""

    heads: int
    head_dim: int
    groups: int
    state_size: int
    convolution: int  # tokens that the convolution before it sees
    convolution_bias: bool
    chunk: int  # tokens that a scan takes at once
    norm: bool = field(default=True, metadata={IF_SET: True})  # behind its gate; without one nothing is between
    state_bits: int = field(default=STATE_BITS, metadata={IF_SET: True})  # of a number of its state

    @property
    def keeps_tokens(self) -> bool:
        return False

    @property
    def split_heads(self) -> dict[str, int]:
        return {"state": self.heads}


Mixer = GroupedQueryAttention | LatentAttention | GatedDeltaNet | CompressedAttention | StateSpace


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseMlp:
    """`gated`: three matrices (SwiGLU-like), else two."""

    intermediate_size: int
    gated: bool = True
    bias: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MoeMlp:
    """Shared experts see every token."""

    experts: int
    experts_per_token: int
    intermediate_size: int
    shared_intermediate_size: int = 0  # of all shared experts together; 0 means none
    shared_gate: bool = False
    expert_bias: bool = False
    router_bias: bool = False
    gated: bool = field(default=True, metadata={IF_SET: True})  # as of a dense MLP, of routed and shared ones
    latent_size: int | None = field(default=None, metadata={IF_SET: True})  # routed experts work in so many dimensions
    latent_norm: bool = field(default=False, metadata={IF_SET: True})  # what they give together is normalised there
    # Routed experts read by a norm of their own, their sum and that of shared ones each normalised (Gemma 4).
    apart_norms: bool = field(default=False, metadata={IF_SET: True})
    # Experts that give back what they read. A token chooses among all; `experts_per_token` is the mean of those that
    # compute, which even routing makes of what it chooses (LongCat-Flash).
    idle_experts: int = field(default=0, metadata={IF_SET: True})
    # What routed experts give is added behind the next layer, so it is summed over devices by itself (LongCat-Flash).
    shortcut: bool = field(default=False, metadata={IF_SET: True})

    @property
    def scored(self) -> int:
        return self.experts + self.idle_experts

    @property
    def chosen(self) -> int:
        return self.experts_per_token * self.scored // self.experts

    def expert_weights(self, hidden_size: int) -> int:
        return (3 if self.gated else 2) * (self.latent_size or hidden_size) * self.intermediate_size


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerGroup:
    count: int
    attention: Mixer | None  # what mixes tokens; None in a layer that has none
    mlp: DenseMlp | MoeMlp | None
    window: int | None = None  # sliding attention window in tokens; None attends to everything
    chunked: bool = field(default=False, metadata={IF_SET: True})  # the window is a chunk, not the last tokens
    # Reads what attention reads, and is added to what comes out of it (Falcon-H1).
    beside: StateSpace | None = field(default=None, metadata={IF_SET: True})
    # The MLP reads what attention reads, behind the only norm, and both are added to the residual stream (Command-A).
    parallel_mlp: bool = field(default=False, metadata={IF_SET: True})

    @property
    def blocks(self) -> int:
        parts = sum(part is not None for part in (self.attention, self.mlp))
        return min(parts, 1) if self.parallel_mlp else parts

    @property
    def mixers(self) -> tuple[Mixer, ...]:
        return tuple(one for one in (self.attention, self.beside) if one is not None)

    @property
    def span(self) -> int | None:
        """As batch sums name it: negative for a chunk."""
        return -self.window if self.window is not None and self.chunked else self.window

    @property
    def windows(self) -> tuple[int, ...]:
        """Caps on attended tokens in this layer; negative for chunks."""
        chosen: int | None = getattr(self.attention, "chosen_keys", None)
        if isinstance(self.attention, CompressedAttention) and self.attention.chosen_entries is not None:
            chosen = self.attention.ratio * self.attention.chosen_entries
        return tuple(window for window in (self.span, chosen) if window is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    architecture: str  # the Hugging Face model_type, for display and errors
    hidden_size: int
    vocab_size: int
    layers: tuple[LayerGroup, ...]  # groups of identical layers, in a fixed order
    tie_word_embeddings: bool = False
    norm: Literal["rms", "layer", "layer_unshifted"] = "rms"  # a layer norm has weights and shifts, or weights alone
    embedding_norm: bool = False  # BLOOM normalises the embedding
    position: Literal["rope", "learned", "alibi", "none"] = "rope"
    rope_fraction: float = 1.0  # rotated share of the head dimension
    learned_positions: int = 0  # rows of the position table (position == "learned")
    mtp_layers: int = 0  # multi-token-prediction modules shipped with the weights
    draft_layer: LayerGroup | None = field(default=None, metadata={IF_SET: True})  # None: like the last of `layers`
    # Several modules, of which each drafts a token behind the one before: all of their weights are held.
    drafts_chained: bool = field(default=False, metadata={IF_SET: True})
    draft_states: int = field(default=0, metadata={IF_SET: True})  # hidden states that a draft beside the model fuses
    draft_state_norms: bool = field(default=False, metadata={IF_SET: True})  # each of them normalised before
    draft_block: bool = field(default=False, metadata={IF_SET: True})  # all drafts of a step come of one pass
    draft_markov: int = field(default=0, metadata={IF_SET: True})  # rank of what makes a draft follow the one before
    draft_vocab: int | None = field(default=None, metadata={IF_SET: True})  # tokens that its head knows
    # A whole model that drafts, from tokens alone: `mtp_layers` are its layers.
    draft_model: ModelSpec | None = field(default=None, metadata={IF_SET: True})
    residual_streams: int = field(default=1, metadata={IF_SET: True})  # that hyper-connections mix
    stream_rounds: int = field(default=0, metadata={IF_SET: True})  # of normalising what mixes them
    output_norms: bool = field(default=False, metadata={IF_SET: True})  # of each block, before it is added
    # Layers after which a sum of residuals ends; each block of a layer reads a mixture of all ended ones. 0: one sum.
    residual_block: int = field(default=0, metadata={IF_SET: True})
    native_linear: str = "BF16"  # precision the published weights come in, for linears
    native_experts: str = "BF16"  # the same, for experts
    max_positions: int | None = None
    # The same, for the KV cache. It came after the first stores and decides no number: no key has it.
    native_kv_cache: str = field(default="DISABLED", metadata={IN_NO_KEY: True})
    native_mixers: str | None = field(default=None, metadata={IN_NO_KEY: True})  # None: as linears
    native_head: str | None = field(default=None, metadata={IF_SET: True})  # None: 16 bits
    native_drafts: str | None = field(default=None, metadata={IF_SET: True})  # None: as the layers'
    left_out: str = field(default="", metadata={IN_NO_KEY: True})  # parts of the published model that this is not
    # The image encoder, or why it is not read. Workloads with images name it, and keys have it there.
    vision: VisionTower | str | None = field(default=None, metadata={IN_NO_KEY: True})

    @property
    def unnamed(self) -> ModelSpec:
        """Without what decides no number: name and published formats."""
        return replace(
            self,
            architecture="",
            native_linear="",
            native_experts="",
            native_mixers=None,
            native_head=None,
            native_drafts=None,
            draft_model=None if self.draft_model is None else self.draft_model.unnamed,
        )

    @property
    def drafts_apart(self) -> bool:
        return self.draft_states > 0 or self.draft_model is not None

    @property
    def draft_groups(self) -> tuple[LayerGroup, ...]:
        if self.draft_model is not None:
            return self.draft_model.layers
        return () if self.draft_layer is None else (self.draft_layer,)

    @property
    def windows(self) -> tuple[int, ...]:
        """Batches are summed under each."""
        groups = (*self.layers, *self.draft_groups)
        return tuple(sorted({window for group in groups for window in group.windows}))

    @property
    def spans(self) -> tuple[Span, ...]:
        """Windows, and requests so short that sparse attention is dense."""
        attentions = [group.attention for group in (*self.layers, *self.draft_groups)]
        chosen = {one.chosen_keys for one in attentions if isinstance(one, LatentAttention) and one.chosen_keys}
        return (*self.windows, *(Short(keys) for keys in sorted(chosen)))

    @property
    def draft_modules(self) -> int:
        """Modules held in memory where tokens are drafted; a pass goes through one."""
        return self.mtp_layers if self.drafts_chained else 1

    @property
    def routed(self) -> bool:
        return any(isinstance(group.mlp, MoeMlp) for group in self.layers)
