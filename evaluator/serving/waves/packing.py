"""Prompts of many lengths packed into prefill steps of a token budget, for all batch sizes and bins at once.

A batch holds requests by the largest remainder over the bins.

Prompts stand in bin order, end to end; each step takes the next `token_budget` tokens, so a prompt may be cut and go on
in the next step (upstream's rule for length distributions, reproduced from its printed run; engines with chunked
prefill do the same)."""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import FloatArray, Integers
from evaluator.graph.sums import BatchSums, concatenated, window_keys, window_pairs
from evaluator.inputs.model import Short, Span
from store.light_dataclass import dataclass

_Number = TypeVar("_Number", np.int64, np.float64)


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
        return np.repeat(np.arange(self.count.size), self.count)

    @property
    def position(self) -> Integers:
        return np.arange(self.finished.size) - np.repeat(self.first, self.count)

    def head(self, batches: int) -> PackedSteps:
        steps = slice(0, int(self.count[:batches].sum()))
        return PackedSteps(
            first=self.first[:batches],
            count=self.count[:batches],
            finished=self.finished[steps],
            sums=taken(self.sums, steps),
        )


def joined(one: PackedSteps, other: PackedSteps) -> PackedSteps:
    return PackedSteps(
        first=np.concatenate((one.first, other.first + one.finished.size)),
        count=np.concatenate((one.count, other.count)),
        finished=np.concatenate((one.finished, other.finished)),
        sums=concatenated([one.sums, other.sums]),
    )


def taken(sums: BatchSums, index: Integers | slice) -> BatchSums:
    return sums.mapped(lambda array: array[index])


