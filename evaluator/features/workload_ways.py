"""Ways of serving that a workload asks for: drafts, and keys and values outside the devices.

Drafts are a model's own layers, layers beside it, or whole models that draft for others."""

from __future__ import annotations

from collections.abc import Iterator

from evaluator.features.feature import Feature, SupportPart, refused, ways_of
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.drafts.speculation import acceptance_table, list_acceptance, missing_draft, no_drafter
from evaluator.inputs.launchable import LAUNCHERS
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LatentAttention, ModelSpec
from evaluator.inputs.models import load_model
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.engine.tier_loads import HOST_EFFICIENCY, tier_refusal
from store.errors import InputError


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
