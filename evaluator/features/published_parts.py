"""Parts of a published model: its layers, its encoders, and the formats of its weights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evaluator.canonical import came_later
from evaluator.features.feature import Feature, SupportPart, refused
from evaluator.graph.operators import OperatorSet
from evaluator.inputs.formats import Precision, check_precision, slow_formats
from evaluator.inputs.images import VisionTower
from evaluator.inputs.model import GroupedQueryAttention, LatentAttention, LayerGroup, ModelSpec
from evaluator.pricing.cost_model import CostModel
from evaluator.scenario import Scenario
from store.errors import InputError

LANGUAGE_PART = "language part only: no "


class PublishedParts(Feature):
    def lacking(self, scenario: Scenario) -> str:
        spec = scenario.model
        of_two_sums = spec.residual_streams > 1 or spec.residual_block or spec.output_norms
        if not of_two_sums and not spec.draft_groups and all(map(_known_upstream, spec.layers)):
            return ""
        return "no sparse attention, no linear states, no layers of one part and none of parts side by side"

    def said(self, scenario: Scenario) -> Iterable[str]:
        left_out = scenario.model.left_out
        return [f"{LANGUAGE_PART}{left_out}"] if left_out and scenario.workload.images is None else []

    def of_model(self, name: str, spec: ModelSpec) -> Iterator[SupportPart]:  # noqa: ARG002
        yield published_model(spec)
        if isinstance(spec.vision, VisionTower):
            millions = round(spec.vision.parameters / 1e6)
            priced = "priced where requests have `images`, else text alone is evaluated"
            yield SupportPart(
                part="image encoder", state="exact", how=f"{millions:,} M weights, as its class; {priced}"
            )
        elif spec.left_out:
            how = spec.vision or "image tokens lengthen the prompt; encoding is free"
            yield SupportPart(part=spec.left_out, state="left out", how=how)
        for part in ("linear", "experts", "mixers", "head", "drafts"):
            if (published := getattr(spec, f"native_{part}")) is not None:
                yield _of_format("linears" if part == "linear" else part, published)


class Formats(Feature):
    def lacking(self, scenario: Scenario) -> str:
        chosen = scenario.precision
        if chosen.mixers is chosen.head is chosen.drafts is None:
            return ""
        return "one format of all linears: no other of mixers, the head or drafts"

    def said_of_cost(self, scenario: Scenario, cost: CostModel, sets: Iterable[OperatorSet]) -> Iterable[str]:
        yield from slow_formats(scenario.device, scenario.precision, scenario.convention)
        yield from cost.said(one for each in sets for one in each.operators)


def published_model(spec: ModelSpec) -> SupportPart:
    if spec.residual_block:  # no class has these
        return SupportPart(part="model", state="by hand", how="parameters of its released tensors; no class holds it")
    how = "parameters and products are those of the Hugging Face class"
    return SupportPart(part="model", state="exact", how=how)


def _of_format(part: str, published: str) -> SupportPart:
    try:
        check_precision(Precision(linear=published))
    except InputError as error:
        return refused(f"format of {part}", error.message)
    return SupportPart(part=f"format of {part}", state="exact", how=f"{published}, as published")


def _known_upstream(group: LayerGroup) -> bool:
    """Its two parts are upstream's, with nothing that came later."""
    if not isinstance(group.attention, GroupedQueryAttention | LatentAttention) or group.mlp is None:
        return False
    return not any(map(came_later, (group, group.attention, group.mlp)))
