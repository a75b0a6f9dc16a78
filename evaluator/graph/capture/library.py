"""Operators of blocks: shapes of results, nothing computed."""

# ruff: noqa: ARG001  what has no contents needs shapes only
from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from evaluator.graph.capture.shapes import Kind, Tensor

operators = SimpleNamespace()  # every operator by its name: what blocks call
taking: ContextVar[Callable[[str, tuple[Any, ...], object], None]] = ContextVar("taking")  # of the trace that runs


def defined(kernel: Callable[..., object]) -> Callable[..., object]:
    """An operator of that name and arguments, whose calls go to the trace."""
    name = kernel.__name__

    @functools.wraps(kernel)
    def call(*args: object) -> object:
        result = kernel(*args)
        taking.get()(name, args, result)
        return result

    setattr(operators, name, call)
    return kernel


def made(like: Tensor, shape: Sequence[int], dtype: Kind | None = None) -> Tensor:
    return Tensor(shape, dtype or like.dtype)


def _bytes_like(x: Tensor) -> Tensor:
    # Quantised activations: one byte an element whatever the format; formulas count their true bits.
    return made(x, x.shape, dtype=Kind.INT8)


# Small operators of eager graphs and residual adds.


@defined
def pointwise(inputs: list[Tensor], name: str) -> Tensor:
    return made(inputs[0], inputs[0].shape)


@defined
def reduce(x: Tensor, dim: int, keep: bool, name: str) -> Tensor:
    shape = list(x.shape)
    shape[dim : dim + 1] = [1] if keep else []
    return made(x, shape)


@defined
def cast(x: Tensor, like: Tensor) -> Tensor:
    return made(x, x.shape, dtype=like.dtype)


@defined
def join(parts: list[Tensor], dim: int) -> Tensor:
    shape = list(parts[0].shape)
    shape[dim] = sum(part.shape[dim] for part in parts)
    return made(parts[0], shape)


@defined
def choose(scores: Tensor, chosen: int) -> tuple[Tensor, Tensor]:
    shape = (scores.shape[0], chosen)
    return made(scores, shape), made(scores, shape, dtype=Kind.INT64)


@defined
def embed(table: Tensor, ids: Tensor) -> Tensor:
    return made(table, (ids.shape[0], table.shape[1]))


@defined
def read_rope_table(table: Tensor, positions: Tensor) -> Tensor:
    return made(table, (positions.shape[0], table.shape[1]))


@defined
def gather_rows(table: Tensor, positions: Tensor) -> Tensor:
    return made(table, (positions.shape[0], table.shape[1]))


@defined
def scale(x: Tensor, weight: Tensor) -> Tensor:
    return made(x, x.shape)


@defined
def select_rows(x: Tensor, rows: int) -> Tensor:
    return made(x, (rows, x.shape[1]))


@defined
def norm(x: Tensor, weight: Tensor) -> Tensor:
    return made(x, x.shape)


@defined
def norm_quantise(x: Tensor, weight: Tensor, bits: int) -> Tensor:
    return _bytes_like(x)


