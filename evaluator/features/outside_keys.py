"""Keys and values in the hosts' memory, on SSDs or in a remote store."""

from __future__ import annotations

from collections.abc import Iterator

from evaluator.features.feature import Feature, SupportPart, refused, ways_of
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.scenario import Scenario
from evaluator.serving.engine.tier_loads import HOST_EFFICIENCY, tier_refusal
from evaluator.serving.models import serving_model_of
from store.errors import InputError


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
        return None if serving_model_of(scenario).engine(scenario) is not None else tier_refusal(scenario)

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
