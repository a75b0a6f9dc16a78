"""The four sums that decide the time of a step: new tokens, rows of logits, attended pairs, keys read.

Not here: where lengths come from (workloads, compositions)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from evaluator.arithmetic import FloatArray, dot


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSums:
    """Four sums of each of many batches (arrays that broadcast). `windows` repeats pairs and keys under each sliding
    window; a width below zero is a chunk of as many tokens, beyond whose beginning nothing is seen."""

    tokens: FloatArray
    sequences: FloatArray
    pairs: FloatArray
    keys: FloatArray
    windows: tuple[tuple[int, FloatArray, FloatArray], ...] = ()

    def within(self, window: int | None) -> BatchSums:
        """The sums as a layer with this sliding window sees them."""
        if window is None:
            return self
        for width, pairs, keys in self.windows:
            if width == window:
                return BatchSums(
                    tokens=self.tokens, sequences=self.sequences, pairs=pairs, keys=keys, windows=self.windows
                )
        raise KeyError(window)

    def __add__(self, other: BatchSums) -> BatchSums:
        """The sums of the packed batch that holds both."""
        return BatchSums(
            tokens=self.tokens + other.tokens,
            sequences=self.sequences + other.sequences,
            pairs=self.pairs + other.pairs,
            keys=self.keys + other.keys,
            windows=tuple(
                (width, pairs + other.within(width).pairs, keys + other.within(width).keys)
                for width, pairs, keys in self.windows
            ),
        )


def request_sums(
    new_tokens: ArrayLike,
    context: ArrayLike,
    *,
    windows: Sequence[int] = (),
    square: bool = False,
    logits: ArrayLike = 1.0,
    anywhere: bool = False,
) -> BatchSums:
    """Sums of one request that adds `new_tokens` after `context` tokens in the cache, for arrays of such requests.

    Causal: token i of the new ones attends context + i + 1 keys, so pairs = q c + q (q + 1) / 2. `square` counts the
    whole q x (c + q) rectangle instead, as upstream does. A window w caps the keys a token attends at w, and the keys
    read at q + w - 1. A chunk of w tokens is seen from its beginning; by a request that is `anywhere` beyond its first
    chunk, half of one on average: requests of a decode step are spread."""
    new = np.asarray(new_tokens, dtype=np.float64)
    cached = np.asarray(context, dtype=np.float64)
    everything = cached + new
    rectangle = new * everything
    return BatchSums(
        tokens=new + 0.0 * cached,
        sequences=np.asarray(logits, dtype=np.float64) + 0.0 * everything,
        pairs=rectangle if square else rectangle - 0.5 * new * (new - 1.0),
        keys=everything,
        windows=tuple(
            (width, window_pairs(new, cached, width, square=square), window_keys(new, cached, width))
            if width > 0 or not anywhere
            else (width, *_somewhere(new, cached, -width))
            for width in windows
        ),
    )


def _somewhere(new: FloatArray, cached: FloatArray, chunk: int) -> tuple[FloatArray, FloatArray]:
    """Pairs and keys of a few tokens, averaged over their place in a chunk beyond the first one."""
    first = cached + new <= chunk
    pairs = np.where(first, window_pairs(new, cached, -chunk, square=False), 0.5 * (chunk + 1.0) * new)
    return np.asarray(pairs), np.asarray(np.where(first, cached + new, new + 0.5 * (chunk - 1.0)))


def window_keys(new: FloatArray, cached: FloatArray, window: int) -> FloatArray:
    """Keys that `new` tokens after `cached` ones read under a sliding window, or from the beginning of their chunk."""
    # 4 tokens after 10 cached ones, window 8: 4 + 8 - 1 = 11 of the 14 keys; chunks of 8: the third and fourth, 6.
    if window < 0:
        return np.asarray(new + np.mod(cached, -window))
    return np.asarray(np.minimum(cached + new, new + window - 1.0))


def window_pairs(new: FloatArray, cached: FloatArray, window: int, *, square: bool) -> FloatArray:
    """Pairs of `new` tokens after `cached` ones when a token attends at most the last `window` keys, or its chunk."""
    if square:
        return new * np.minimum(cached + new, abs(window))
    if window < 0:
        return _chunked(cached + new, -window) - _chunked(cached, -window)
    # Tokens whose whole past still fits the window attend cached + i + 1 keys, the others attend the window.
    growing = np.clip(window - cached, 0.0, new)
    return np.asarray(growing * cached + 0.5 * growing * (growing + 1.0) + (new - growing) * window)


def _chunked(tokens: FloatArray, chunk: int) -> FloatArray:
    """Pairs of the first `tokens` tokens of a request within chunks."""
    whole = np.floor(tokens / chunk)
    rest = tokens - whole * chunk
    return np.asarray(0.5 * whole * chunk * (chunk + 1.0) + 0.5 * rest * (rest + 1.0))


def repeated(sums: BatchSums, requests: ArrayLike) -> BatchSums:
    """Batches of `requests` equal requests (or shares of requests: the sums are linear in them)."""
    number = np.asarray(requests, dtype=np.float64)
    return BatchSums(
        tokens=number * sums.tokens,
        sequences=number * sums.sequences,
        pairs=number * sums.pairs,
        keys=number * sums.keys,
        windows=tuple((width, number * pairs, number * keys) for width, pairs, keys in sums.windows),
    )


def composed(samples: ArrayLike, sums: BatchSums) -> BatchSums:
    """Batches that hold `samples[i, j]` requests of kind j (columns of `sums`)."""
    counts = np.asarray(samples, dtype=np.float64)

    return BatchSums(
        tokens=dot(counts, sums.tokens),
        sequences=dot(counts, sums.sequences),
        pairs=dot(counts, sums.pairs),
        keys=dot(counts, sums.keys),
        windows=tuple((width, dot(counts, pairs), dot(counts, keys)) for width, pairs, keys in sums.windows),
    )


def concatenated(parts: Sequence[BatchSums]) -> BatchSums:
    """Batches of several one-dimensional sums in a row."""
    return BatchSums(
        tokens=np.concatenate([part.tokens for part in parts]),
        sequences=np.concatenate([part.sequences for part in parts]),
        pairs=np.concatenate([part.pairs for part in parts]),
        keys=np.concatenate([part.keys for part in parts]),
        windows=tuple(
            (
                width,
                np.concatenate([part.within(width).pairs for part in parts]),
                np.concatenate([part.within(width).keys for part in parts]),
            )
            for width, _, _ in parts[0].windows
        ),
    )
