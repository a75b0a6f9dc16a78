"""Ways of serving that a workload or plan asks for: drafts, keys outside the devices, and further sizes of a plan.

Sizes are shares of a context or prompt, copies of experts, micro-batches. Drafts are a model's own layers, layers
beside it, or whole models that draft for others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from evaluator.features.feature import Feature, SupportPart, plans_of, refused, ways_of
from evaluator.graph.operators import OperatorSet
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.drafts.speculation import acceptance_table, list_acceptance, missing_draft, no_drafter
from evaluator.inputs.launch import LOAD, Routing, busiest_load
from evaluator.inputs.launchable import LAUNCHERS
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LatentAttention, ModelSpec
from evaluator.inputs.models import load_model
from evaluator.inputs.plan_search import divides_prompts, holds_shares
from evaluator.pricing.cost_model import CostModel
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.scenario import Scenario, evened_out, serving_engine
from evaluator.serving.engine.tier_loads import HOST_EFFICIENCY, tier_refusal
from store.errors import InputError


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


class DraftWays(Feature):
    ways = ways_of("DraftWays", launchers=", ".join(LAUNCHERS))

    def refuses(self, scenario: Scenario) -> InputError | None:
        if scenario.model.draft_states and not _can_stand_beside(scenario.model):
            kinds = "one layer of grouped queries or latent attention and a dense MLP"
            return InputError(f"a draft beside a model is {kinds}")
        return None

    def of_model(self, name: str, spec: ModelSpec) -> Iterator[SupportPart]:
        if spec.mtp_layers:
            like = "layers of the model" if spec.draft_layer is None else "layers of their own shape"
            how = f"{spec.mtp_layers} MTP {'layer' if spec.mtp_layers == 1 else 'layers'}, priced as {like}"
            yield SupportPart(part="own drafts", state="exact", how=how)
        part, why = "drafts for other models", no_drafter(spec)
        if why is None:
            how = f"speculative {name}:k for another model of its tokens"
            yield SupportPart(part=part, state="by hand", how=how)
        else:
            yield refused(part, why)
        for table in list_acceptance():
            measured = acceptance_table(table).model
            if measured is not None and load_model(measured)[1].layers == spec.layers:
                yield drafts_by(table, f"drafts by {table}")


def drafts_by(name: str, part: str = "drafts") -> SupportPart:
    table = acceptance_table(name)
    lengths = ", ".join(f"{one:g}" for one in table.tokens_per_step)
    how = f"{table.model}, {table.method}: {lengths} tokens a step at 1 to {len(table.tokens_per_step)} drafts"
    missing = None if table.model is None else missing_draft(table, load_model(table.model)[1])
    if missing is not None:
        return refused(part, f"{how}; {missing}")
    return SupportPart(part=part, state="measured", how=how)


def _can_stand_beside(spec: ModelSpec) -> bool:
    layer = spec.draft_layer
    kinds = LatentAttention if spec.draft_block else GroupedQueryAttention | LatentAttention
    if layer is None or layer.parallel_mlp:
        return False
    return isinstance(layer.attention, kinds) and isinstance(layer.mlp, DenseMlp)


class OutsideKeys(Feature):
    ways = ways_of("OutsideKeys")

    def lacking(self, scenario: Scenario) -> str:
        return "no keys outside the devices" if scenario.workload.tiers else ""

    def refuses(self, scenario: Scenario) -> InputError | None:
        if not scenario.workload.tiers:
            return None
        if scenario.plan.pp > 1:
            part = f"{scenario.serving_model} reads no keys from outside the devices for pipeline stages"
            return InputError(part, hint="plans of one stage: `pp_sizes=1`")
        # Engines refuse their own.
        return None if serving_engine(scenario) is not None else tier_refusal(scenario)

    def of_device(self, profile: DeviceProfile) -> Iterator[SupportPart]:
        part = "keys in the hosts' memory"
        if profile.host_link_bytes_per_s:
            rate = 1e-9 * HOST_EFFICIENCY * profile.host_link_bytes_per_s
            how = f"{rate:.4g} GB/s, {HOST_EFFICIENCY:g} of the host link of its data sheet"
            yield SupportPart(part=part, state="data sheet", how=how)
        else:
            yield refused(part, "no host link is stated: needs `host_gb_per_s`")
        yield refused("keys on SSDs", "no rate is stated: needs `ssd_gb_per_s`")
        outer = profile.links[0]
        how = f"{1e-9 * outer.bandwidth_bytes_per_s * outer.efficiency:.4g} GB/s, its link to other hosts"
        yield SupportPart(part="keys in a remote store", state="data sheet", how=how)
