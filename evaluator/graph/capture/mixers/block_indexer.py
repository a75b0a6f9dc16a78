"""The indexer of attention to chosen blocks of keys (MiniMax-M3): one choice for each group of query heads.

Attention to them is attention in a window of as many keys: kernels go over blocks, and read each once a step."""

from __future__ import annotations

from torch import Tensor

from evaluator.graph.capture.blocks import Step, divided, linear, normed, rotated
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.mixers.sparse_latent import index_quantised
from evaluator.inputs.cache.kept_parts import index_bytes
from evaluator.inputs.model import BLOCK_INDEX_BITS, GroupedQueryAttention, TokenIndexer

HALF_BITS = 16


def choose_blocks(
    step: Step,
    x: Tensor,
    attention: GroupedQueryAttention,
    indexer: TokenIndexer,
    tables: tuple[Tensor, Tensor] | None,
) -> None:
    """Score blocks for this device's groups of heads; the one key of a token is on every device."""
    form, heads, width = step.mixers, divided(indexer.heads, step.plan.tp), indexer.head_dim
    with step.recorder.within("indexer"):
        query = linear(step, "query_proj", x, heads * width, form).view(x.shape[0], heads, width)
        key = linear(step, "key_proj", x, width, form).unsqueeze(1)
        query, key = normed(step, "query_norm", query), normed(step, "key_norm", key)
        if tables is not None:
            turned = tables[0].shape[1]
            rotated(step, query[..., :turned], key[..., :turned], tables)
        query, key = index_quantised(step, indexer, BLOCK_INDEX_BITS, query, key)
        with step.recorder.within("kv_write"):
            operators.write_cache([key], HALF_BITS)  # a byte each is what a number in eight bits already is
        entry = int(index_bytes(indexer, BLOCK_INDEX_BITS))
        with step.recorder.within("scores", per_phase=True):
            kind = "index_scores" if step.request.trace == "prefill" else "block_scores"
            operators.block_scores(query, step.point.pairs, step.point.keys, attention.chosen_block, entry, kind)
        with step.recorder.within("choice", per_phase=True):
            kind = "index_choice" if step.request.trace == "prefill" else "block_choice"
            operators.index_choice(query, step.point.pairs, max(1, attention.chosen_block // heads), kind)
