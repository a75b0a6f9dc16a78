"""Work of operators that only upstream has, verified against its tables.

The recorder imports it for registration."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from evaluator.graph.capture.affine_fit import as_whole
from evaluator.graph.capture.formulas import (
    HALF_BITS,
    SOFTMAX_FLOPS_PER_SCORE,
    Call,
    Work,
    bits_bytes,
    formula,
    moved,
    size_bytes,
)
from evaluator.graph.operators import AttentionExtents, Rational

INDEX_BYTES = 8
BLOCK_TOKENS = 128
PROJECTION_LAUNCHES = 16  # one launch and the fixed cost of fifteen more


def _tables(keys: int, sequences: int) -> Rational:
    """Bytes of block table, first tokens and lengths; blocks of 128 tokens, the last half full."""
    # 1 request of 4,251 tokens: 34 blocks, 2 first tokens, 2 lengths: 304 bytes; here (33.7 + 1 + 3) x 8 = 301.7.
    entries = Fraction(keys, BLOCK_TOKENS) + Fraction(sequences, 2) + 3 * sequences + 1
    return as_whole(INDEX_BYTES * entries)


@formula("pad")
def _pad(call: Call) -> Work:
    # Priced at the mean of the rows before and after.
    return moved("elementwise", call, call.args[0])


@formula("read_rope_table")
def _read_rope_table(call: Call) -> Work:
    table, positions = call.args
    # Compiled graphs read it whole.
    return moved("rope", call, table, positions, weight=table)


@formula("select_rows")
def _select_rows(call: Call) -> Work:
    # The selection of the last tokens reads all of them.
    x, rows = call.args
    return moved("elementwise", call, x, more=8 * rows)


@formula("dealt", "undealt")
def _dealt(call: Call) -> Work:
    # One index a row says which expert, or which token, it is for.
    rows = max(call.args[0].shape[0], call.result.shape[0])
    return moved("moe_routing", call, call.args[0], more=INDEX_BYTES * rows)


@formula("held_rows")
def _held_rows(call: Call) -> Work:
    table, positions = call.args
    return moved("elementwise", call, call.result, positions, weight=table)


formula("copied")(lambda call: moved("elementwise", call, call.args[0], label="copy"))
formula("fill")(lambda call: moved("elementwise", call, label="fill"))


@formula("overwrite")
def _overwrite(call: Call) -> Work:
    # Reads what it copies and what it overwrites.
    size = size_bytes(call.args[0])
    return Work(kind="elementwise", label="overwrite", bytes_read=2 * size, bytes_written=size)


@formula("picked")
def _picked(call: Call) -> Work:
    values = call.args[0]
    chosen = call.result.numel()
    return moved("moe_routing", call, values, label="pick", more=INDEX_BYTES * chosen)


@formula("weighted")
def _weighted(call: Call) -> Work:
    x, weights = call.args
    return moved("elementwise", call, x, weights, flops=x.numel(), label="multiply")


@formula("wide_linear")
def _wide_linear(call: Call) -> Work:
    x, weight = call.args
    rows, (columns, depth) = x.shape[0], weight.shape
    return Work(
        kind="gemm",
        matrix_flops=2 * rows * columns * depth,
        matrix_dtype="fp32",
        bytes_read=size_bytes(x) + 4 * weight.numel(),
        bytes_written=size_bytes(call.result),
        weight_bytes=size_bytes(weight),
        weight_format="BF16",
        activation_dtype="fp32",
        gemm=(rows, columns, depth, 1),
    )


@formula("indexed_attention")
def _indexed_attention(call: Call) -> Work:
    query, pairs, keys, sequences, kv_heads, head_dim, value_dim, window, kv_dtype, extra, form = call.args
    heads, quantised = query.shape[1], bool(kv_dtype)
    bits = 8 if quantised else HALF_BITS
    scores, entry = pairs * heads, kv_heads * (head_dim + value_dim)
    # Scores are scaled, and probabilities quantised: two operations each in int8, one in fp8; the result is scaled too.
    factor = {"": 0, "fp8": 1}.get(kv_dtype, 2)
    result = size_bytes(call.result)
    return Work(
        kind=form,
        matrix_flops=2 * scores * (head_dim + value_dim),
        matrix_dtype=kv_dtype or "bf16",
        vector_flops=(SOFTMAX_FLOPS_PER_SCORE + extra + 2 * factor) * scores + factor * call.result.numel(),
        bytes_read=as_whole(
            size_bytes(query) + bits_bytes(keys * entry, bits) + _tables(keys, sequences) + 3 * INDEX_BYTES * quantised
        ),
        bytes_written=result,
        attention=AttentionExtents(
            query_heads=heads, kv_heads=kv_heads, head_dim=head_dim, value_head_dim=value_dim, window=window or None,
            kv_bits=bits,
        ),
    )  # fmt: skip


@formula("latent_projections")
def _latent_projections(call: Call) -> Work:
    x, weight, compressed, scales, query_width, down, heads, rope, form = call.args
    format_ = call.formats[form]
    tokens, hidden = x.shape
    elements, rank = weight.numel() + compressed.numel(), compressed.shape[0]
    weights = bits_bytes(elements, format_.weight_bits + format_.scale_bits_per_weight)
    # Norms are five operations an element, the rotation three.
    vector = tokens * (5 * down + 3 * heads * rope + 5 * (rank - rope) + 3 * rope)
    if format_.activation_bits < HALF_BITS:
        vector += tokens * (2 * hidden + down) + elements
    between = tokens * (4 * (down + rank) + 2 * down)  # what one part of it writes and the next one reads
    return Work(
        kind="gemm",
        launches=PROJECTION_LAUNCHES,
        matrix_flops=2 * tokens * elements,
        matrix_dtype=format_.compute,
        vector_flops=vector,
        bytes_read=size_bytes(x, scales) + weights + between,
        bytes_written=size_bytes(call.result) + 2 * tokens * rank,
        weight_bytes=weights + size_bytes(scales),
        weight_format=form,
        activation_dtype="bf16",
        gemm=(tokens, query_width + rank, hidden, 1),
    )


@formula("latent_core")
def _latent_core(call: Call) -> Work:
    query, pairs, keys, sequences, rank, rope, value_dim, kv_bits, form, trace = call.args
    tokens, heads, width = query.shape
    nope, scores = width - rope, pairs * heads
    projected = heads * (nope + value_dim) * rank  # the absorbed pair of products has as many weights
    core = (width + value_dim) if trace == "prefill" else (rank + rope + rank)
    work = Work(
        kind="mla_prefill" if trace == "prefill" else "mla_decode",
        matrix_flops=2 * tokens * projected + 2 * scores * core,
        vector_flops=SOFTMAX_FLOPS_PER_SCORE * scores,
        bytes_read=as_whole(
            size_bytes(query) + 2 * projected + bits_bytes(keys * (rank + rope), kv_bits) + _tables(keys, sequences)
        ),
        bytes_written=size_bytes(call.result),
        weight_bytes=bits_bytes(projected, call.formats[form].weight_bits),  # as it is stored; it runs in 16 bits
        attention=AttentionExtents(
            query_heads=heads, kv_heads=1, head_dim=rank + rope, value_head_dim=rank, kv_bits=kv_bits
        ),
    )
    if kv_bits < HALF_BITS:
        # What is projected or absorbed is quantised, and so are probabilities: two operations each.
        moved = heads * (nope + value_dim) if trace == "prefill" else 2 * heads * rank
        work = replace(work, vector_flops=work.vector_flops + 2 * tokens * moved + 2 * scores)
    return work
