"""FLOPs and bytes of mixers (mixer_library)."""

from __future__ import annotations

from fractions import Fraction

from evaluator.graph.capture.formulas import SOFTMAX_FLOPS_PER_SCORE, Call, Work, bits_bytes, formula, moved, size_bytes
from evaluator.graph.operators import AttentionExtents, Rational

_SCORE_BYTES = 4


def _whole(value: Fraction) -> Rational:
    return value.numerator if value.denominator == 1 else value


@formula("index_scores")
def _index_scores(call: Call) -> Work:
    """Products of every index head in FP8, cut off at zero, weighted and added.

    DeepSeek-V3.2 (2025), section 2.1, equation 1. Each key is read once. Left out: that scores are written in whole
    tiles."""
    query, pairs, keys, ratio, entry_bytes, kind = call.args
    heads, width = query.shape[1:]
    seen = _whole(Fraction(pairs, ratio))
    return Work(
        kind=kind,
        matrix_flops=2 * heads * width * seen,
        matrix_dtype="fp8" if query.dtype == 1 else "bf16",
        vector_flops=3 * heads * seen,
        bytes_read=size_bytes(query) + _whole(Fraction(keys * entry_bytes, ratio)),
        bytes_written=_SCORE_BYTES * seen,
    )


@formula("block_scores")
def _block_scores(call: Call) -> Work:
    """Scores of each key by index head, and each block's largest (MiniMax-M3). In 16 bits."""
    query, pairs, keys, block, entry_bytes, kind = call.args
    heads, width = query.shape[1:]
    return Work(
        kind=kind,
        matrix_flops=2 * heads * width * pairs,
        vector_flops=heads * pairs,
        bytes_read=size_bytes(query) + entry_bytes * keys,
        bytes_written=_whole(Fraction(_SCORE_BYTES * heads * pairs, block)),
    )


@formula("index_choice")
def _index_choice(call: Call) -> Work:
    _, pairs, ratio, kind = call.args
    seen = _whole(Fraction(pairs, ratio))
    return Work(kind=kind, vector_flops=seen, bytes_read=_SCORE_BYTES * seen)


@formula("gathered_attention")
def _gathered_attention(call: Call) -> Work:
    """Every query gathers its own entries, so an entry is read again for each.

    An entry covers `ratio` tokens, and its first part is the value. Left out: reuse in caches, and the last tokens of
    a request, which form no entry yet."""
    query, pairs, value_dim, window, entry_bits, ratio, sinks, kind = call.args
    heads, width = query.shape[1:]
    seen = _whole(Fraction(pairs, ratio))
    return Work(
        kind=kind,
        launches=1 if ratio == 1 else 0,
        matrix_flops=2 * heads * (width + value_dim) * seen,
        vector_flops=SOFTMAX_FLOPS_PER_SCORE * heads * seen,
        bytes_read=(size_bytes(query) if ratio == 1 else 0) + seen * bits_bytes(1, entry_bits),
        bytes_written=size_bytes(call.result) if ratio == 1 else 0,
        weight_bytes=size_bytes(sinks),
        attention=AttentionExtents(
            query_heads=heads,
            kv_heads=1,
            head_dim=width,
            value_head_dim=value_dim,
            window=window or None,
            kv_bits=16,
            sinks=sinks is not None,
        ),
    )


SCAN_CHUNK = 64


@formula("short_convolution")
def _short_convolution(call: Call) -> Work:
    """Over each channel's last few tokens, then an activation.

    A sequence keeps the tokens that the next step needs."""
    x, weight, bias, sequences, kind = call.args
    width = weight.shape[1]
    kept = size_bytes(x[:1]) * (width - 1) * sequences
    return Work(
        kind=kind,
        vector_flops=(2 * width + 4) * x.numel(),
        bytes_read=size_bytes(x, weight, bias) + kept,
        bytes_written=size_bytes(call.result) + kept,
        weight_bytes=size_bytes(weight, bias),
    )


@formula("delta_state")
def _delta_state(call: Call) -> Work:
    """Chunks of 64 tokens (scan), or token by token.

    Yang et al. 2024, Gated Delta Networks (arXiv 2412.06464), section 3.3. Of a token and head in a chunk of C: keys
    with keys and queries, and the inverse of the former applied to both (4 C k + 2 C v + 2 C (k + v)), and three
    products with the k x v state (6 k v). Tiles are whole. Left out: padding to chunks. Token by token 7 k v on the
    vector unit: decay, read, difference, update, read."""
    mixed, decay, sequences, key_dim, value_dim, scan, state_bits = call.args
    tokens, heads = mixed.shape[0], decay.shape[1]
    state = key_dim * value_dim
    moved = bits_bytes(heads * state * sequences, state_bits)
    return Work(
        kind="state_scan" if scan else "state_update",
        matrix_flops=tokens * heads * _scanned(key_dim, value_dim) if scan else 0,
        vector_flops=0 if scan else 7 * tokens * heads * state,
        bytes_read=size_bytes(mixed, decay) + moved,
        bytes_written=size_bytes(call.result) + moved,
        weight_bytes=size_bytes(decay),
        attention=AttentionExtents(query_heads=heads, kv_heads=heads, head_dim=key_dim, value_head_dim=value_dim),
    )


