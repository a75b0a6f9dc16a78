"""Latent attention to chosen tokens (DeepSeek-V3.2, GLM-5): an indexer scores all, attention gathers the best.

Absorbed in prefill, too, as engines run it. Shorter prompts run the dense, expanded form (latent): decided here by
request, in an engine by step. Left out: that they need no query of the indexer.

MiniMax-M3's indexer chooses blocks of keys for each group of query heads. That is attention in a window of as many
keys, since kernels read each block once a step."""

from __future__ import annotations

from evaluator.graph.capture.blocks import HALF, Step, divided, eager_norm, linear, normed, rotated
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.mixers.context_parallel import written_share
from evaluator.graph.capture.shapes import Tensor, parameter
from evaluator.graph.operators import RequestsOfLength
from evaluator.inputs import model
from evaluator.inputs.cache_parts import index_bytes

INDEX_BITS = 8


def choose_keys(  # noqa: PLR0917  its caller's own values
    step: Step,
    x: Tensor,
    compressed: Tensor,
    attention: model.LatentAttention,
    indexer: model.TokenIndexer,
    tables: tuple[Tensor, Tensor] | None,
) -> None:
    """Whole on every tensor-parallel rank; queries come from attention's compressed one."""
    form, heads, width, rope = step.mixers, indexer.heads, indexer.head_dim, attention.rope_head_dim
    with step.recorder.within("indexer"):
        query = linear(step, "query_proj", compressed, heads * width, form).view(x.shape[0], heads, width)
        key = linear(step, "key_proj", x, width, form)
        with step.recorder.within("key_norm"):
            scales = parameter(2, width)
            key = operators.norm(key, scales) if step.fused else eager_norm(key, scales)
        if tables is not None:
            rotated(step, query[..., :rope], key.unsqueeze(1)[..., :rope], tables)
        linear(step, "weights_proj", x, heads, HALF)
        query, key = index_quantised(step, indexer, model.LATENT_INDEX_BITS, query, key)
        with step.recorder.within("kv_write"):
            # A byte each is what a number in eight bits already is.
            operators.write_cache(written_share(step, key), 16)
        with step.recorder.within("", requests=_beyond(step, attention)):
            score_keys(step, query, 1, int(index_bytes(indexer, model.LATENT_INDEX_BITS)))


def index_quantised(step: Step, indexer: model.TokenIndexer, usual_bits: int, *parts: Tensor) -> tuple[Tensor, ...]:
    """In eight bits, unless the index is in 16; four are widened to eight."""
    if (indexer.key_bits or usual_bits) > INDEX_BITS:
        return parts
    with step.recorder.within("quantise"):
        return tuple(operators.quantise(part, INDEX_BITS) for part in parts)


def _beyond(step: Step, attention: model.LatentAttention) -> RequestsOfLength | None:
    """Prefills with more keys than are chosen; all of a decode step."""
    if step.request.trace == "decode" or attention.chosen_keys is None:
        return None
    return RequestsOfLength(keys=attention.chosen_keys, up_to=False)


def score_keys(step: Step, query: Tensor, ratio: int, entry_bytes: int) -> None:
    """Scores every cached entry, of `ratio` tokens each, and finds the best."""
    kind = "index_scores" if ratio == 1 and step.request.trace == "prefill" else "paged_scores"
    with step.recorder.within("scores", per_phase=True):
        operators.index_scores(query, step.point.pairs, step.point.keys, ratio, entry_bytes, kind)
    with step.recorder.within("choice", per_phase=True):
        operators.index_choice(query, step.point.pairs, ratio, "index_choice" if ratio == 1 else "entry_choice")


def attended_choice(step: Step, wide: Tensor, attention: model.LatentAttention) -> Tensor:
    """In the latent space; the rotary part stays in 16 bits."""
    bits = attention.kv_lora_rank * step.request.kv_bits + attention.rope_head_dim * HALF.activation_bits
    return operators.gathered_attention(
        wide, step.point.pairs, attention.kv_lora_rank, attention.chosen_keys or 0, bits, 1, None, "sparse_attention"
    )


HALF_BITS = 16


def choose_blocks(
    step: Step,
    x: Tensor,
    attention: model.GroupedQueryAttention,
    indexer: model.TokenIndexer,
    tables: tuple[Tensor, Tensor] | None,
) -> None:
    """By this device's groups of heads; a token's one key is on every device."""
    form, heads, width = step.mixers, divided(indexer.heads, step.plan.tp), indexer.head_dim
    with step.recorder.within("indexer"):
        query = linear(step, "query_proj", x, heads * width, form).view(x.shape[0], heads, width)
        key = linear(step, "key_proj", x, width, form).unsqueeze(1)
        query, key = normed(step, "query_norm", query), normed(step, "key_norm", key)
        if tables is not None:
            turned = tables[0].shape[1]
            rotated(step, query[..., :turned], key[..., :turned], tables)
        query, key = index_quantised(step, indexer, model.BLOCK_INDEX_BITS, query, key)
        with step.recorder.within("kv_write"):
            operators.write_cache([key], HALF_BITS)  # a byte each is what a number in eight bits already is
        entry = int(index_bytes(indexer, model.BLOCK_INDEX_BITS))
        with step.recorder.within("scores", per_phase=True):
            kind = "index_scores" if step.request.trace == "prefill" else "block_scores"
            operators.block_scores(query, step.point.pairs, step.point.keys, attention.chosen_block, entry, kind)
        with step.recorder.within("choice", per_phase=True):
            kind = "index_choice" if step.request.trace == "prefill" else "block_choice"
            operators.index_choice(query, step.point.pairs, max(1, attention.chosen_block // heads), kind)
