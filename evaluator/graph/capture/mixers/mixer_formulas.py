"""FLOPs and bytes of the operators of sparse attention (mixer_library)."""

from __future__ import annotations

from fractions import Fraction

from evaluator.graph.capture.formulas import (
    SOFTMAX_FLOPS_PER_SCORE,
    Call,
    Work,
    bits_bytes,
    formula,
    size_bytes,
)
from evaluator.graph.operators import AttentionExtents, Rational

INDEX_ENTRY_BYTES = 132  # of 128 numbers in FP8 with one scale of 32 bits
_SCORE_BYTES = 4


def _whole(value: Fraction) -> Rational:
    return value.numerator if value.denominator == 1 else value


@formula("sweepdb::index_scores")
def _index_scores(call: Call) -> Work:
    """One score a pair: products of every index head in FP8, cut off at zero, weighted and added up.

    DeepSeek-V3.2 (2025), section 2.1, equation 1. Every key of the cache is read once; left out: that a query's scores
    are written in tiles, whole ones where they are cut by the causal mask."""
    query, pairs, keys, ratio = call.args
    heads, width = query.shape[1:]
    seen = _whole(Fraction(pairs, ratio))
    return Work(
        kind="index_scores",
        matrix_flops=2 * heads * width * seen,
        matrix_dtype="fp8",
        vector_flops=3 * heads * seen,
        bytes_read=query.numel() + _whole(Fraction(keys * INDEX_ENTRY_BYTES, ratio)),
        bytes_written=_SCORE_BYTES * seen,
    )


@formula("sweepdb::index_choice")
def _index_choice(call: Call) -> Work:
    """The largest scores of each query, found in one pass over all of them."""
    _, pairs, ratio = call.args
    seen = _whole(Fraction(pairs, ratio))
    return Work(kind="index_choice", vector_flops=seen, bytes_read=_SCORE_BYTES * seen)


@formula("sweepdb::gathered_attention")
def _gathered_attention(call: Call) -> Work:
    """Attention of all heads to entries that each query gathers for itself: an entry is read again for each of them.

    One of every `ratio` tokens has an entry, whose first part is the value. Left out: what caches keep of an entry
    between queries that chose it, too."""
    query, pairs, value_dim, window, entry_bits, ratio = call.args
    heads, width = query.shape[1:]
    seen = _whole(Fraction(pairs, ratio))
    return Work(
        kind="sparse_attention",
        matrix_flops=2 * heads * (width + value_dim) * seen,
        vector_flops=SOFTMAX_FLOPS_PER_SCORE * heads * seen,
        bytes_read=size_bytes(query) + seen * bits_bytes(1, entry_bits),
        bytes_written=size_bytes(call.result),
        attention=AttentionExtents(
            query_heads=heads, kv_heads=1, head_dim=width, value_head_dim=value_dim, window=window, kv_bits=16
        ),
    )
