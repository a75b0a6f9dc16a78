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
    """The steps of batches that hold `samples[i, j]` prompts of kind j; with `first_only` the first step of each.

    Only the edges of steps are looked at: what lies between two of them is a difference of running totals."""
    line = _Line(samples, kinds)
    tokens = np.minimum(line.total, token_budget) if first_only else line.total
    count = -(-tokens // token_budget)
    first = np.concatenate(([0], np.cumsum(count)[:-1])).astype(np.int64)
    row = np.repeat(np.arange(count.size), count)
    begin = (np.arange(row.size) - np.repeat(first, count)) * token_budget
    end = np.minimum(begin + token_budget, line.total[row])
    after = line.cut(row, end)
    steps = _Steps.between(line, after.shifted(first), after)
    keys = line.between(line.keys, steps.before, steps.after)
    sums = BatchSums(
        tokens=(end - begin).astype(np.float64),
        sequences=(steps.finished + (steps.after.offset > 0)).astype(np.float64),
        pairs=steps.pairs(line, None, square=square),
        keys=keys + np.where(steps.after.offset > 0, line.cached[steps.after.kind] + steps.after.offset, 0),
        windows=tuple(
            (width, steps.pairs(line, width, square=square), steps.window_keys(line, width)) for width in windows
        ),
    )
    return PackedSteps(first=first, count=count, finished=steps.finished, sums=sums)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Places in the lines of prompts: after `done` prompts of `kind` and `offset` tokens of the next one. `cell` is
    that of the row and kind in a table of them."""

    cell: Integers
    kind: Integers
    done: Integers
    offset: Integers

    def shifted(self, first: Integers) -> _Cut:
        """The cuts before these: each step begins where the one before it ended, the `first` of a row at its start."""
        kinds = np.roll(self.kind, 1), np.roll(self.done, 1), np.roll(self.offset, 1)
        for values in kinds:
            values[first] = 0
        cell = np.roll(self.cell, 1)
        cell[first] = self.cell[first] - self.kind[first]
        return _Cut(cell, *kinds)


class _Line:
    """The prompts of each batch (rows) end to end, in the order of their kinds."""

    def __init__(self, samples: Integers, kinds: tuple[PromptKind, ...]) -> None:
        self.samples = samples
        self.length = np.asarray([kind.new_tokens for kind in kinds], dtype=np.int64)
        self.cached = np.asarray([kind.cached for kind in kinds], dtype=np.int64)
        self.keys = self.cached + self.length  # those the last token of a prompt sees
        self._tokens = samples * self.length
        self._ends = np.cumsum(self._tokens, axis=1)
        self.total = self._ends[:, -1]

    def cut(self, row: Integers, token: Integers) -> _Cut:
        """What stands before a token of each of these rows, both ascending."""
        base, kinds = np.cumsum(self.total) - self.total, self.length.size
        found = np.searchsorted((self._ends + base[:, None]).ravel(), token + base[row], side="right")
        cell = np.minimum(found, row * kinds + kinds - 1)
        kind = cell - row * kinds
        length = self.length[kind]
        into = token - (self._ends - self._tokens).ravel()[cell]
        done = into // length
        return _Cut(cell, kind, done, into - done * length)

    def between(self, of_one: NDArray[np.int64] | FloatArray, before: _Cut, after: _Cut) -> FloatArray:
        """A quantity of prompts, `of_one` of each kind, added up over those that end between two cuts."""
        each = of_one.astype(np.float64)
        added = self.samples * each
        earlier = (np.cumsum(added, axis=1) - added).ravel()
        start, end = (earlier[cut.cell] + cut.done * each[cut.kind] for cut in (before, after))
        return np.asarray(end - start)


@dataclass(frozen=True, slots=True)
class _Steps:
    """Stretches between two cuts. `finished` prompts end there, one of them perhaps with its last `head` tokens only;
    `rest` tokens are of a prompt that goes on after them."""

    before: _Cut
    after: _Cut
    finished: Integers
    head: Integers
    rest: Integers

    @classmethod
    def between(cls, line: _Line, before: _Cut, after: _Cut) -> _Steps:
        """The stretches from one cut to another."""
        finished = line.between(np.ones_like(line.length), before, after).astype(np.int64)
        begun = before.offset > 0
        head = np.where(begun & (finished > 0), line.length[before.kind] - before.offset, 0)
        return cls(before, after, finished, head, after.offset - np.where(finished == 0, before.offset, 0))

    def pairs(self, line: _Line, window: int | None, *, square: bool) -> FloatArray:
        """Attended query-key pairs."""
        one = _pairs(line.length, line.cached, window, square=square)
        keys = line.keys[self.before.kind]
        head = _pairs(self.head, keys - self.head, window, square=square) - one[self.before.kind]
        context = line.cached[self.after.kind] + self.after.offset - self.rest
        rest = _pairs(self.rest, context, window, square=square)
        return line.between(one, self.before, self.after) + np.where(self.head > 0, head, 0.0) + rest

    def window_keys(self, line: _Line, window: int) -> FloatArray:
        """Keys read under a sliding window: q + w - 1 at most for q new tokens."""
        one = np.minimum(line.keys, line.length + window - 1)
        head = np.minimum(line.keys[self.before.kind], self.head + window - 1) - one[self.before.kind]
        rest = np.minimum(line.cached[self.after.kind] + self.after.offset, self.rest + window - 1)
        whole = line.between(one, self.before, self.after)
        return whole + np.where(self.head > 0, head, 0) + np.where(self.rest > 0, rest, 0)


def _pairs(new: Integers, context: Integers, window: int | None, *, square: bool) -> FloatArray:
    tokens, before = new.astype(np.float64), context.astype(np.float64)
    if window is not None:
        return window_pairs(tokens, before, window, square=square)
    rectangle = tokens * (before + tokens)
    return np.asarray(rectangle if square else rectangle - 0.5 * tokens * (tokens - 1.0))
