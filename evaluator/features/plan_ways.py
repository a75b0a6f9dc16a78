"""Sizes of a plan: shares of a context or prompt, copies of experts, micro-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from evaluator.features.feature import Feature, SupportPart, plans_of, refused, ways_of
from evaluator.graph.operators import OperatorSet
from evaluator.inputs.launch import LOAD, Routing, busiest_load
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.plan_search import divides_prompts, holds_shares
from evaluator.pricing.cost_model import CostModel
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.scenario import Scenario, evened_out, serving_engine


class PlanWays(Feature):
    plans = plans_of("PlanWays")

    def said(self, scenario: Scenario) -> Iterator[str]:
        if scenario.plan.pp > 1 and serving_engine(scenario) is not None:
            yield (
                f"{scenario.plan.pp} pipeline stages pass micro-batches on in rounds; expected errors are of servers"
                " without stages"
            )

    def lacking(self, scenario: Scenario) -> str:
        plan = scenario.plan
        if max(plan.dcp, plan.pcp, plan.micro_batches) == 1 and not plan.redundant_experts:
            return ""
        return "no shares of a context or a prompt, no copies of experts and no micro-batches"

    def of_model(self, name: str, spec: ModelSpec) -> Iterator[SupportPart]:  # noqa: ARG002
        yield _of_context(spec)
        part = "prefill context parallelism"
        if all(map(divides_prompts, spec.layers)):
            yield SupportPart(part=part, state="by hand", how="new keys and values are gathered")
        else:
            yield refused(part, "layers of linear states, compressed entries or chosen blocks")
        for part, how in (
            ("two micro-batches", "halves of a batch"),
            ("copies of experts", "slots beside the experts"),
        ):
            if spec.routed:
                yield SupportPart(part=part, state="by hand", how=how)
            else:
                yield refused(part, "a dense model exchanges no rows of experts")


class SidesApart(Feature):
    ways = ways_of("SidesApart")


def _of_context(spec: ModelSpec) -> SupportPart:
    """Only if every layer with keys keeps those of all tokens."""
    part = "decode context parallelism"
    keeping = [group for group in spec.layers if group.attention is not None and group.attention.keeps_tokens]
    if not keeping:
        return SupportPart(part=part, state="left out", how="no layer keeps keys of tokens")
    if not all(map(holds_shares, keeping)):
        return refused(part, "layers of windows, chosen keys or compressed entries")
    heads = max(getattr(group.attention, "kv_heads", 1) for group in keeping)
    copies = "all of tp" if heads == 1 else f"tp / {heads}"
    return SupportPart(part=part, state="by hand", how=f"dcp divides {copies}, devices that would hold the same keys")


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
