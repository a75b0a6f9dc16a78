"""Seconds of forward steps over many batches, by kind, and the slowest pipeline stage.

Operators are priced once per distinct number of tokens (or logits); only attention sees every batch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import Operator, OperatorSet
from evaluator.graph.sums import BatchSums
from evaluator.pricing.cost_model import KINDS, CostModel, KindSeconds, PricesTogether
from evaluator.pricing.micro_batches import LEAST_TOKENS, Parts, hidden, layers_of
from evaluator.pricing.occurrence import operator_seconds
from evaluator.same_objects import SameObjects
from store.light_dataclass import dataclass

_ELEMENTS_AT_ONCE = 16_384  # what stays in a core's cache while attention is priced
_BATCHES_TOGETHER = 1_024  # up to here calls cost more than arithmetic
_TOO_FEW_TO_SORT = 256  # below, pricing every element costs less than finding equal ones


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTimes:
    """By kind (first axis, as cost_model.KINDS) and batch; the slowest stage alone."""

    kinds: FloatArray
    slowest_stage: FloatArray

    @property
    def total(self) -> FloatArray:
        return np.asarray(self.kinds.sum(axis=0))

    def __add__(self, other: StepTimes) -> StepTimes:
        return StepTimes(kinds=self.kinds + other.kinds, slowest_stage=self.slowest_stage + other.slowest_stage)

    def scaled(self, factor: FloatArray | float) -> StepTimes:
        return StepTimes(kinds=self.kinds * factor, slowest_stage=self.slowest_stage * factor)


Beside = tuple[OperatorSet, BatchSums] | None  # operators that run in the same step over sums of their own


def step_seconds(operator_set: OperatorSet, cost: CostModel, sums: BatchSums, *, beside: Beside = None) -> StepTimes:
    """All batches are of this trace; one or two dimensions."""
    if operator_set.micro_batches > 1:
        times = halved_seconds([(operator_set.operators, sums)], cost, LEAST_TOKENS[operator_set.trace])
        return times if beside is None else times + _seconds(_also(beside), 1, cost)
    return _seconds([(operator_set.operators, sums), *_also(beside)], operator_set.stages, cost)


def _also(beside: Beside) -> list[tuple[Sequence[Operator], BatchSums]]:
    return [] if beside is None else [(beside[0].operators, beside[1])]


def halved_seconds(parts: Parts, cost: CostModel, least: int) -> StepTimes:
    """Below `least` tokens a step is not halved. A pipeline has one stage."""
    whole = _seconds(parts, 1, cost)
    rest, layers = layers_of(parts)
    kinds, saved = _seconds(rest, 1, cost).kinds, np.zeros_like(whole.slowest_stage)
    for layer in layers:
        times = [_seconds(part, 1, cost) for part in layer.by_part()]
        kinds = kinds + 2.0 * sum(time.kinds for time in times)
        saved = saved + hidden(*(time.total for time in times))
    exchanged = kinds[KINDS.index("communication")] - saved
    kinds[KINDS.index("communication")] = np.maximum(exchanged, 0.0)
    kinds[KINDS.index("overhead")] += np.minimum(exchanged, 0.0)
    split = np.broadcast_to(np.asarray(parts[0][1].tokens) >= least, saved.shape)
    kinds = np.where(split, kinds, whole.kinds)
    return StepTimes(kinds=kinds, slowest_stage=np.asarray(kinds.sum(axis=0)))


def draft_seconds(operator_set: OperatorSet, cost: CostModel, sums: BatchSums) -> StepTimes:
    return _seconds([(operator_set.draft_operators, sums)], operator_set.stages, cost)


def mixed_step_seconds(
    prefill_set: OperatorSet,
    decode_set: OperatorSet,
    cost: CostModel,
    prefills: BatchSums,
    decodes: BatchSums,
    *,
    beside: Beside = None,
) -> StepTimes:
    """Prefills and decodes are packed except for attention, launched apart.

    Kamath et al., "POD-Attention", 2024, section 2: engines run prefill and decode attention in turn."""
    packed, prefilling = _by_phase(prefill_set.operators)
    _, decoding = _by_phase(decode_set.operators)
    parts = [(packed, prefills + decodes), (prefilling, prefills), (decoding, decodes)]
    if prefill_set.micro_batches > 1:
        times = halved_seconds(parts, cost, LEAST_TOKENS["prefill"])
        return times if beside is None else times + _seconds(_also(beside), 1, cost)
    return _seconds([*parts, *_also(beside)], prefill_set.stages, cost)


def mixed_stage_seconds(
    prefill_set: OperatorSet,
    decode_set: OperatorSet,
    cost: CostModel,
    prefills: BatchSums,
    decodes: BatchSums,
    *,
    index: NDArray[np.int64],
) -> FloatArray:
    """The slowest stage of step i: prefills i and decodes `index[i]`.

    As mixed_step_seconds, for many steps that share few decode batches."""
    if prefill_set.micro_batches > 1:
        chosen = decodes.mapped(lambda array: array[index])
        return mixed_step_seconds(prefill_set, decode_set, cost, prefills, chosen).slowest_stage
    stages = prefill_set.stages
    packed, prefilling = _by_phase(prefill_set.operators)
    _, decoding = _by_phase(decode_set.operators)
    nothing = np.zeros(1)
    together = BatchSums(
        tokens=prefills.tokens + decodes.tokens[index],
        sequences=prefills.sequences + decodes.sequences[index],
        pairs=nothing,
        keys=nothing,
    )
    seconds = _stage_seconds(prefilling, stages, prefills, cost)
    seconds += _stage_seconds(decoding, stages, decodes, cost).take(index, axis=1)
    for tabulated in _Part(packed, _as_matrix(together), stages, cost).tabulated:
        seconds += tabulated.by_stage()
    return np.asarray(seconds.max(axis=0))


@SameObjects
def _by_phase(operators: tuple[Operator, ...]) -> tuple[tuple[Operator, ...], tuple[Operator, ...]]:
    apart = tuple(operator for operator in operators if operator.per_phase)
    return tuple(operator for operator in operators if not operator.per_phase), apart


def _stage_seconds(operators: tuple[Operator, ...], stages: int, sums: BatchSums, cost: CostModel) -> FloatArray:
    part = _Part(operators, _as_matrix(sums), stages, cost)
    seconds = np.empty((stages, sums.tokens.size))
    for start in range(0, sums.tokens.size, _ELEMENTS_AT_ONCE):
        block = slice(start, min(start + _ELEMENTS_AT_ONCE, sums.tokens.size))
        table = _Table((block.stop - start, 1), stages)
        part.add_to(table, block)
        seconds[:, block] = table.by_stage()[..., 0]
    return seconds


def _seconds(parts: Parts, stages: int, cost: CostModel) -> StepTimes:
    arrays = [array for _, sums in parts for array in (sums.tokens, sums.sequences, sums.pairs, sums.keys)]
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    rows, columns = (*shape, 1, 1)[:2] if len(shape) < 2 else (int(np.prod(shape[:-1])), shape[-1])
    priced = [_Part(operators, _as_matrix(sums), stages, cost) for operators, sums in parts]
    kinds, slowest = np.empty((len(KINDS), rows, columns)), np.empty((rows, columns))
    at_once = max(1, _ELEMENTS_AT_ONCE // columns)
    for start in range(0, rows, at_once):
        block = slice(start, min(start + at_once, rows))
        table = _Table((block.stop - start, columns), stages)
        for part in priced:
            part.add_to(table, block)
        kinds[:, block] = table.kinds
        slowest[block] = table.slowest_stage()
    return StepTimes(kinds=kinds.reshape((len(KINDS), *shape)), slowest_stage=slowest.reshape(shape))


class _Table:
    def __init__(self, shape: tuple[int, ...], stages: int) -> None:
        self.kinds = np.zeros((len(KINDS), *shape))
        self.stages = np.zeros((stages, *shape)) if stages > 1 else None

    def add(self, operator: Operator, seconds: KindSeconds, active: FloatArray | None) -> None:
        whole: FloatArray | float = 0.0
        for index, kind in enumerate(KINDS):
            part = getattr(seconds, kind)
            if part is None:
                continue
            one = part if active is None else part * active
            self.kinds[index] += one * float(operator.count)
            if self.stages is not None:
                whole = whole + one
        if self.stages is not None:
            for stage, count in enumerate(operator.counts):
                self.stages[stage] += whole * float(count)

    def add_together(
        self, operators: tuple[Operator, ...], cost: PricesTogether, values: FloatArray, active: FloatArray | None
    ) -> None:
        """Operators of one extent, to the bit as `add` one by one.

        A single value is priced twice: einsum sums one column in another order than several."""
        extent = values.reshape(-1) if values.size > 1 else np.repeat(values, 2)
        counts, everywhere = _counts(operators)
        seconds = cost.plain_seconds(operators, extent)
        shape, gate = self.kinds.shape[1:], 1.0 if active is None else active
        kinds = np.einsum("kob,o->kb", seconds, everywhere)[:, : values.size]
        self.kinds += kinds.reshape((-1, *shape)) * gate
        if self.stages is not None:
            stages = np.einsum("ob,os->sb", seconds.sum(axis=0), counts)[:, : values.size]
            self.stages += stages.reshape((-1, *shape)) * gate

    def by_stage(self) -> FloatArray:
        return self.kinds.sum(axis=0)[None] if self.stages is None else self.stages

    def slowest_stage(self) -> FloatArray:
        return np.asarray(self.kinds.sum(axis=0) if self.stages is None else self.stages.max(axis=0))


@dataclass(frozen=True, slots=True)
class _Alike:
    """Of one extent: those priced together, and the rest."""

    by_tokens: bool  # else by rows of logits
    plain: tuple[Operator, ...]
    others: tuple[Operator, ...]


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Attention apart from operators of one extent."""

    attention: tuple[Operator, ...]
    alike: tuple[_Alike, ...]


