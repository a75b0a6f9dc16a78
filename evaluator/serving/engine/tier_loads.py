"""Keys and values of prompts that are read from the hosts' memory, their SSDs or a remote store, beside prefill.

Sources: SGLang's HiCache (docs.sglang.io/advanced_features/hicache_design) reads layer by layer while layers before
compute; vLLM's OffloadingConnector (docs.vllm.ai, kv_offload) and TensorRT-LLM's host cache
(nvidia.github.io/TensorRT-LLM/features/kvcache.html) read before a request is scheduled, while others compute. Either
way a link carries one prompt's keys after another's. Left out: writing to the tiers, which takes the links' other
direction, and what hosts divide among devices beyond the stated rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from evaluator.inputs.launchable import launcher_of
from evaluator.inputs.model import LayerGroup, ModelSpec
from evaluator.inputs.plan_search import holds_shares
from evaluator.inputs.workloads.workload import CacheTier
from evaluator.pricing.kv_state import layer_bytes
from evaluator.scenario import Scenario
from evaluator.serving.engine.request_kinds import RequestKind, weights_of
from evaluator.serving.engine.step_tables import StepTable
from evaluator.serving.occupancy import kv_cache_bits
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import TierName

HOST_EFFICIENCY = 0.8  # of a link's data-sheet rate, as profiles assume of links between devices


def tier_refusal(scenario: Scenario) -> InputError | None:
    for tier in scenario.workload.tiers:
        if not bytes_per_s(scenario, tier):
            return InputError(
                f"{scenario.device.name} states no rate of its {tier.name}, which holds {tier.hit_rate:g} of each"
                " prompt",
                hint=f"`{tier.name}_gb_per_s`: GB a second that one device reads",
            )
    return None


def bytes_per_s(scenario: Scenario, tier: CacheTier) -> float:
    """Bytes a second that one device reads of a tier, 0 where nobody says: as stated, else of its host link, or of its
    link to other hosts for what is remote."""
    if tier.bytes_per_s:
        return tier.bytes_per_s
    if tier.name == "host":
        return HOST_EFFICIENCY * scenario.device.host_link_bytes_per_s
    link = scenario.device.links[0]
    return link.bandwidth_bytes_per_s * link.efficiency if tier.name == "remote" else 0.0


def device_bytes(scenario: Scenario, kind: RequestKind) -> dict[TierName, float]:
    prompt, left = kind.new_tokens + kind.cached, float(kind.cached)
    tokens: dict[TierName, float] = {}
    for tier in scenario.workload.tiers:
        tokens[tier.name] = min(tier.hit_rate * prompt, left)
        left -= tokens[tier.name]
    return read_bytes(scenario, kind.cached, tokens)


def read_bytes(scenario: Scenario, cached: int, tokens: Mapping[TierName, float]) -> dict[TierName, float]:
    model, plan, bits = scenario.model, scenario.plan, kv_cache_bits(scenario.precision)
    drafting = _drafting_layers(model) if scenario.drafting else []
    held = sum(
        count * layer_bytes(group, bits, plan.tp, cached) / (plan.dcp if holds_shares(group) else 1)
        for group, count in (*((group, group.count) for group in model.layers), *drafting)
    )
    return {name: held * many / cached if cached else 0.0 for name, many in tokens.items()}


def _drafting_layers(model: ModelSpec) -> list[tuple[LayerGroup, int]]:
    if model.draft_model is not None:
        return [(group, group.count) for group in model.draft_model.layers]
    return [(model.draft_layer or model.layers[-1], model.mtp_layers)]


def load_seconds(scenario: Scenario, kind: RequestKind) -> float:
    """Seconds of the slowest way that a prompt's keys take. All come by the host's link, where that is known."""
    return read_seconds(scenario, device_bytes(scenario, kind), scenario.workload.tiers)


def read_seconds(scenario: Scenario, read: Mapping[TierName, float], tiers: Sequence[CacheTier]) -> float:
    # 64 GB/s x 0.8 to the host and 6 GB/s to its SSD: 5 GB from memory and 1 GB from the SSD take max(6 / 51.2, 1 / 6).
    ways = [read[tier.name] / bytes_per_s(scenario, tier) for tier in tiers if tier.name != "host"]
    host = next((tier for tier in tiers if tier.name == "host"), None)
    link = bytes_per_s(scenario, host or CacheTier(name="host", hit_rate=0.0))
    return max([*ways, *([sum(read.values()) / link] if link else [])], default=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TierLoads:
    """Effects of reading on one replica: tables with the part of it that no computing hides, and seconds that a prompt
    waits for its keys while others compute."""

    table: StepTable
    wait_s: float


def reads_before(scenario: Scenario) -> bool:
    return bool(scenario.workload.tiers) and reads_first(scenario)


def reads_first(scenario: Scenario) -> bool:
    """Whether an engine starts a prompt when its keys are there; others read beside computing."""
    launcher = launcher_of(scenario.serving_model)
    return launcher is not None and launcher.keys_first


def with_loads(
    scenario: Scenario, table: StepTable, kinds: Sequence[RequestKind], token_budget: int, factor: float = 1.0
) -> TierLoads:
    """The tables of a scenario whose prompts are read from tiers, as its engine reads them.

    Prompts follow each other, so that each takes the longer of what it adds to full steps and what it reads. Kernels of
    a table are multiplied by the engine's `factor`; what a link takes is whole."""
    if not scenario.workload.tiers:
        return TierLoads(table=table, wait_s=0.0)
    nodes, before = table.stretches + 1, reads_before(scenario)
    attention, waits = table.attention.copy(), []
    full = min(token_budget, (table.linear.size - 1) * table.spacing)
    for place, kind in enumerate(kinds):
        computing = table.linear_s(full) / full * kind.new_tokens + table.attention_s(kind.new_tokens, place)
        reading = load_seconds(scenario, kind)
        mine = slice(place * nodes, (place + 1) * nodes)
        late = max(reading / factor - computing, 0.0)
        attention[mine] += late * np.linspace(0.0, 1.0, nodes)
        waits.append(reading - factor * late if before else 0.0)
    wait_s = float((weights_of(kinds) * waits).sum())
    return TierLoads(table=replace(table, attention=attention), wait_s=wait_s)


def said_of_loads(scenario: Scenario, kinds: Sequence[RequestKind]) -> tuple[str, ...]:
    if not scenario.workload.tiers:
        return ()
    weights = weights_of(kinds)
    read = float((weights * [sum(device_bytes(scenario, kind).values()) for kind in kinds]).sum())
    seconds = float((weights * [load_seconds(scenario, kind) for kind in kinds]).sum())
    rates = ", ".join(f"{tier.name} at {1e-9 * bytes_per_s(scenario, tier):g} GB/s" for tier in scenario.workload.tiers)
    how = "before it is scheduled" if reads_before(scenario) else "layer by layer, beside computing"
    return (f"each device reads {1e-9 * read:.3g} GB of a prompt's keys in {1e3 * seconds:.3g} ms, {how}: {rates}",)
