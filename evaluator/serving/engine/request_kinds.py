"""Requests of a workload by kind of length, and the order in which users ask them: pure, the same on every machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import groupby
from math import fsum

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from store.light_dataclass import dataclass

SEED = 20_240_601
SHUFFLED_TOGETHER = 16  # requests: below, neighbours are too even; above, ten requests miss the mean
SHORTEST_ORDER = 1024
WEIGHT_DIGITS = 12  # two halves of a bin are the bin, whatever their sum in binary


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class RequestKind:
    """Requests of one length: tokens to prefill after `cached` ones of the prefix cache, and tokens to generate."""

    new_tokens: int
    cached: int = 0
    output_length: float = 1.0
    weight: float = 1.0


def merged(kinds: Iterable[RequestKind]) -> tuple[RequestKind, ...]:
    """The kinds in the order of their lengths, equal ones as one, with weights that sum to 1.

    Bins in any order give the same kinds."""
    ordered = sorted(kinds)
    total = fsum(kind.weight for kind in ordered)
    together = groupby(ordered, key=lambda kind: replace(kind, weight=1.0))
    return tuple(
        replace(kind, weight=round(fsum(one.weight for one in alike) / total, WEIGHT_DIGITS))
        for kind, alike in together
    )


def weights_of(kinds: Sequence[RequestKind]) -> FloatArray:
    weights = np.asarray([kind.weight for kind in kinds], dtype=np.float64)
    return np.asarray(weights / weights.sum())


def even_order(kinds: tuple[RequestKind, ...], count: int) -> Integers:
    """The kind of each of the first `count` requests, of which every beginning is close to the whole."""
    return _even_order(kinds, _rounded_up(count))[:count]


def shuffled_order(kinds: tuple[RequestKind, ...], count: int) -> Integers:
    """The even order, shuffled within small groups: as random as a client's, with the means of the distribution."""
    return _shuffled_order(kinds, _rounded_up(count))[:count]


def _rounded_up(count: int) -> int:
    size = SHORTEST_ORDER
    while size < count:
        size *= 2
    return size


@lru_cache(maxsize=16)
def _even_order(kinds: tuple[RequestKind, ...], count: int) -> Integers:
    """Herding: the next kind is the one that leaves the least error of the counts, prompt tokens and output tokens.

    Source: Welling 2009, Herding dynamical weights to learn; errors stay bounded, so means converge as 1 / n. With
    e the error of the requests so far, kind k adds x_k - mean: |e + x_k|^2 = |e|^2 + 2 e x_k + |x_k|^2, and e x_k is
    carried from request to request by the products of two kinds."""
    weights = weights_of(kinds)
    products = np.diag(np.ones(weights.size)) - weights - weights[:, None] + (weights * weights).sum()
    for values in ([kind.new_tokens + kind.cached for kind in kinds], [kind.output_length for kind in kinds]):
        away = np.asarray(values, dtype=np.float64)
        away = away - (weights * away).sum()
        variance = float((weights * away * away).sum())
        if variance > 0.0:
            products = products + away * away[:, None] / variance
    # Weights 3/4 and 1/4: kinds 0 0 1 0 0 0 1 0 ...
    error = np.diagonal(products) / 2.0
    order = np.empty(count, dtype=np.int64)
    for number in range(count):
        kind = int(error.argmin())
        order[number] = kind
        error = error + products[kind]
    order.setflags(write=False)
    return order


@lru_cache(maxsize=16)
def _shuffled_order(kinds: tuple[RequestKind, ...], count: int) -> Integers:
    places = np.lexsort((_uniform(SEED + 1, count), np.arange(count) // SHUFFLED_TOGETHER))
    order = _even_order(kinds, count)[places]
    order.setflags(write=False)
    return order


@lru_cache(maxsize=32)
def _uniform(seed: int, count: int) -> FloatArray:
    # Seeded by a list as Python's `random` seeds itself: the same numbers, all at once.
    numbers = np.random.RandomState([seed]).random_sample(count)
    numbers.setflags(write=False)
    return numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Kind, tokens to prefill and tokens to generate of each request, in the order in which they are asked."""

    kind: Integers
    new_tokens: Integers
    output_length: Integers


@lru_cache(maxsize=64)
def requests_of(kinds: tuple[RequestKind, ...], shortest: float, count: int) -> Requests:
    """The first `count` requests: a fixed seed, each length uniform in [shortest, 1] of its kind's."""
    order = np.zeros(count, dtype=np.int64) if len(kinds) == 1 else shuffled_order(kinds, count)
    prompts = np.asarray([kind.new_tokens for kind in kinds], dtype=np.int64)[order]
    outputs = np.rint([kind.output_length for kind in kinds]).astype(np.int64)[order]
    if shortest < 1.0:
        both = _uniform(SEED, _rounded_up(2 * count))
        prompts, outputs = (
            _shortened(prompts, shortest, both[:count]),
            _shortened(outputs, shortest, both[count:][:count]),
        )
    return Requests(kind=order, new_tokens=prompts, output_length=outputs)


def _shortened(lengths: Integers, shortest: float, uniform: FloatArray) -> Integers:
    # 1,000 tokens, shortest 0.8, a random 0.25: 1,000 x (0.8 + 0.2 x 0.25) = 850.
    drawn = np.rint(lengths * (shortest + (1.0 - shortest) * uniform))
    return np.asarray(np.maximum(drawn, 1.0), dtype=np.int64)
