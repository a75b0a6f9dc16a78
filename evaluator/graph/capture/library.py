"""Operators of blocks: shapes of results, nothing computed. What an operator reads, its formula names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from evaluator.graph.capture.shapes import Kind, Tensor

operators = SimpleNamespace()  # every operator by its name: what blocks call
taking: ContextVar[Callable[[str, tuple[Any, ...], object], None]] = ContextVar("taking")  # of the trace that runs


def defined(kernel: Callable[..., object], names: str = "") -> Callable[..., object]:
    """An operator of each of these names, else of its own, whose calls go to the trace."""
    for name in names.split() or [kernel.__name__]:
        setattr(operators, name, functools.partial(_taken, name, kernel))
    return kernel


def _taken(name: str, kernel: Callable[..., object], *args: object) -> object:
    result = kernel(*args)
    taking.get()(name, args, result)
    return result


def made(like: Tensor, shape: Sequence[int], dtype: Kind | None = None) -> Tensor:
    return Tensor(shape, dtype or like.dtype)


def _as_first(x: Tensor, *_: object) -> Tensor:
    return made(x, x.shape)


def _bytes_like(x: Tensor, *_: object) -> Tensor:
    # Quantised activations: one byte an element whatever the format; formulas count their true bits.
    return made(x, x.shape, dtype=Kind.INT8)


def _rows_of(table: Tensor, places: Tensor) -> Tensor:
    return made(table, (places.shape[0], table.shape[1]))


def _best_of(scores: Tensor, chosen: int) -> tuple[Tensor, Tensor]:
    shape = (scores.shape[0], chosen)
    return made(scores, shape), made(scores, shape, dtype=Kind.INT64)


def _repeated(x: Tensor, chosen: int) -> Tensor:
    return made(x, (x.shape[0] * chosen, x.shape[1]))


def _values_of(query: Tensor, value_head_dim: int, dtype: Kind | None = None) -> Tensor:
    return made(query, (query.shape[0], query.shape[1], value_head_dim), dtype)


# Small operators of eager graphs, norms, what is sent, and streams; the last of them are upstream's alone.
defined(
    _as_first,
    "scale norm unpermute_tokens all_reduce send short_convolution gated_norm expand_streams"
    " pad undealt copied fill overwrite",
)
defined(_bytes_like, "norm_quantise quantise")
defined(_rows_of, "embed read_rope_table gather_rows held_rows")
defined(_best_of, "choose route")
defined(_repeated, "permute_tokens dealt")
defined(lambda *_: None, "write_cache index_scores block_scores index_choice pool_tokens")
defined(lambda inputs, _: _as_first(inputs[0]), "pointwise")
defined(lambda x, like: made(x, x.shape, dtype=like.dtype), "cast weighted")
defined(lambda x, rows: made(x, (rows, x.shape[1])), "select_rows")
defined(lambda x, *_: (made(x, x.shape), made(x, x.shape)), "add_norm")
defined(lambda x, *_: (_bytes_like(x), made(x, x.shape)), "add_norm_quantise")
defined(lambda query, key, *_: (made(query, query.shape), made(key, key.shape)), "rope")
defined(lambda values, chosen: made(values, (values.shape[0], chosen)), "picked")
defined(lambda x, group, _: made(x, (x.shape[0] // group, *x.shape[1:])), "reduce_scatter")
defined(lambda x, rows, *_: made(x, (rows, *x.shape[1:])), "all_to_all")
# Products, whose results are in 16 bits, or in 32 upstream.
defined(lambda x, weight, *_: made(x, (x.shape[0], weight.shape[0]), dtype=Kind.BF16), "linear")
defined(lambda x, weight: made(x, (x.shape[0], weight.shape[0]), dtype=Kind.FP32), "wide_linear")
defined(lambda x, weight, _: made(x, (x.shape[0], weight.shape[0], weight.shape[2]), dtype=Kind.BF16), "heads_product")
defined(lambda rows, weight, *_: made(rows, (rows.shape[0], weight.shape[1]), dtype=Kind.BF16), "grouped_linear")
defined(lambda gate_up: made(gate_up, (gate_up.shape[0], gate_up.shape[1] // 2)), "gated_activation")
defined(lambda rows, weights: made(rows, (weights.shape[0], rows.shape[1])), "combine_tokens")
# Attention and states.
defined(lambda keys, width, like, _: made(like, (keys, width)), "read_latent")
defined(lambda query, _pairs, _keys, _heads, _width, value, *_: _values_of(query, value), "attention")
defined(lambda query, _pairs, value, *_: _values_of(query, value), "gathered_attention")
defined(
    lambda query, _pairs, _keys, _sequences, _heads, _width, value, *_: _values_of(query, value, Kind.BF16),
    "indexed_attention",
)
defined(lambda query, _pairs, _keys, _sequences, _rank, _rope, value, *_: _values_of(query, value), "latent_core")
defined(lambda x, _weight, _compressed, _scales, width, *_: made(x, (x.shape[0], width)), "latent_projections")
defined(lambda x, decay, _sequences, _keys, value, *_: made(x, (x.shape[0], decay.shape[1] * value)), "delta_state")
defined(
    lambda x, decays, _weight, _sequences, key, value, *_: made(x, (x.shape[0], decays.shape[1] // key * value)),
    "channel_state",
)
defined(
    lambda x, rates, _sequences, _groups, width, *_: made(x, (x.shape[0], rates.shape[1] * width)),
    "space_state",
)
defined(
    lambda streams, _weight, _bias, count, _: made(streams, (streams.shape[0], streams.shape[1] // count)),
    "collapse_streams",
)
defined(lambda sums, weight: made(sums, (sums.shape[0], weight.shape[1])), "mix_sums")


@defined
def reduce(x: Tensor, dim: int, keep: bool, _: str) -> Tensor:
    shape = list(x.shape)
    shape[dim : dim + 1] = [1] if keep else []
    return made(x, shape)


@defined
def join(parts: list[Tensor], dim: int) -> Tensor:
    shape = list(parts[0].shape)
    shape[dim] = sum(part.shape[dim] for part in parts)
    return made(parts[0], shape)


@defined
def all_gather(x: Tensor, dim: int, group: int, _: int) -> Tensor:
    shape = list(x.shape)
    shape[dim] *= group
    return made(x, shape)
