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
    window."""

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
) -> BatchSums:
    """Sums of one request that adds `new_tokens` after `context` tokens in the cache, for arrays of such requests.

    Causal: token i of the new ones attends context + i + 1 keys, so pairs = q c + q (q + 1) / 2. `square` counts the
    whole q x (c + q) rectangle instead, as upstream does. A window w caps the keys a token attends at w, and the keys
    read at q + w - 1."""
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
            (width, window_pairs(new, cached, width, square=square), np.minimum(everything, new + width - 1.0))
            for width in windows
        ),
    )


def window_pairs(new: FloatArray, cached: FloatArray, window: int, *, square: bool) -> FloatArray:
    """Pairs of `new` tokens after `cached` ones when a token attends at most the last `window` keys."""
    if square:
        return new * np.minimum(cached + new, window)
    # Tokens whose whole past still fits the window attend cached + i + 1 keys, the others attend the window.
    growing = np.clip(window - cached, 0.0, new)
    return np.asarray(growing * cached + 0.5 * growing * (growing + 1.0) + (new - growing) * window)


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