def _scanned(key_dim: int, value_dim: int) -> int:
    chunk = 4 * SCAN_CHUNK * key_dim + 2 * SCAN_CHUNK * value_dim + 2 * SCAN_CHUNK * (key_dim + value_dim)
    return chunk + 6 * key_dim * value_dim


@formula("channel_state")
def _channel_state(call: Call) -> Work:
    """The same products, with keys and queries scaled by decays of each channel.

    Kimi Team 2025, Kimi Linear (arXiv 2510.26692), sections 3.1 and 3.2. Left out: padding to chunks, and that decays
    are scaled within smaller ones."""
    mixed, decays, weight, sequences, key_dim, value_dim, scan, state_bits = call.args
    tokens, heads = mixed.shape[0], decays.shape[1] // key_dim
    state = key_dim * value_dim
    moved = bits_bytes(heads * state * sequences, state_bits)
    return Work(
        kind="channel_scan" if scan else "channel_update",
        matrix_flops=tokens * heads * _scanned(key_dim, value_dim) if scan else 0,
        vector_flops=0 if scan else 7 * tokens * heads * state,
        bytes_read=size_bytes(mixed, decays, weight) + moved,
        bytes_written=size_bytes(call.result) + moved,
        weight_bytes=size_bytes(weight),
        attention=AttentionExtents(query_heads=heads, kv_heads=heads, head_dim=key_dim, value_head_dim=value_dim),
    )


@formula("gated_norm")
def _gated_norm(call: Call) -> Work:
    x, gate, weight = call.args
    return moved("norm", call, x, gate, weight, flops=9 * x.numel(), weight=weight)


@formula("pool_tokens")
def _pool_tokens(call: Call) -> Work:
    """A softmax over an entry's tokens, and the norm of their weighted sum, in 16 bits."""
    both, bias, weight, ratio = call.args
    tokens, width = both.shape[0], weight.shape[0]
    return Work(
        kind="elementwise",
        vector_flops=6 * both.numel(),
        bytes_read=size_bytes(both, bias, weight),
        bytes_written=_whole(Fraction(2 * tokens * width, ratio)),
        weight_bytes=size_bytes(bias, weight),
    )


@formula("collapse_streams")
def _collapse_streams(call: Call) -> Work:
    """A norm over all streams, a narrow product, Sinkhorn's rounds, and a weighted sum.

    Xie et al. 2026, manifold-constrained hyper-connections, as in DeepSeek-V4. Streams are read twice, since weights
    come from the first reading. Left out: that product and weights are in 32 bits."""
    streams, weight, bias, count, rounds = call.args
    tokens, outputs = streams.shape[0], weight.shape[0]
    return Work(
        kind="stream_collapse",
        matrix_flops=2 * streams.numel() * outputs,
        vector_flops=6 * streams.numel() + tokens * (4 * outputs + 4 * rounds * count * count),
        bytes_read=size_bytes(streams, streams, weight, bias),
        bytes_written=size_bytes(call.result) + 4 * tokens * outputs,
        weight_bytes=size_bytes(weight, bias),
    )


@formula("mix_sums")
def _mix_sums(call: Call) -> Work:
    """Norms and scores of the sums, a softmax over them, and a weighted sum.

    Kimi Team 2026, Attention Residuals, block form. Sums are read twice, as streams are."""
    sums, weight = call.args
    return moved("stream_collapse", call, sums, sums, weight, flops=8 * sums.numel(), weight=weight)


@formula("expand_streams")
def _expand_streams(call: Call) -> Work:
    streams, out = call.args
    count = streams.shape[1] // out.shape[1]
    return moved("stream_expand", call, streams, out, flops=2 * (count + 1) * streams.numel())


@formula("space_state")
def _space_state(call: Call) -> Work:
    """Chunks (scan), or token by token.

    Dao and Gu 2024, Transformers are SSMs (arXiv 2405.21060), section 6. Of a token in a chunk of C: scores in each
    group (2 C N), and of each head their sum of values (2 C d), the state's part and its update (4 d N). Tiles are
    whole; padding is left out. Token by token 5 d N a head on the vector unit."""
    mixed, rates, sequences, groups, head_dim, state_size, chunk, scan, state_bits = call.args
    tokens, heads = mixed.shape[0], rates.shape[1]
    state = head_dim * state_size
    moved = bits_bytes(heads * state * sequences, state_bits)
    return Work(
        kind="space_scan" if scan else "space_update",
        matrix_flops=tokens * (groups * 2 * chunk * state_size + heads * (2 * chunk * head_dim + 4 * state))
        if scan
        else 0,
        vector_flops=0 if scan else 5 * tokens * heads * state,
        bytes_read=size_bytes(mixed, rates) + moved,
        bytes_written=size_bytes(call.result) + moved,
        weight_bytes=size_bytes(rates),
        attention=AttentionExtents(query_heads=heads, kv_heads=groups, head_dim=state_size, value_head_dim=head_dim),
    )