def pack(
    samples: Integers,
    kinds: tuple[PromptKind, ...],
    token_budget: int,
    *,
    windows: tuple[Span, ...] = (),
    square: bool = False,
    first_only: bool = False,
) -> PackedSteps:
    """The steps of batches that hold `samples[i, j]` prompts of kind j; with `first_only` the first step of each.

    Only the edges of steps are looked at: what lies between two of them is a difference of running totals."""
    line = _Line(samples, kinds)
    tokens = np.minimum(line.total, token_budget) if first_only else line.total
    count = -(-tokens // token_budget)
    first = np.concatenate(([0], np.cumsum(count)[:-1])).astype(np.int64)
    row = np.repeat(np.arange(count.size), count)
    begin = (np.arange(row.size) - np.repeat(first, count)) * token_budget
    end = np.minimum(begin + token_budget, line.total[row])
    steps = _Steps(line, first, row, end)
    sums = BatchSums(
        tokens=(end - begin).astype(np.float64),
        sequences=(steps.finished + (steps.offset > 0)).astype(np.float64),
        pairs=steps.pairs(None, square=square),
        keys=steps.total(line.keys) + np.where(steps.offset > 0, line.cached[steps.kind] + steps.offset, 0),
        windows=tuple(
            (width, steps.pairs(width, square=square), steps.window_keys(width))
            for width in windows
            if isinstance(width, int)
        ),
        short=tuple((short, *steps.of_short(short.keys)) for short in windows if isinstance(short, Short)),
    )
    return PackedSteps(first=first, count=count, finished=steps.finished, sums=sums)


class _Line:
    def __init__(self, samples: Integers, kinds: tuple[PromptKind, ...]) -> None:
        self.samples = samples
        self.length = np.asarray([kind.new_tokens for kind in kinds], dtype=np.int64)
        self.cached = np.asarray([kind.cached for kind in kinds], dtype=np.int64)
        self.keys = self.cached + self.length  # those the last token of a prompt sees
        self.tokens = samples * self.length
        self.ends = np.cumsum(self.tokens, axis=1)
        self.total = self.ends[:, -1]


class _Steps:
    """Steps that end before these tokens of their rows, each beginning where the one before it ended.

    The steps `first` begin a row. Up to the end of a step stand `done` prompts of `kind` and `offset` tokens of the
    next one. `finished` prompts end in a step, one of them perhaps with its last `head` tokens only; `rest` tokens are
    of a prompt that goes on after it."""

    def __init__(self, line: _Line, first: Integers, row: Integers, end: Integers) -> None:
        self._line, self._first = line, first
        base, kinds = np.cumsum(line.total) - line.total, line.length.size
        found = np.searchsorted((line.ends + base[:, None]).ravel(), end + base[row], side="right")
        self._cell = np.minimum(found, row * kinds + kinds - 1)
        self.kind = self._cell - row * kinds
        into = end - (line.ends - line.tokens).ravel()[self._cell]
        self._done = into // line.length[self.kind]
        self.offset = into - self._done * line.length[self.kind]
        self.finished = self.total(np.ones_like(line.length)).astype(np.int64)
        self._kind_before, offset_before = self._before(self.kind), self._before(self.offset)
        cut = (offset_before > 0) & (self.finished > 0)
        self._head = np.where(cut, line.length[self._kind_before] - offset_before, 0)
        self._rest = self.offset - np.where(self.finished == 0, offset_before, 0)

    def total(self, of_one: NDArray[np.int64] | FloatArray) -> FloatArray:
        each = of_one.astype(np.float64)
        added = self._line.samples * each
        earlier = (np.cumsum(added, axis=1) - added).ravel()
        until = earlier[self._cell] + self._done * each[self.kind]
        return np.asarray(until - self._before(until))

    def pairs(self, window: int | None, *, square: bool) -> FloatArray:
        line = self._line
        # A prompt of 6 tokens cut after 4: 1 + 2 + 3 + 4 = 10 pairs in one step, 5 + 6 = 11 in the next.
        one = _pairs(line.length, line.cached, window, square=square)
        head = _pairs(self._head, line.keys[self._kind_before] - self._head, window, square=square)
        rest = _pairs(self._rest, line.cached[self.kind] + self.offset - self._rest, window, square=square)
        return self.total(one) + np.where(self._head > 0, head - one[self._kind_before], 0.0) + rest

    def window_keys(self, window: int) -> FloatArray:
        line = self._line
        one = _keys(line.length, line.cached, window)
        before = self._kind_before
        head = _keys(self._head, line.keys[before] - self._head, window) - one[before]
        rest = _keys(self._rest, line.cached[self.kind] + self.offset - self._rest, window)
        return self.total(one) + np.where(self._head > 0, head, 0) + np.where(self._rest > 0, rest, 0)

    def of_short(self, keys: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        line, before = self._line, self._kind_before
        head, head_cached = self._head, line.keys[before] - self._head
        rest, rest_cached = self._rest, line.cached[self.kind] + self.offset - self._rest
        one = _of_short(line.length, line.cached, keys)
        cut, going = _of_short(head, head_cached, keys), _of_short(rest, rest_cached, keys)
        tokens, pairs, read = (
            self.total(whole) + np.where(head > 0, piece - whole[before], 0.0) + np.where(rest > 0, last, 0.0)
            for whole, piece, last in zip(one, cut, going, strict=True)
        )
        return tokens, pairs, read

    def _before(self, values: NDArray[_Number]) -> NDArray[_Number]:
        before = np.empty_like(values)
        before[1:] = values[:-1]
        before[self._first] = 0
        return before


def _keys(new: Integers, context: Integers, window: int) -> FloatArray:
    return window_keys(new.astype(np.float64), context.astype(np.float64), window)


def _pairs(new: Integers, context: Integers, window: int | None, *, square: bool) -> FloatArray:
    tokens, before = new.astype(np.float64), context.astype(np.float64)
    if window is not None:
        return window_pairs(tokens, before, window, square=square)
    # 4 tokens after 10: 11 + 12 + 13 + 14 = 4 x 14 - 6 = 50; square 56.
    rectangle = tokens * (before + tokens)
    return np.asarray(rectangle if square else rectangle - 0.5 * tokens * (tokens - 1.0))


def _of_short(new: Integers, context: Integers, keys: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    few = (context + new <= keys).astype(np.float64)
    return few * new, few * _pairs(new, context, None, square=False), few * (context + new)


Ties = Literal["first", "last"]
# 0.1 x 30 is 3.0000000000000004 in binary: compare remainders at a grain far above rounding, far below a request.
_GRAIN_DIGITS = 9
_GRAINS = 10**_GRAIN_DIGITS


def largest_remainder(batch_sizes: Integers, weights: NDArray[np.float64], *, ties: Ties = "first") -> Integers:
    """Requests of each bin (columns) in a batch of each size (rows): floors first, then the largest remainders.

    Seed 002, 4.3. Equal remainders go to the first bin, or to the last as upstream does (bins ascend in length)."""
    sizes = np.asarray(batch_sizes, dtype=np.int64)
    # 10 requests, weights 1/4, 1/4, 1/2: 2.5, 2.5 and 5 become 3, 2 and 5, or upstream's 2, 3 and 5.
    ideal = np.round(sizes.astype(np.float64)[:, None] * (weights / weights.sum()), _GRAIN_DIGITS)
    floors = np.floor(ideal)
    samples = floors.astype(np.int64)
    missing = sizes - samples.sum(axis=1)
    # One whole number a bin, the wanted ones lowest: larger remainders, then the tie rule. All differ within a row.
    bins = weights.size
    order = np.arange(bins) if ties == "first" else np.arange(bins)[::-1]
    wanted = order - np.rint((ideal - floors) * _GRAINS).astype(np.int64) * bins
    last = np.take_along_axis(np.sort(wanted, axis=1), np.maximum(missing - 1, 0)[:, None], axis=1)
    return np.asarray(samples + ((wanted <= last) & (missing > 0)[:, None]), dtype=np.int64)


def realised_mean(samples: Integers, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray((samples * lengths).sum(axis=1) / samples.sum(axis=1))