@defined
def add_norm(x: Tensor, residual: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    return made(x, x.shape), made(x, x.shape)


@defined
def add_norm_quantise(x: Tensor, residual: Tensor, weight: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    return _bytes_like(x), made(x, x.shape)


@defined
def quantise(x: Tensor, bits: int) -> Tensor:
    return _bytes_like(x)


@defined
def linear(x: Tensor, weight: Tensor, bias: Tensor | None, form: str, shared: bool) -> Tensor:
    return made(x, (x.shape[0], weight.shape[0]), dtype=Kind.BF16)


@defined
def heads_product(x: Tensor, weight: Tensor, form: str) -> Tensor:
    return made(x, (x.shape[0], weight.shape[0], weight.shape[2]), dtype=Kind.BF16)


@defined
def gated_activation(gate_up: Tensor) -> Tensor:
    return made(gate_up, (gate_up.shape[0], gate_up.shape[1] // 2))


@defined
def rope(query: Tensor, key: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor]:
    return made(query, query.shape), made(key, key.shape)


@defined
def write_cache(entries: list[Tensor], bits: int) -> None:
    return None


@defined
def read_latent(keys: int, width: int, like: Tensor, bits: int) -> Tensor:
    return made(like, (keys, width))


@defined
def attention(  # noqa: PLR0917  the schema is positional
    query: Tensor,
    pairs: int,
    keys: int,
    kv_heads: int,
    head_dim: int,
    value_head_dim: int,
    window: int,
    kv_bits: int,
    sinks: bool,
    alibi: bool,
    form: str,
) -> Tensor:
    return made(query, (query.shape[0], query.shape[1], value_head_dim))


@defined
def route(logits: Tensor, chosen: int) -> tuple[Tensor, Tensor]:
    shape = (logits.shape[0], chosen)
    return made(logits, shape), made(logits, shape, dtype=Kind.INT64)


@defined
def permute_tokens(x: Tensor, chosen: int) -> Tensor:
    return made(x, (x.shape[0] * chosen, x.shape[1]))


@defined
def combine_tokens(rows: Tensor, weights: Tensor) -> Tensor:
    return made(rows, (weights.shape[0], rows.shape[1]))


@defined
def unpermute_tokens(rows: Tensor) -> Tensor:
    return made(rows, rows.shape)


@defined
def grouped_linear(rows: Tensor, weight: Tensor, bias: Tensor | None, form: str, role: str) -> Tensor:
    return made(rows, (rows.shape[0], weight.shape[1]), dtype=Kind.BF16)


@defined
def all_reduce(x: Tensor, group: int, stride: int) -> Tensor:
    return made(x, x.shape)


@defined
def all_gather(x: Tensor, dim: int, group: int, stride: int) -> Tensor:
    shape = list(x.shape)
    shape[dim] *= group
    return made(x, shape)


@defined
def reduce_scatter(x: Tensor, group: int, stride: int) -> Tensor:
    return made(x, (x.shape[0] // group, *x.shape[1:]))


@defined
def all_to_all(x: Tensor, rows: int, group: int, stride: int) -> Tensor:
    return made(x, (rows, *x.shape[1:]))


# What only upstream's graphs have.


@defined
def pad(x: Tensor) -> Tensor:
    return made(x, x.shape)


@defined
def dealt(x: Tensor, chosen: int) -> Tensor:
    return made(x, (x.shape[0] * chosen, x.shape[1]))


@defined
def undealt(rows: Tensor) -> Tensor:
    return made(rows, rows.shape)


@defined
def held_rows(table: Tensor, positions: Tensor) -> Tensor:
    return made(table, (positions.shape[0], table.shape[1]))


@defined
def copied(x: Tensor) -> Tensor:
    return made(x, x.shape)


@defined
def fill(like: Tensor) -> Tensor:
    return made(like, like.shape)


@defined
def overwrite(x: Tensor) -> Tensor:
    return made(x, x.shape)


@defined
def picked(values: Tensor, chosen: int) -> Tensor:
    return made(values, (values.shape[0], chosen))


@defined
def weighted(x: Tensor, weights: Tensor) -> Tensor:
    return made(x, x.shape, dtype=weights.dtype)


@defined
def wide_linear(x: Tensor, weight: Tensor) -> Tensor:
    return made(x, (x.shape[0], weight.shape[0]), dtype=Kind.FP32)


@defined
def indexed_attention(  # noqa: PLR0917  the schema is positional
    query: Tensor,
    pairs: int,
    keys: int,
    sequences: int,
    kv_heads: int,
    head_dim: int,
    value_head_dim: int,
    window: int,
    kv_dtype: str,
    extra: int,
    form: str,
) -> Tensor:
    return made(query, (query.shape[0], query.shape[1], value_head_dim), dtype=Kind.BF16)


@defined
def latent_projections(  # noqa: PLR0917  the schema is positional
    x: Tensor,
    weight: Tensor,
    compressed: Tensor,
    scales: Tensor,
    query_width: int,
    down: int,
    heads: int,
    rope: int,
    form: str,
) -> Tensor:
    return made(x, (x.shape[0], query_width))


@defined
def latent_core(  # noqa: PLR0917  the schema is positional
    query: Tensor,
    pairs: int,
    keys: int,
    sequences: int,
    rank: int,
    rope: int,
    value_head_dim: int,
    kv_bits: int,
    form: str,
    trace: str,
) -> Tensor:
    return made(query, (query.shape[0], query.shape[1], value_head_dim))


@defined
def send(x: Tensor, stride: int) -> Tensor:
    return made(x, x.shape)
