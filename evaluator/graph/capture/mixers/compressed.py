"""Attention to a window beside entries that several tokens became (DeepSeek-V4).

Keys are values, one head on every tensor-parallel rank. An indexer chooses among entries of few tokens; entries of
many are all read."""

from __future__ import annotations

from evaluator.graph.capture.blocks import HALF, Step, divided, eager_norm, linear, normed, rotated
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.mixers.sparse_latent import index_quantised, score_keys
from evaluator.graph.capture.shapes import Tensor, parameter
from evaluator.inputs.cache_parts import index_bytes
from evaluator.inputs.model import ENTRY_INDEX_BITS, CompressedAttention, TokenIndexer

_GROUPED_FORMAT = "FP8_BLOCK"


def compressed_attention(
    step: Step, x: Tensor, attention: CompressedAttention, window: int | None, tables: tuple[Tensor, Tensor] | None
) -> Tensor:
    form, tokens, width = step.mixers, x.shape[0], attention.head_dim
    heads, groups = divided(attention.query_heads, step.plan.tp), divided(attention.output_groups, step.plan.tp)
    query_down, entry = _down(step, x, attention)
    down = normed(step, "query_norm", query_down, form)
    entry = normed(step, "kv_norm", entry)
    if attention.ratio > 1:
        _compressed(step, x, "compressor", attention.ratio, width, _copies(attention))
    if attention.indexer is not None:
        _indexed(step, x, down, attention, attention.indexer, tables)
    query = linear(step, "query_up_proj", down, heads * width, form).view(tokens, heads, width)
    del down, query_down
    query = _unweighted(step, query)
    if tables is not None:
        rotated(step, query[..., : tables[0].shape[1]], entry.unsqueeze(1)[..., : tables[0].shape[1]], tables)
    with step.recorder.within("kv_write"):
        operators.write_cache([entry], step.request.kv_bits)
    out = _attended(step, query, attention, window)
    del query, entry
    if tables is not None:  # values were rotated as keys: turned back
        rotated(step, out[..., : tables[0].shape[1]], out[:, :0, : tables[0].shape[1]], tables)
    down = _grouped(step, out.view(tokens, groups, heads * width // groups), attention.output_rank)
    return linear(step, "output_proj", down.view(tokens, groups * attention.output_rank), step.model.hidden_size, form)


def _grouped(step: Step, out: Tensor, rank: int) -> Tensor:
    """A product a group of heads, in the published FP8 blocks that engines have kernels for."""
    form = step.mixers if step.mixers.name == _GROUPED_FORMAT else HALF
    with step.recorder.within("output_down_proj"):
        if form.activation_bits < HALF.activation_bits:
            out = operators.quantise(out, form.activation_bits)
        return operators.heads_product(out, parameter(out.shape[1], out.shape[2], rank), form.name)


def _copies(attention: CompressedAttention) -> int:
    """Two where entries overlap: of own tokens and of those before."""
    return 2 if attention.chosen_entries is not None else 1


def _down(step: Step, x: Tensor, attention: CompressedAttention) -> tuple[Tensor, Tensor]:
    form, rank, width = step.mixers, attention.query_lora_rank, attention.head_dim
    if step.fused:
        query_down, entry = linear(step, "query_kv_proj", x, rank + width, form).split([rank, width], dim=1)
        return query_down, entry
    return linear(step, "query_down_proj", x, rank, form), linear(step, "kv_proj", x, width, form)


def _unweighted(step: Step, query: Tensor) -> Tensor:
    with step.recorder.within("head_norm"):
        nothing = parameter(0)
        return operators.norm(query, nothing) if step.fused else eager_norm(query, nothing)


def _compressed(  # noqa: PLR0917  two shapes of one projection
    step: Step, x: Tensor, label: str, ratio: int, width: int, copies: int
) -> None:
    """Every `ratio` tokens are weighed, with shares by position, into an entry of 16 bits."""
    with step.recorder.within(label):
        both = linear(step, "proj", x, 2 * copies * width, HALF)
        with step.recorder.within("pool"):
            operators.pool_tokens(both, parameter(ratio, copies * width), parameter(width), ratio)


def _indexed(  # noqa: PLR0917  its caller's own values
    step: Step,
    x: Tensor,
    down: Tensor,
    attention: CompressedAttention,
    indexer: TokenIndexer,
    tables: tuple[Tensor, Tensor] | None,
) -> None:
    with step.recorder.within("indexer"):
        _compressed(step, x, "compressor", attention.ratio, indexer.head_dim, _copies(attention))
        wide = linear(step, "query_proj", down, indexer.heads * indexer.head_dim, step.mixers)
        query = wide.view(x.shape[0], indexer.heads, indexer.head_dim)
        if tables is not None:
            rotated(step, query[..., : tables[0].shape[1]], query[:, :0, : tables[0].shape[1]], tables)
        linear(step, "weights_proj", x, indexer.heads, HALF)
        (query,) = index_quantised(step, indexer, ENTRY_INDEX_BITS, query)
        score_keys(step, query, attention.ratio, int(index_bytes(indexer, ENTRY_INDEX_BITS)))


def _attended(step: Step, query: Tensor, attention: CompressedAttention, window: int | None) -> Tensor:
    rotated_bits = attention.rope_head_dim * HALF.activation_bits
    bits = (attention.head_dim - attention.rope_head_dim) * step.request.kv_bits + rotated_bits
    kind = "entry_attention" if step.request.trace == "prefill" else "entry_decode"
    with step.recorder.within("attention", per_phase=True):
        out: Tensor = operators.gathered_attention(
            query, step.point.pairs, attention.head_dim, window or 0, bits, 1, parameter(query.shape[1]), kind
        )
    if attention.ratio > 1:
        limit = attention.ratio * (attention.chosen_entries or 0)
        with step.recorder.within("attention_to_entries", per_phase=True):
            operators.gathered_attention(
                query, step.point.pairs, attention.head_dim, limit, bits, attention.ratio, None, kind
            )
    return out
