"""Prompts of many lengths packed into prefill steps of a token budget, for every batch size and every bin at once.

Prompts stand in bin order, end to end; each step takes the next `token_budget` tokens, so a prompt may be cut and go on
in the next step (upstream's rule for length distributions, reproduced from its printed run; engines with chunked
prefill do the same). Not here: what a step costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluator.sums import BatchSums, FloatArray, concatenated, window_pairs

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

    @property
    def batch(self) -> Integers:
        """The batch that owns each step."""
        return np.repeat(np.arange(self.count.size), self.count)

    @property
    def position(self) -> Integers:
        """Which of its batch's steps each step is, from 0."""
        return np.arange(self.finished.size) - np.repeat(self.first, self.count)

    def head(self, batches: int) -> PackedSteps:
        """The first so many batches, as views."""
        steps = slice(0, int(self.count[:batches].sum()))
        return PackedSteps(
            first=self.first[:batches],
            count=self.count[:batches],
            finished=self.finished[steps],
            sums=taken(self.sums, steps),
        )


def joined(one: PackedSteps, other: PackedSteps) -> PackedSteps:
    """The batches of both, one after the other."""
    return PackedSteps(
        first=np.concatenate((one.first, other.first + one.finished.size)),
        count=np.concatenate((one.count, other.count)),
        finished=np.concatenate((one.finished, other.finished)),
        sums=concatenated([one.sums, other.sums]),
    )


def taken(sums: BatchSums, index: Integers | slice) -> BatchSums:
    """Sums of some batches."""
    return BatchSums(
        tokens=sums.tokens[index],
        sequences=sums.sequences[index],
        pairs=sums.pairs[index],
        keys=sums.keys[index],
        windows=tuple((width, pairs[index], keys[index]) for width, pairs, keys in sums.windows),
    )


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
    cached = np.asarray([kind.cached for kind in kinds], dtype=np.int64)
    ends = np.cumsum(samples * lengths, axis=1)
    starts = ends - samples * lengths
    if first_only:
        starts, ends = np.minimum(starts, token_budget), np.minimum(ends, token_budget)
    count = -(-ends[:, -1] // token_budget)
    first = np.concatenate(([0], np.cumsum(count)[:-1])).astype(np.int64)
    pieces = _pieces(first, starts, ends, token_budget)
    parts = _stretches(pieces, lengths, cached)
    # Pieces stand in the order of their steps, and no step is empty.
    begins = np.flatnonzero(np.diff(pieces.step, prepend=-1))

    def added(values: NDArray[np.int64] | FloatArray) -> FloatArray:
        return np.add.reduceat(values, begins).astype(np.float64)

    sums = BatchSums(
        tokens=added(pieces.high - pieces.low),
        sequences=added(parts.ending + (parts.offset > 0)),
        pairs=added(parts.pairs(None, square=square)),
        keys=added(parts.ending * parts.whole_keys + np.where(parts.offset > 0, parts.cached + parts.offset, 0)),
        windows=tuple(
            (width, added(parts.pairs(width, square=square)), added(parts.window_keys(width))) for width in windows
        ),
    )
    return PackedSteps(first=first, count=count, finished=np.add.reduceat(parts.ending, begins), sums=sums)


@dataclass(frozen=True, slots=True)
class _Pieces:
    """What single steps take of one kind's tokens: from `low` to `high`, counted from the kind's first token."""

    step: Integers
    kind: Integers
    low: Integers
    high: Integers


def _pieces(first: Integers, starts: Integers, ends: Integers, token_budget: int) -> _Pieces:
    row, kind = np.nonzero(ends > starts)
    start, end = starts[row, kind], ends[row, kind]
    from_step, to_step = start // token_budget, (end - 1) // token_budget
    many = to_step - from_step + 1
    owner = np.repeat(np.arange(row.size), many)
    local = from_step[owner] + np.arange(owner.size) - np.repeat(np.cumsum(many) - many, many)
    start, edge = start[owner], local * token_budget
    low = np.maximum(edge, start) - start
    high = np.minimum(edge + token_budget, end[owner]) - start
    return _Pieces(first[row][owner] + local, kind[owner], low, high)


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Of one kind each: `ending` prompts end here, `whole` of them from their start on and perhaps one with its last
    `head` tokens; `rest` tokens are of one more that is cut here at its token `offset`."""

    ending: Integers
    whole: Integers
    head: Integers
    rest: Integers
    offset: Integers
    length: Integers
    cached: Integers

    @property
    def whole_keys(self) -> Integers:
        """Keys a prompt's last token sees."""
        return self.cached + self.length

    def pairs(self, window: int | None, *, square: bool) -> FloatArray:
        """Attended query-key pairs."""
        one = _pairs(self.length, self.cached, window, square=square)
        head = _pairs(self.head, self.whole_keys - self.head, window, square=square)
        rest = _pairs(self.rest, self.cached + self.offset - self.rest, window, square=square)
        return np.asarray(self.whole * one + np.where(self.head > 0, head, 0.0) + np.where(self.rest > 0, rest, 0.0))

    def window_keys(self, window: int) -> FloatArray:
        """Keys read under a sliding window: q + w - 1 at most for q new tokens."""
        one = np.minimum(self.whole_keys, self.length + window - 1)
        head = np.minimum(self.whole_keys, self.head + window - 1)
        rest = np.minimum(self.cached + self.offset, self.rest + window - 1)
        return np.asarray(self.whole * one + np.where(self.head > 0, head, 0) + np.where(self.rest > 0, rest, 0))


def _stretches(pieces: _Pieces, lengths: Integers, cached: Integers) -> _Stretches:
    length = lengths[pieces.kind]
    done_low, offset_low = np.divmod(pieces.low, length)
    done_high, offset_high = np.divmod(pieces.high, length)
    ending = done_high - done_low
    head = np.where((ending > 0) & (offset_low > 0), length - offset_low, 0)  # the end of a prompt cut before
    return _Stretches(
        ending=ending,
        whole=ending - (head > 0),
        head=head,
        # The unfinished prompt began in this step, or was already cut before it.
        rest=np.where(offset_high > 0, offset_high - np.where(ending == 0, offset_low, 0), 0),
        offset=offset_high,
        length=length,
        cached=cached[pieces.kind],
    )


def _pairs(new: Integers, context: Integers, window: int | None, *, square: bool) -> FloatArray:
    tokens, before = new.astype(np.float64), context.astype(np.float64)
    if window is not None:
        return window_pairs(tokens, before, window, square=square)
    rectangle = tokens * (before + tokens)
    return np.asarray(rectangle if square else rectangle - 0.5 * tokens * (tokens - 1.0))
