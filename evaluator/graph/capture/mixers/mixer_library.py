"""Operators of sparse attention, with meta kernels only. Not here: their cost (mixer_formulas)."""

# ruff: noqa: ARG001  kernels on meta need shapes only; their signatures are the schemas'
from __future__ import annotations

from torch import Tensor

from evaluator.graph.capture.library import defined


@defined("index_scores(Tensor query, int pairs, int keys, int ratio) -> ()")
def index_scores(query: Tensor, pairs: int, keys: int, ratio: int) -> None:
    return None


@defined("index_choice(Tensor like, int pairs, int ratio) -> ()")
def index_choice(like: Tensor, pairs: int, ratio: int) -> None:
    return None


@defined(
    "gathered_attention(Tensor query, int pairs, int value_head_dim, int window, int entry_bits, int ratio) -> Tensor"
)
def gathered_attention(  # noqa: PLR0917  the schema is positional
    query: Tensor, pairs: int, value_head_dim: int, window: int, entry_bits: int, ratio: int
) -> Tensor:
    return query.new_empty((query.shape[0], query.shape[1], value_head_dim))
