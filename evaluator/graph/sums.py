"""Four sums decide a step's time: new tokens, rows of logits, attended pairs, keys read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evaluator.arithmetic import FloatArray, dot
from evaluator.inputs.model import Short, Span
from store.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSums:
    """Arrays over many batches. `windows` repeats pairs and keys under each window, negative for chunks.

    `short` repeats sums of requests with at most so many keys."""

    tokens: FloatArray
    sequences: FloatArray
    pairs: FloatArray
    keys: FloatArray
    windows: tuple[tuple[int, FloatArray, FloatArray], ...] = ()
    short: tuple[tuple[Short, FloatArray, FloatArray, FloatArray], ...] = ()

    def within(self, window: int | None) -> BatchSums:
        if window is None:
            return self
        for width, pairs, keys in self.windows:
            if width == window:
                return replace(self, pairs=pairs, keys=keys)
        raise KeyError(window)

    def only(self, short: Short) -> BatchSums:
        for limit, tokens, pairs, keys in self.short:
            if limit == short:
                return BatchSums(tokens=tokens, sequences=self.sequences, pairs=pairs, keys=keys)
        raise KeyError(short)

    def beyond(self, short: Short) -> BatchSums:
        """Sums of the other requests; no window is shorter."""
        few = self.only(short)
        return replace(self, tokens=self.tokens - few.tokens, pairs=self.pairs - few.pairs, keys=self.keys - few.keys)

    def __add__(self, other: BatchSums) -> BatchSums:
        return combined([self, other], lambda arrays: arrays[0] + arrays[1])

    def mapped(self, change: Callable[[FloatArray], FloatArray]) -> BatchSums:
        return combined([self], lambda arrays: change(arrays[0]))


def combined(parts: Sequence[BatchSums], change: Callable[[Sequence[FloatArray]], FloatArray]) -> BatchSums:
    """Windows are those of the first."""
    first = parts[0]
    windows = [[part.within(width) for part in parts] for width, _, _ in first.windows]
    few = [[part.only(short) for part in parts] for short, _, _, _ in first.short]
    return BatchSums(
        tokens=change([part.tokens for part in parts]),
        sequences=change([part.sequences for part in parts]),
        pairs=change([part.pairs for part in parts]),
        keys=change([part.keys for part in parts]),
        windows=tuple(
            (width, change([one.pairs for one in seen]), change([one.keys for one in seen]))
            for (width, _, _), seen in zip(first.windows, windows, strict=True)
        ),
        short=tuple(
            (
                short,
                change([one.tokens for one in seen]),
                change([one.pairs for one in seen]),
                change([one.keys for one in seen]),
            )
            for (short, _, _, _), seen in zip(first.short, few, strict=True)
        ),
    )


def request_sums(
    new_tokens: ArrayLike,
    context: ArrayLike,
    *,
    windows: Sequence[Span] = (),
    square: bool = False,
    logits: ArrayLike = 1.0,
    anywhere: bool = False,
) -> BatchSums:
    """One request's sums: `new_tokens` after `context` cached ones.

    Causal: new token i attends context + i + 1 keys, so pairs = q c + q (q + 1) / 2. `square` counts q x (c + q), as
    upstream does. A window w caps keys a token at w, and keys read at q + w - 1. A chunk is seen from its beginning;
    `anywhere` beyond the first one, half on average."""
    new = np.asarray(new_tokens, dtype=np.float64)
    cached = np.asarray(context, dtype=np.float64)
    everything = cached + new
    rectangle = new * everything
    pairs = rectangle if square else rectangle - 0.5 * new * (new - 1.0)
    return BatchSums(
        tokens=new + 0.0 * cached,
        sequences=np.asarray(logits, dtype=np.float64) + 0.0 * everything,
        pairs=pairs,
        keys=everything,
        windows=tuple(
            (width, window_pairs(new, cached, width, square=square), window_keys(new, cached, width))
            if width > 0 or not anywhere
            else (width, *_somewhere(new, cached, -width))
            for width in windows
            if isinstance(width, int)
        ),
        short=tuple(
            (short, *_kept(everything <= short.keys, new, pairs, everything))
            for short in windows
            if isinstance(short, Short)
        ),
    )


def _kept(
    chosen: NDArray[np.bool_], tokens: FloatArray, pairs: FloatArray, keys: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    return np.where(chosen, tokens, 0.0), np.where(chosen, pairs, 0.0), np.where(chosen, keys, 0.0)


def _somewhere(new: FloatArray, cached: FloatArray, chunk: int) -> tuple[FloatArray, FloatArray]:
    """Averaged over places in a chunk beyond the first."""
    first = cached + new <= chunk
    pairs = np.where(first, window_pairs(new, cached, -chunk, square=False), 0.5 * (chunk + 1.0) * new)
    return np.asarray(pairs), np.asarray(np.where(first, cached + new, new + 0.5 * (chunk - 1.0)))


def window_keys(new: FloatArray, cached: FloatArray, window: int) -> FloatArray:
    # 4 tokens after 10 cached ones, window 8: 4 + 8 - 1 = 11 of the 14 keys; chunks of 8: the third and fourth, 6.
    if window < 0:
        return np.asarray(new + np.mod(cached, -window))
    return np.asarray(np.minimum(cached + new, new + window - 1.0))


def window_pairs(new: FloatArray, cached: FloatArray, window: int, *, square: bool) -> FloatArray:
    """A token attends its last `window` keys, or its chunk."""
    if square:
        return new * np.minimum(cached + new, abs(window))
    if window < 0:
        return _chunked(cached + new, -window) - _chunked(cached, -window)
    # Tokens whose whole past still fits the window attend cached + i + 1 keys, the others attend the window.
    growing = np.clip(window - cached, 0.0, new)
    return np.asarray(growing * cached + 0.5 * growing * (growing + 1.0) + (new - growing) * window)


def _chunked(tokens: FloatArray, chunk: int) -> FloatArray:
    whole = np.floor(tokens / chunk)
    rest = tokens - whole * chunk
    return np.asarray(0.5 * whole * chunk * (chunk + 1.0) + 0.5 * rest * (rest + 1.0))


def repeated(sums: BatchSums, requests: ArrayLike) -> BatchSums:
    """Linear, so shares of requests work, too."""
    number = np.asarray(requests, dtype=np.float64)
    return sums.mapped(lambda array: number * array)


def composed(samples: ArrayLike, sums: BatchSums) -> BatchSums:
    """`samples[i, j]` requests of kind j (columns of `sums`)."""
    counts = np.asarray(samples, dtype=np.float64)
    return sums.mapped(lambda array: dot(counts, array))


def concatenated(parts: Sequence[BatchSums]) -> BatchSums:
    return combined(parts, np.concatenate)
