"""Features of serving: what each refuses, what readers should know, how well it is known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evaluator.features.feature import Feature
from evaluator.features.image_requests import EncodersApart, ImageRequests
from evaluator.features.published_parts import LANGUAGE_PART, Formats, PublishedParts
from evaluator.features.workload_ways import DraftWays, ExpertRouting, OutsideKeys, PlanWays, SidesApart
from evaluator.graph.operators import OperatorSet
from evaluator.pricing.cost_model import CostModel
from evaluator.scenario import Scenario
from store.errors import InputError

__all__ = ["FEATURES", "LANGUAGE_PART", "refusal", "said", "said_of_cost"]

# In the order of the page of support. Of two that refuse a scenario, the first one says why.
FEATURES: tuple[Feature, ...] = (
    PublishedParts(),
    PlanWays(),
    EncodersApart(),
    Formats(),
    ExpertRouting(),
    OutsideKeys(),
    ImageRequests(),
    DraftWays(),
    SidesApart(),
)


def refusal(scenario: Scenario) -> InputError | None:
    if scenario.convention == "upstream":
        for part in (feature.lacking(scenario) for feature in FEATURES):
            if part:
                return InputError(f"`convention=upstream` has {part}", hint="`convention=physical`")
    return next(filter(None, (feature.refuses(scenario) for feature in FEATURES)), None)


def said(scenario: Scenario) -> Iterator[str]:
    for feature in FEATURES:
        yield from feature.said(scenario)


def said_of_cost(scenario: Scenario, cost: CostModel, sets: Iterable[OperatorSet]) -> Iterator[str]:
    for feature in FEATURES:
        yield from feature.said_of_cost(scenario, cost, sets)
