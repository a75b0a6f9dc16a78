"""The interface of evaluator.pricing.theoretical and evaluator.pricing.calibrated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import Operator
from evaluator.graph.sums import BatchSums
from store.light_dataclass import dataclass
from store.schema import STEP_KINDS, Convention

KINDS = STEP_KINDS


@dataclass(frozen=True, slots=True, kw_only=True)
class KindSeconds:
    """One occurrence's time by kind (None: nothing of it).

    A time bounded by one resource belongs to it wholly."""

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
    """Pure, without state that calls change."""

    @property
    def convention(self) -> Convention:
        """Decides how tokens fall on experts (evaluator.pricing.occurrence), and the cost of a missing dtype."""

    @property
    def load(self) -> float:
        """The busiest device's tokens over the mean."""

    @property
    def assumptions(self) -> tuple[str, ...]:
        """A sentence each, stored with the scenario."""

    def said(self, operators: Iterable[Operator]) -> Iterable[str]:
        """Formats that operators run in, or whose kernels price them."""

    def operator_seconds(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        """Of one occurrence, for each batch within the operator's window.

        `per_expert`: sums are of one expert."""


@runtime_checkable
class PricesTogether(Protocol):
    """Prices many plain operators in one call, faster for few batches."""

    def plain_seconds(self, operators: Sequence[Operator], extent: FloatArray) -> FloatArray:
        """[kind, operator, batch], to the bit as `operator_seconds`.

        Without experts or messages; work follows one extent."""