def _sorted_anew(operators: Sequence[Operator]) -> _Sorted:
    attention = tuple(operator for operator in operators if operator.driver == "attention")
    alike = []
    for by_tokens, drivers in ((True, {"tokens", "constant"}), (False, {"sequences"})):
        chosen = [operator for operator in operators if operator.driver in drivers]
        plain = tuple(operator for operator in chosen if _is_plain(operator))
        others = tuple(operator for operator in chosen if not _is_plain(operator))
        if chosen:
            alike.append(_Alike(by_tokens, plain, others))
    return _Sorted(attention, tuple(alike))


@SameObjects
def _sorted(operators: tuple[Operator, ...]) -> _Sorted:
    return _sorted_anew(operators)


class _Part:
    """Prices operators of one extent once per distinct value."""

    def __init__(self, operators: Sequence[Operator], sums: BatchSums, stages: int, cost: CostModel) -> None:
        self._sums, self._cost = sums, cost
        # Tuples are those of an operator set, which come again; lists are made for one call.
        ordered = _sorted(operators) if isinstance(operators, tuple) else _sorted_anew(operators)
        self._attention = ordered.attention
        self.tabulated = [
            _Tabulated(alike, sums.tokens if alike.by_tokens else sums.sequences, stages, cost)
            for alike in ordered.alike
        ]

    def add_to(self, table: _Table, block: slice) -> None:
        for tabulated in self.tabulated:
            tabulated.add_to(table, block)
        if not self._attention:
            return
        seen = self._sums.mapped(lambda array: array[block] if array.shape[0] > 1 else array)
        active = None if seen.tokens.all() else (seen.tokens > 0).astype(np.float64)
        for operator in self._attention:
            table.add(operator, operator_seconds(operator, self._cost, seen), active)


