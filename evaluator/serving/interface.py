"""The face of every serving model: step times in, latencies of requests out, for every batch size of a phase at once.

Each model is a module of evaluator.serving.models that registers itself there. Models are pure: a run in, columns out;
memory, and the columns that all phases have, are not theirs (evaluator.evaluate)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from numpy.typing import NDArray

from evaluator.arithmetic import Integers
from evaluator.graph.operators import OperatorSet
from evaluator.pricing.cost_model import CostModel
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.batches import BatchSource
from evaluator.serving.exchanges import own_experts
from store.errors import InputError
from store.light_dataclass import dataclass

Columns = Mapping[str, NDArray[Any]]  # of a probe block, by name; what a phase has not is left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A scenario with what prices it and the batch sizes asked for."""

    scenario: Scenario
    operators: Mapping[str, OperatorSet]
    source: BatchSource
    cost: CostModel
    batch_sizes: Integers

    @property
    def requests(self) -> Integers:
        """Requests in flight in one replica: a micro-batch for every pipeline stage."""
        return self.batch_sizes * self.scenario.plan.pp

    @property
    def steps(self) -> Mapping[str, OperatorSet]:
        """`operators`, with what the engine exchanges around experts; formulas exchange all rows."""
        engine = serving_engine(self.scenario)
        if engine is None:
            return self.operators
        replicas, once = self.scenario.plan.groups, bool(engine.exchange_once)
        return {name: own_experts(one, replicas, once) for name, one in self.operators.items()}


class ServingModel(Protocol):
    """How step times become latencies."""

    def source(self, scenario: Scenario) -> BatchSource: ...

    def refusal(self, scenario: Scenario, source: BatchSource) -> InputError | None:
        """Why the model does not cover a scenario; None where it does. Nothing is traced to know."""

    def said(self, scenario: Scenario) -> tuple[str, ...]:
        """Sentences that a reader of the numbers should know."""

    def parts(self, run: Run) -> list[slice]:
        """Neighbouring batch sizes to evaluate together, so that memory stays small."""

    def prefill(self, run: Run) -> Columns: ...

    def decode(self, run: Run) -> Columns: ...

    def aggregated(self, run: Run) -> Columns: ...
