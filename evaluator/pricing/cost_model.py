"""The interface of cost models: seconds of one operator for many batches, split by what bounds it.

Families: evaluator.pricing.theoretical, evaluator.pricing.calibrated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import Operator
from evaluator.graph.sums import BatchSums
from store.schema import STEP_KINDS, Convention

KINDS = STEP_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSeconds:
    """Seconds of ONE occurrence of an operator; the kinds add up to its time (None: nothing of that kind).

    Arrays broadcast with the sums they were computed from. A time that is bounded by one resource belongs to it
    wholly."""

    matrix: FloatArray | float | None = None
    vector: FloatArray | float | None = None
    memory: FloatArray | float | None = None
    communication: FloatArray | float | None = None
    overhead: FloatArray | float | None = None

    def total(self) -> FloatArray | float:
        parts = [
            part
            for part in (self.matrix, self.vector, self.memory, self.communication, self.overhead)
            if part is not None
        ]
        return sum(parts[1:], parts[0]) if parts else 0.0


class CostModel(Protocol):
    """A device's way of turning work into seconds. Implementations are pure and hold no state that calls change."""

    @property
    def convention(self) -> Convention:
        """Decides routing of tokens to experts (evaluator.pricing.occurrence) and what a missing dtype costs."""

    @property
    def load(self) -> float:
        """Tokens that experts of the busiest device get, over those of the mean one."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """The assumptions made, one sentence each (a dtype widened ...). They are stored with the scenario."""

    def said(self, operators: Iterable[Operator]) -> Iterable[str]:
        """Sentences on these operators: what they run in, or whose kernels price them."""

    def operator_seconds(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        """Seconds of one occurrence of `operator` for every batch of `sums` (already within the operator's window).

        For `operator.per_expert` the sums are those of one expert: tokens mean its tokens."""


@runtime_checkable
class PricesTogether(Protocol):
    """A cost model that can also price many plain operators in one call, which is faster over few batches."""

    def plain_seconds(self, operators: Sequence[Operator], extent: FloatArray) -> FloatArray:
        """Seconds [kind, operator, batch] of operators without experts or messages, whose work follows one extent: to
        the bit what `operator_seconds` gives of each."""
