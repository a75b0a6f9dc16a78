"""Everything that decides a row's numbers but its batch size, and defaults.

Defaults serve the buyer of a real device; upstream's convention keeps its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace

from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.engines.engine_profiles import EngineProfile, engine_profile, list_engines
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Launch, Plan, Routing
from evaluator.inputs.launchable import rule_of
from evaluator.inputs.model import GatedDeltaNet, LatentAttention, ModelSpec, StateSpace
from evaluator.inputs.models import published_precision
from evaluator.inputs.plan_search import SearchRule
from evaluator.inputs.workloads.workload import Workload
from store.light_dataclass import dataclass
from store.schema import FORMULA_MODELS, FORMULAS, Convention, Phase

SERVED_ROUTING: Routing = "power_law_1.2"  # the skew that tools of the field assume for real prompts
BALANCED_FROM = 8  # ranks of experts, from which decode instances with attention replicas are launched to even them out


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    model: ModelSpec
    device: DeviceProfile
    precision: Precision
    plan: Plan
    workload: Workload
    phase: Phase
    convention: Convention = "physical"
    serving_model: str = FORMULAS
    serving_cost_ms: float = 0.0
    engine: EngineProfile | None = None  # of a serving model that is a profile of the user's own
    client: Client | None = None  # None: the one that the engine's profile states
    launch: Launch = field(default_factory=Launch)
    routing: Routing = "balanced"  # how tokens fall on experts

    @property
    def drafting(self) -> bool:
        return self.workload.mtp_tokens > 0

    @property
    def draft_passes(self) -> int:
        return min(self.workload.mtp_tokens, 1) if self.model.draft_block else self.workload.mtp_tokens

    @property
    def layers(self) -> int:
        return sum(group.count for group in self.model.layers)

    @property
    def latent_layers(self) -> int:
        return sum(group.count for group in self.model.layers if isinstance(group.attention, LatentAttention))

    @property
    def state_layers(self) -> int:
        stateful = (GatedDeltaNet, StateSpace)
        return sum(group.count for group in self.model.layers if any(isinstance(one, stateful) for one in group.mixers))


def serving_engine(scenario: Scenario) -> EngineProfile | None:
    """The engine whose scheduler serves, with the client and token budget of these requests. Formulas have none."""
    if scenario.engine is None and scenario.serving_model in FORMULA_MODELS:
        return None
    profile = scenario.engine or engine_profile(scenario.serving_model)
    client = scenario.client or profile.client
    if profile.admission == "mixed":  # looks for requests at every step, whoever asks
        client = replace(client, poll_steps=1)
    return replace(profile, token_budget=scenario.workload.max_batched_tokens, client=client)


def required_engine(scenario: Scenario) -> EngineProfile:
    """Where formulas cannot serve."""
    found = serving_engine(scenario)
    if found is None:
        raise TypeError(f"{scenario.serving_model} is no engine")
    return found


def default_routing(scenario: Scenario) -> Routing:
    return usual_routing(scenario.model, scenario.device, scenario.serving_model, scenario.engine)


def usual_routing(model: ModelSpec, device: DeviceProfile, serving_model: str, engine: EngineProfile | None) -> Routing:
    served = engine is not None or serving_model in list_engines()
    return SERVED_ROUTING if served and device.family == "calibrated" and model.routed else "balanced"


def evened_out(scenario: Scenario) -> bool:
    """Experts' load is evened out by the server, whatever prompts choose.

    Decode instances with many attention replicas place copies of busy experts (DeepSeek-V3 technical report, 3.4.2;
    InferenceX: `ep-num-redundant-experts: 32`). Where a plan names copies, any server does."""
    plan = scenario.plan
    return plan.redundant_experts > 0 or (scenario.phase == "decode" and plan.dp > 1 and plan.ep >= BALANCED_FROM)


SEEDS_LINEAR = "W8A8_DYNAMIC"
# Vendors whose devices vLLM itself runs on (CUDA, ROCm, XPU); others have plug-ins, or nobody built them.
# https://docs.vllm.ai/en/latest/getting_started/installation/gpu/
ENGINES: Mapping[str, str] = {"nvidia": "vllm", "amd": "vllm", "intel": "vllm"}


def usual_serving_model(device: DeviceProfile, convention: Convention) -> str:
    """An engine of the device's vendor, else formulas; upstream has no engine."""
    return FORMULAS if convention == "upstream" else ENGINES.get(device.vendor.lower(), FORMULAS)


def usual_search(serving_model: str, convention: Convention) -> tuple[SearchRule, str | None]:
    engine = None if convention == "upstream" else rule_of(serving_model)
    return ("every", None) if engine is None else ("launchable", engine)


def usual_precision(model: ModelSpec, convention: Convention) -> Precision:
    if convention == "upstream":
        return Precision(linear=SEEDS_LINEAR)
    return published_precision(model)
