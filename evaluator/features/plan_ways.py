"""Sizes of a plan: shares of a context or prompt, copies of experts, micro-batches."""

from __future__ import annotations

from collections.abc import Iterator

from evaluator.features.feature import Feature, SupportPart, plans_of, refused, ways_of
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.plan_search import divides_prompts, holds_shares
from evaluator.scenario import Scenario
from evaluator.serving.models import serving_model_of


class PlanWays(Feature):
    plans = plans_of("PlanWays")

    def said(self, scenario: Scenario) -> Iterator[str]:
        if scenario.plan.pp > 1 and serving_model_of(scenario).engine(scenario) is not None:
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
