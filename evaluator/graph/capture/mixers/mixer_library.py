"""Operators of mixers: shapes only."""

# ruff: noqa: ARG001  kernels on meta need shapes only; their signatures are the schemas'
from __future__ import annotations

from evaluator.graph.capture.library import defined, made
from evaluator.graph.capture.shapes import Tensor


@defined
def index_scores(  # noqa: PLR0917  the schema is positional
    query: Tensor, pairs: int, keys: int, ratio: int, entry_bytes: int, kind: str
) -> None:
    return None


@defined
def block_scores(  # noqa: PLR0917  the schema is positional
    query: Tensor, pairs: int, keys: int, block: int, entry_bytes: int, kind: str
) -> None:
    return None


@defined
def index_choice(like: Tensor, pairs: int, ratio: int, kind: str) -> None:
    return None


@defined
def gathered_attention(  # noqa: PLR0917  the schema is positional
    query: Tensor,
    pairs: int,
    value_head_dim: int,
    window: int,
    entry_bits: int,
    ratio: int,
    sinks: Tensor | None,
    kind: str,
) -> Tensor:
    return made(query, (query.shape[0], query.shape[1], value_head_dim))


@defined
def short_convolution(x: Tensor, weight: Tensor, bias: Tensor | None, sequences: int, kind: str) -> Tensor:
    return made(x, x.shape)


@defined
def delta_state(  # noqa: PLR0917  the schema is positional
    mixed: Tensor, decay: Tensor, sequences: int, key_dim: int, value_dim: int, scan: bool, state_bits: int
) -> Tensor:
    return made(mixed, (mixed.shape[0], decay.shape[1] * value_dim))


@defined
def channel_state(  # noqa: PLR0917  the schema is positional
    mixed: Tensor,
    decays: Tensor,
    weight: Tensor,
    sequences: int,
    key_dim: int,
    value_dim: int,
    scan: bool,
    state_bits: int,
) -> Tensor:
    return made(mixed, (mixed.shape[0], decays.shape[1] // key_dim * value_dim))


@defined
def gated_norm(x: Tensor, gate: Tensor, weight: Tensor) -> Tensor:
    return made(x, x.shape)


@defined
def pool_tokens(both: Tensor, bias: Tensor, weight: Tensor, ratio: int) -> None:
    return None


@defined
def collapse_streams(streams: Tensor, weight: Tensor, bias: Tensor, count: int, rounds: int) -> Tensor:
    return made(streams, (streams.shape[0], streams.shape[1] // count))


@defined
def mix_sums(sums: Tensor, weight: Tensor) -> Tensor:
    return made(sums, (sums.shape[0], weight.shape[1]))


@defined
def expand_streams(streams: Tensor, out: Tensor) -> Tensor:
    return made(streams, streams.shape)


@defined
def space_state(  # noqa: PLR0917  the schema is positional
    mixed: Tensor,
    rates: Tensor,
    sequences: int,
    groups: int,
    head_dim: int,
    state_size: int,
    chunk: int,
    scan: bool,
    state_bits: int,
) -> Tensor:
    return made(mixed, (mixed.shape[0], rates.shape[1] * head_dim))
