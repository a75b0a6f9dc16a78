"""How tokens fall on experts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from evaluator.features.feature import Feature, ways_of
from evaluator.graph.operators import OperatorSet
from evaluator.inputs.launch import LOAD, Routing, busiest_load
from evaluator.pricing.cost_model import CostModel
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.scenario import Scenario, evened_out

_ROUTED: Mapping[Routing, str] = {"balanced": "if routed evenly", "power_law_1.2": "under a power law of exponent 1.2"}


class ExpertRouting(Feature):
    ways = ways_of("ExpertRouting")

    def said_of_cost(self, scenario: Scenario, cost: CostModel, sets: Iterable[OperatorSet]) -> Iterable[str]:  # noqa: ARG002
        if not scenario.model.routed:
            return
        if scenario.routing.startswith(LOAD):
            yield f"the busiest device of experts gets {busiest_load(scenario.routing):g} times the mean's tokens"
        elif not isinstance(cost, TheoreticalCost):
            evened = ", evened out by the server's copies of busy experts" if evened_out(scenario) else ""
            yield f"tokens fall on experts as {_ROUTED[scenario.routing]}{evened}"
