"""A sweep's request, and the scenarios that it stands for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.devices.device_profiles import check_device_count
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.inputs.formats import Precision
from evaluator.inputs.images import ImageRequest
from evaluator.inputs.launch import Client, Launch, Routing
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.plan_search import PlanChoice, PlanSearch, choices_of_sizes, searched_by
from evaluator.inputs.workloads.workload import Workload, with_images
from evaluator.scenario import Scenario, usual_routing
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import FORMULAS, PHASES, SHARES, Convention, Phase

Instances = int | tuple[int, ...] | None  # devices of one instance, or several sizes to look at


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedModel:
    name: str
    spec: ModelSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRequest:
    """Models x devices x workloads x precisions, over every plan and phase.

    Plans that repeat a smaller server are evaluated once. Prefill and decode sizes default to `num_devices`; without
    it there is no aggregated phase. `batch_range` is (smallest, largest); None: every size worth storing."""

    models: tuple[NamedModel, ...]
    devices: tuple[DeviceProfile, ...]
    workloads: tuple[Workload, ...]
    precisions: tuple[Precision, ...]
    num_devices: Instances = 1
    prefill_devices: Instances = None
    decode_devices: Instances = None
    phases: tuple[Phase, ...] = PHASES
    convention: Convention = "physical"
    search: PlanSearch = field(default_factory=PlanSearch)
    batch_range: tuple[int, int | None] = (1, None)
    serving_model: str = FORMULAS
    serving_cost_ms: float = 0.0
    engine: EngineProfile | None = None  # of a serving model that is a profile of the user's own
    client: Client | None = None  # None: the one that the engine's profile states
    launch: Launch = field(default_factory=Launch)
    routing: Routing | None = None  # None: as the serving model usually assumes
    images: ImageRequest | None = None  # in every request, beside the text that the workloads state

    def instance_sizes(self, phase: Phase) -> tuple[int, ...]:
        own = {"prefill": self.prefill_devices, "decode": self.decode_devices, "aggregated": None}[phase]
        chosen = own if own is not None else self.num_devices
        if chosen is None or isinstance(chosen, int):
            return () if chosen is None else (chosen,)
        return tuple(dict.fromkeys(chosen))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedScenario:
    """`illegal` says why it cannot be evaluated."""

    model_name: str
    scenario: Scenario
    batch_range: tuple[int, int | None] = (1, None)
    illegal: str | None = None


def check_request(request: SweepRequest) -> None:
    first, last = request.batch_range
    if first < 1 or (last is not None and last < first):
        raise InputError(f"`batch_range` must be [min] max with 1 <= min <= max, not {first} {last}")
    if not (0 <= request.serving_cost_ms < 1e9):
        raise InputError(f"`serving_cost` must be at least 0 ms, not {request.serving_cost_ms:g}")
    for phase in request.phases:
        sizes = request.instance_sizes(phase)
        if not sizes and phase != "aggregated":
            raise InputError(f"the {phase} phase needs `num_devices` or `{phase}_devices_per_instance`")
        for count in sizes:
            if count < 1:
                raise InputError(f"an instance needs at least 1 device, not {count}")
            for device in request.devices:
                check_device_count(device, count)


def parts_of(request: SweepRequest | Sequence[SweepRequest]) -> tuple[SweepRequest, ...]:
    return (request,) if isinstance(request, SweepRequest) else tuple(request)


def planned_scenarios(request: SweepRequest | Sequence[SweepRequest]) -> Iterator[PlannedScenario]:
    for part in parts_of(request):
        check_request(part)
        yield from _scenarios(part)


def workloads_of(request: SweepRequest, model: ModelSpec) -> tuple[Workload, ...]:
    asked = request.images
    if asked is None:
        return request.workloads
    return tuple(with_images(workload, asked, model) for workload in request.workloads)


def _scenarios(request: SweepRequest) -> Iterator[PlannedScenario]:
    for model in request.models:
        # The same, whatever the device and workload.
        choices: dict[tuple[Phase, bool, Precision], tuple[PlanChoice, ...]] = {}
        for device in request.devices:
            for precision in request.precisions:
                for workload in workloads_of(request, model.spec):
                    for phase in request.phases:
                        # What encodes stands beside instances that take prompts, where prompts have images.
                        kind = (phase, phase != "decode" and workload.images is not None, precision)
                        if kind not in choices:
                            choices[kind] = _choices(request, model.spec, *kind)
                        yield from _phase_scenarios(request, model, device, precision, workload, phase, choices[kind])


def _choices(
    request: SweepRequest, model: ModelSpec, phase: Phase, encoding: bool, precision: Precision
) -> tuple[PlanChoice, ...]:
    search = request.search if encoding else replace(request.search, encoder_devices=None)
    return tuple(choice for _, choice in choices_of_sizes(model, request.instance_sizes(phase), search, precision))


def _phase_scenarios(  # noqa: PLR0917  one of each dimension
    request: SweepRequest,
    model: NamedModel,
    device: DeviceProfile,
    precision: Precision,
    workload: Workload,
    phase: Phase,
    choices: Sequence[PlanChoice],
) -> Iterator[PlannedScenario]:
    routing = request.routing or usual_routing(model.spec, device, request.serving_model, request.engine)
    for choice in choices:
        scenario = Scenario(
            model=model.spec,
            device=device,
            precision=precision,
            plan=choice.plan,
            workload=workload,
            phase=phase,
            convention=request.convention,
            serving_model=request.serving_model,
            serving_cost_ms=_serving_cost(request, phase),
            engine=request.engine,
            client=request.client,
            launch=request.launch,
            routing=routing,
        )
        yield PlannedScenario(
            model_name=model.name, scenario=scenario, batch_range=request.batch_range, illegal=choice.illegal
        )


def _serving_cost(request: SweepRequest, phase: Phase) -> float:
    # Upstream adds it to prefill and decode instances alone: no second row that could not differ.
    return 0.0 if phase == "aggregated" and request.convention == "upstream" else request.serving_cost_ms


def request_arguments(request: SweepRequest | Sequence[SweepRequest]) -> dict[str, object]:
    """Plain values with every default, for the sweep's record."""
    parts = [_arguments(part) for part in parts_of(request)]
    if len(parts) == 1:
        return parts[0]
    names = {"models": [model.name for part in parts_of(request) for model in part.models],
             "devices": [device.name for part in parts_of(request) for device in part.devices]}  # fmt: skip
    return {**{key: list(dict.fromkeys(named)) for key, named in names.items()}, "parts": parts}


def _arguments(request: SweepRequest) -> dict[str, object]:
    search: dict[str, object] = {"rule": request.search.rule, "engine": request.search.engine}
    for name in ("tp", "pp", "dp", "ep", "moe_tp", "moe_dp"):
        sizes = getattr(request.search, f"{name}_sizes")
        search[f"{name}_sizes"] = None if sizes is None else list(sizes)
    for share in SHARES:
        name = searched_by(share.name)
        if (said := getattr(request.search, name)) is not None:
            search[name] = list(said)
    return {
        "models": [model.name for model in request.models],
        "devices": [device.name for device in request.devices],
        "workloads": list(request.workloads),
        "precisions": list(request.precisions),
        "num_devices": request.num_devices,
        "prefill_devices_per_instance": request.prefill_devices,
        "decode_devices_per_instance": request.decode_devices,
        "phases": list(request.phases),
        "convention": request.convention,
        "compile": request.launch.compile,
        "search": search,
        "batch_range": list(request.batch_range),
        "serving_model": request.serving_model,
        "serving_cost_ms": request.serving_cost_ms,
        "client": request.client,
        "launch": request.launch,
        "routing": request.routing,
        **({} if request.images is None else {"images": request.images}),
    }
