"""Work of mixers beyond FLOPs and bytes: padded tiles, and steps in turn for a request or query.

Fits (tools.mixer_kernels) call these functions, too."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import Operator
from evaluator.graph.sums import BatchSums

GATHERED_HEADS, BLOCK_HEADS, ENCODER_DIM = 64, 16, 16
SCAN_CHUNK = 64.0  # tokens that kernels of linear states take at once
CHOSEN_SCORES = 1024.0  # scores that a kernel of choices reads at once
CHANNELS = 100.0  # of a convolution that one compute unit does at once
_SCORE_BYTES, _NUMBER_BYTES = 4.0, 2.0
_SCANS = frozenset({"state_scan", "channel_scan", "space_scan"})
_CHOICES = frozenset({"index_choice", "entry_choice"})
_ENTRIES = frozenset({"entry_attention", "entry_decode"})


def padding_of(operator: Operator) -> float:
    extents = operator.attention
    if extents is None:
        return 1.0
    heads = extents.query_heads
    # Kernels that gather keys take query heads by 64: those of 8 cost three quarters of those of 64 (H200, 2,048
    # keys chosen). Devices with fewer compute and mask the rest.
    if operator.kind == "sparse_attention" or operator.kind in _ENTRIES:
        return -(-heads // GATHERED_HEADS) * GATHERED_HEADS / heads
    # Those of blocks take the query heads of a KV head by 16: 8 of them cost what 16 do (H100, H200).
    if operator.kind in {"block_attention", "block_decode"}:
        return max(1.0, BLOCK_HEADS * extents.kv_heads / heads)
    # Those of encoders take head dimensions by 16: 72 cost what 80 do (H200, B200).
    if operator.kind == "encoder_attention":
        return -(-extents.head_dim // ENCODER_DIM) * ENCODER_DIM / extents.head_dim
    return 1.0


def chained(operator: Operator, sums: BatchSums, units: int) -> FloatArray | float:
    """Steps in turn of each kernel."""
    sequences = np.maximum(sums.sequences, 1.0)
    if operator.kind in _SCANS:
        heads = 1 if operator.attention is None else operator.attention.query_heads
        return scan_chain(sums.tokens / sequences, sequences * heads, units)
    if operator.kind in _CHOICES:
        queries = np.maximum(sums.tokens, 1e-9)
        return choice_chain(operator.bytes_read.at(sums) / _SCORE_BYTES / queries, queries, units)
    if operator.kind in _ENTRIES:  # the kernel of the window reads entries, too: once a query
        return operator.launches * query_chain(sums.tokens, units)
    if operator.kind == "space_convolution":
        return channel_chain(sequences * (float(operator.bytes_read.tokens) / _NUMBER_BYTES), units)
    return 0.0


def scan_chain(tokens: FloatArray, heads: FloatArray, units: int) -> FloatArray:
    """Chunks of a sequence; heads beyond the compute units wait."""
    return np.asarray(np.ceil(tokens / SCAN_CHUNK) * np.maximum(1.0, heads / units))


def choice_chain(scores: FloatArray, queries: FloatArray, units: int) -> FloatArray:
    """Parts of a query's scores, one unit each; queries beyond the units wait."""
    return np.asarray(scores / CHOSEN_SCORES * np.maximum(1.0, queries / units))


def query_chain(queries: FloatArray, units: int) -> FloatArray:
    return np.asarray(np.ceil(queries / units))


def channel_chain(channels: FloatArray, units: int) -> FloatArray:
    return np.asarray(channels / CHANNELS / units)
