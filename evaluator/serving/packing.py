"""Prompts of many lengths packed into prefill steps of a token budget, for every batch size at once.

Prompts stand in bin order, end to end; each step takes the next `token_budget` tokens, so a prompt may be cut and go on
in the next step (upstream's rule for length distributions, reproduced from its printed run; engines with chunked
prefill do the same). Not here: what a step costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluator.sums import BatchSums, FloatArray, window_pairs

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptKind:
    """Prompts of one bin: tokens to prefill after `cached` tokens that the prefix cache holds."""

    new_tokens: int
    cached: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedSteps:
    """All steps of all batches in a row: batch i owns those from `first[i]` on, `count[i]` many.

    `finished` prompts get their last token in a step; `sums` are those of the step."""

    first: Integers
    count: Integers
    finished: Integers
    sums: BatchSums


def pack(
    samples: Integers,
    kinds: tuple[PromptKind, ...],
    token_budget: int,
    *,
    windows: tuple[int, ...] = (),
    square: bool = False,
    first_only: bool = False,
) -> PackedSteps:
    """The steps of batches that hold `samples[i, j]` prompts of kind j; with `first_only` the first step of each."""
    lengths = np.asarray([kind.new_tokens for kind in kinds], dtype=np.int64)
    ends = np.cumsum(samples * lengths, axis=1)
    starts = ends - samples * lengths
    if first_only:
        starts, ends = np.minimum(starts, token_budget), np.minimum(ends, token_budget)
    count = -(-ends[:, -1] // token_budget)
    first = np.concatenate(([0], np.cumsum(count)[:-1])).astype(np.int64)
    steps = _Accumulator(int(count.sum()), windows)
    for index, kind in enumerate(kinds):
        steps.add(_pieces(first, starts[:, index], ends[:, index], token_budget), kind, square=square)
    return PackedSteps(first=first, count=count, finished=steps.finished, sums=steps.sums())


@dataclass(frozen=True, slots=True)
class _Pieces:
    """What single steps take of one kind's tokens: from `low` to `high`, counted from the kind's first token."""

    step: Integers
    low: Integers
    high: Integers


def _pieces(first: Integers, start: Integers, end: Integers, token_budget: int) -> _Pieces:
    present = np.flatnonzero(end > start)
    start, end, first = start[present], end[present], first[present]
    from_step, to_step = start // token_budget, (end - 1) // token_budget
    many = to_step - from_step + 1
    owner = np.repeat(np.arange(present.size), many)
    local = from_step[owner] + np.arange(owner.size) - np.repeat(np.cumsum(many) - many, many)
    low = np.maximum(local * token_budget, start[owner]) - start[owner]
    high = np.minimum((local + 1) * token_budget, end[owner]) - start[owner]
    return _Pieces(first[owner] + local, low, high)


class _Accumulator:
    """The four sums of every step, added up kind by kind."""

    def __init__(self, steps: int, windows: tuple[int, ...]) -> None:
        self._windows = windows
        self._tokens, self._sequences, self._pairs, self._keys = (np.zeros(steps) for _ in range(4))
        self._window_pairs = [np.zeros(steps) for _ in windows]
        self._window_keys = [np.zeros(steps) for _ in windows]
        self.finished = np.zeros(steps, dtype=np.int64)

    def add(self, pieces: _Pieces, kind: PromptKind, *, square: bool) -> None:
        """Add one kind's pieces; a step holds at most one stretch of a kind."""
        length, cached = kind.new_tokens, kind.cached
        done_low, offset_low = np.divmod(pieces.low, length)
        done_high, offset_high = np.divmod(pieces.high, length)
        ending = done_high - done_low
        unfinished = offset_high > 0
        step = pieces.step
        # The unfinished prompt began in this step, or was already cut before it.
        rest = np.where(unfinished, offset_high - np.where(ending == 0, offset_low, 0), 0)
        head = np.where((ending > 0) & (offset_low > 0), length - offset_low, 0)  # the end of a prompt cut before
        whole = ending - (head > 0)
        self._tokens[step] += pieces.high - pieces.low
        self._sequences[step] += ending + unfinished
        self._keys[step] += ending * (cached + length) + unfinished * (cached + offset_high)
        self.finished[step] += ending
        parts = _Stretch(whole, head, rest, offset_high, kind)
        self._pairs[step] += parts.pairs(None, square=square)
        for index, width in enumerate(self._windows):
            self._window_pairs[index][step] += parts.pairs(width, square=square)
            self._window_keys[index][step] += parts.keys(width)

    def sums(self) -> BatchSums:
        """What has been added."""
        return BatchSums(
            tokens=self._tokens,
            sequences=self._sequences,
            pairs=self._pairs,
            keys=self._keys,
            windows=tuple(zip(self._windows, self._window_pairs, self._window_keys, strict=True)),
        )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Whole prompts, the last `head` tokens of one, and `rest` tokens of another that ends at token `offset`."""

    whole: Integers
    head: Integers
    rest: Integers
    offset: Integers
    kind: PromptKind

    def pairs(self, window: int | None, *, square: bool) -> FloatArray:
        """Attended query-key pairs."""
        length = self.kind.new_tokens
        one = _pairs(np.asarray(length), self.kind.cached, window, square=square)
        head = _pairs(self.head, self.kind.cached + length - self.head, window, square=square)
        rest = _pairs(self.rest, self.kind.cached + self.offset - self.rest, window, square=square)
        return np.asarray(self.whole * one + np.where(self.head > 0, head, 0.0) + np.where(self.rest > 0, rest, 0.0))

    def keys(self, window: int) -> FloatArray:
        """Keys read under a sliding window: q + w - 1 at most for q new tokens."""
        length, cached = self.kind.new_tokens, self.kind.cached
        one = min(cached + length, length + window - 1)
        head = np.minimum(cached + length, self.head + window - 1)
        rest = np.minimum(cached + self.offset, self.rest + window - 1)
        return np.asarray(self.whole * float(one) + np.where(self.head > 0, head, 0) + np.where(self.rest > 0, rest, 0))


def _pairs(new: Integers, context: Integers | int, window: int | None, *, square: bool) -> FloatArray:
    tokens, before = np.asarray(new, dtype=np.float64), np.asarray(context, dtype=np.float64)
    if window is not None:
        return window_pairs(tokens, before, window, square=square)
    rectangle = tokens * (before + tokens)
    return np.asarray(rectangle if square else rectangle - 0.5 * tokens * (tokens - 1.0))