class _Tabulated:
    """Priced at the distinct values of tokens (or logits)."""

    def __init__(self, alike: _Alike, extent: FloatArray, stages: int, cost: CostModel) -> None:
        values, self._index = _distinct(extent)
        self._values = _Table(values.shape, stages)
        sums = BatchSums(tokens=values, sequences=values, pairs=values, keys=values)
        active = None if values.all() else (values > 0).astype(np.float64)
        plain, others = alike.plain, alike.others
        if plain and values.size <= _BATCHES_TOGETHER and _prices_together(type(cost)):
            self._values.add_together(plain, cast("PricesTogether", cost), values, active)
        else:
            others = (*plain, *others)
        for operator in others:
            self._values.add(operator, operator_seconds(operator, cost, sums), active)

    def add_to(self, table: _Table, block: slice) -> None:
        table.kinds += self._gathered(self._values.kinds, block)
        if table.stages is not None and self._values.stages is not None:
            table.stages += self._gathered(self._values.stages, block)

    def by_stage(self) -> FloatArray:
        values = self._values.by_stage()
        values = values.reshape(len(values), -1)
        return values if self._index is None else values.take(self._index[:, 0], axis=1)

    def _gathered(self, values: FloatArray, block: slice) -> FloatArray:
        index = self._index
        if index is None:
            return values[:, block] if values.shape[1] > 1 else values
        return values.take(index[block] if index.shape[0] > 1 else index, axis=1)


@SameObjects
def _counts(operators: tuple[Operator, ...]) -> tuple[FloatArray, FloatArray]:
    counts = np.asarray([operator.counts for operator in operators], dtype=np.float64)
    return counts, counts.sum(axis=1)


@functools.cache
def _prices_together(cost: type) -> bool:
    return issubclass(cost, PricesTogether)


def _is_plain(operator: Operator) -> bool:
    alone = operator.experts is None and operator.collective is None
    return alone and operator.multiple == operator.prompt_shares == 1


def _distinct(extent: FloatArray) -> tuple[FloatArray, NDArray[np.int64] | None]:
    """With each element's place; None where tabulating all is as good."""
    largest = float(extent.max()) if extent.size else 0.0
    whole = extent.astype(np.int64)
    if extent.size < _TOO_FEW_TO_SORT or not np.array_equal(whole, extent):
        return extent, None
    if largest > 64 * extent.size:
        values, index = np.unique(whole, return_inverse=True)
        return values.astype(np.float64), index.reshape(extent.shape)
    # Token counts are small integers: marking them is faster than sorting.
    present = np.zeros(int(largest) + 1, dtype=np.bool_)
    present[whole.ravel()] = True
    position = np.cumsum(present) - 1
    return np.flatnonzero(present).astype(np.float64), position[whole]


def _as_matrix(sums: BatchSums) -> BatchSums:
    return sums.mapped(_matrix)


def _matrix(array: FloatArray) -> FloatArray:
    values = np.asarray(array, dtype=np.float64)
    if values.ndim < 2:
        return values.reshape(-1, 1)
    return values if values.ndim == 2 else values.reshape(-1, values.shape[-1])
