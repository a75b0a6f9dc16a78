"""How well parts of a model, device and engine are known: exact, fitted, carried over, refused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from evaluator.calibration.forms import Inputs, Parts
from evaluator.calibration.mixer_kernels import MIXER_KINDS, UNMEASURED, mixer_device, mixer_error
from evaluator.evaluate import capture_requests, cost_model
from evaluator.features import FEATURES
from evaluator.features.feature import PlanWay, State, SupportPart, refused
from evaluator.features.published_parts import published_model
from evaluator.features.workload_ways import drafts_by
from evaluator.graph import OperatorSet, operators_of_request
from evaluator.graph.operators import COLLECTIVE_KINDS
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.devices.calibration_record import Calibration, calibration_from_json
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.devices.device_profiles import list_devices, load_device
from evaluator.inputs.devices.device_profiles import resolve as resolve_device
from evaluator.inputs.devices.shipped_calibrations import fit_of
from evaluator.inputs.drafts.speculation import list_acceptance
from evaluator.inputs.engines.engine_profiles import fitted_engine, list_engines
from evaluator.inputs.formats import Precision, check_precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.launchable import LAUNCHERS, launches, rule_of
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.models import list_models, load_model
from evaluator.inputs.plan_search import illegality
from evaluator.inputs.workloads.workload import Workload
from evaluator.inputs.yaml_file import shortened
from evaluator.pricing.calibrated import CalibratedCost
from evaluator.pricing.occurrence import operator_seconds
from evaluator.scenario import Scenario, usual_precision
from store.errors import InputError
from store.light_dataclass import dataclass

_WORKLOAD = Workload(input_length=1024, output_length=128.0)


def supported(model: str | None, device: str | None = None, engine: str | None = None) -> tuple[SupportPart, ...]:
    found: list[SupportPart] = []
    spec = None
    if model is not None:
        try:
            model, spec = load_model(model)
        except InputError as error:
            return (refused("model", error.message),)
        found += (part for feature in FEATURES for part in feature.of_model(model, spec))
    profile = None if device is None else load_device(device)
    if profile is not None:
        found.append(device_support(profile))
        found += (part for feature in FEATURES for part in feature.of_device(profile))
    if spec is not None and profile is not None:
        found += _of_kernels(spec, profile)
    if engine is not None:
        found.append(engine_support(engine))
        found += _of_launches(engine)
    return tuple(found)


def supported_words(words: Sequence[str]) -> tuple[SupportPart, ...]:
    """Words in any order: an engine, a device, and the rest is the model."""
    kinds: dict[str, str] = {}
    for word in words:
        kind = "engine" if word in list_engines() else "device" if _is_device(word, words) else "model"
        if kind in kinds:
            hint = "one of each: `sweepdb support MODEL DEVICE ENGINE`"
            raise InputError(f"two names of a {kind}: {shortened(kinds[kind])} and {shortened(word)}", hint=hint)
        kinds[kind] = word
    return supported(kinds.get("model"), kinds.get("device"), kinds.get("engine"))


def _is_device(word: str, words: Sequence[str]) -> bool:
    """A known name, a file, or what stands between model and engine."""
    if word.endswith((".yaml", ".yml")):
        return True
    try:
        resolve_device(word)
    except InputError:
        return len(words) > 1 and words[1] == word
    return True


def support_table() -> tuple[tuple[str, str, SupportPart], ...]:
    models = [("model", name, published_model(load_model(name)[1])) for name in list_models()]
    devices = [("device", name, device_support(load_device(name))) for name in list_devices()]
    engines = [("engine", name, engine_support(name)) for name in list_engines()]
    drafts = (("drafts", name, drafts_by(name)) for name in list_acceptance())
    return (*models, *devices, *engines, *drafts, *_of_serving())


def _of_serving() -> Iterator[tuple[str, str, SupportPart]]:
    for way in _plan_ways():
        launchers = ", ".join(engine for engine in LAUNCHERS if _launches(engine, way.plan))
        how = f"{way.how}; launched on {launchers}"
        yield "serving", way.row, SupportPart(part="serving", state="by hand", how=how)
    for part in (part for feature in FEATURES for part in feature.ways):
        yield "serving", part.part, replace(part, part="serving")


def _plan_ways() -> Iterator[PlanWay]:
    return (way for feature in FEATURES for way in feature.plans)


def _launches(engine: str, plan: Plan) -> bool:
    return launches(engine, plan, routed=True) and (LAUNCHERS[engine].encoders_apart or not plan.encoder_devices)


def device_support(profile: DeviceProfile) -> SupportPart:
    if profile.calibration is None:
        how = "; ".join(filter(None, (fit_of(profile), profile.source))) or "stated figures"
        own: State = "fitted" if profile.fitted_from == profile.name else "carried"
        return SupportPart(part="device", state=own if profile.fitted_from else "data sheet", how=how)
    calibration = calibration_from_json(profile.calibration)
    if calibration.carried_from:
        return SupportPart(part="device", state="carried", how=f"kernels of {calibration.carried_from}, by its rates")
    errors = sorted(entry.median_ape for entry in calibration.accuracy.values())
    middle = f"median error {errors[len(errors) // 2]:.1f} % of {len(errors)} kernels" if errors else "measured kernels"
    if calibration.carried:
        middle += f", {len(calibration.carried)} others {_stand_ins(calibration)}"
    return SupportPart(part="device", state="fitted", how=middle)


def _stand_ins(calibration: Calibration) -> str:
    if calibration.donor is None:
        return "as the nearest kernels of the device"
    return f"of {calibration.donor}, scaled"


def engine_support(name: str) -> SupportPart:
    fitted = fitted_engine(name)
    pairs = len(fitted.held_out)
    if not pairs:
        return SupportPart(part="engine", state="stated", how="numbers that fits start from; nobody measured it")
    how = f"{fitted.profile.admission} prompts; measured servers of {pairs} devices with models"
    return SupportPart(part="engine", state="fitted", how=how)


def _of_launches(engine: str) -> Iterator[SupportPart]:
    named = rule_of(engine)
    for way in _plan_ways():
        if named is not None and _launches(named, way.plan):
            yield SupportPart(part=f"{way.name}, launched", state="exact", how="launch files have its flags")
        else:
            yield refused(f"{way.name}, launched", f"evaluated; no launch file of {engine} has it")


def _of_kernels(spec: ModelSpec, profile: DeviceProfile) -> Iterator[SupportPart]:
    cost = cost_model(profile, "physical")
    sets = _operators(spec, profile)
    kinds = sorted({operator.kind for one in sets for operator in one.operators})
    if not isinstance(cost, CalibratedCost):
        yield SupportPart(part=", ".join(kinds), state="data sheet", how="rates, memory and links of its data sheet")
        return
    named = _NamingCost(**{name: getattr(cost, name) for name in ("profile", "calibration", "figures", "routing")})
    sums = repeated(request_sums(64.0, 512.0, windows=spec.spans), 8.0)
    for one in sets:
        for operator in one.operators:
            named.kind[0] = operator.kind
            operator_seconds(operator, named, sums)
    for kind in kinds:
        kernels = sorted(named.asked.get(kind, ())) or _of_collective(kind, cost.calibration)
        if kind in MIXER_KINDS:
            yield _of_mixer(kind, cost)
        elif kernels:
            yield _of_fit(kind, kernels, cost.calibration)
        else:
            state: State = "carried" if cost.calibration.carried_from else "fitted"
            yield SupportPart(part=kind, state=state, how="inside the measured kernels of others")


def _of_collective(kind: str, calibration: Calibration) -> list[str]:
    if kind not in COLLECTIVE_KINDS:
        return []
    wanted = "all_gather" if kind == "send_receive" else kind
    return [
        name for name in sorted(calibration.kernels) if name in {f"collective.{wanted}", f"collective.{wanted}_custom"}
    ]


def _native(spec: ModelSpec) -> Precision:
    try:
        return check_precision(replace(usual_precision(spec, "physical"), attention="DISABLED"))
    except InputError:
        return Precision()


def _operators(spec: ModelSpec, profile: DeviceProfile) -> list[OperatorSet]:
    plan = Plan(tp=2, ep=2) if spec.routed else Plan(tp=2)
    scenario = Scenario(
        model=spec,
        device=profile,
        precision=_native(spec),
        plan=plan if illegality(spec, plan, 2) is None else Plan(),
        workload=_WORKLOAD,
        phase="aggregated",
    )
    return [operators_of_request(request) for request in capture_requests(scenario).values()]


def _of_mixer(kind: str, cost: CalibratedCost) -> SupportPart:
    measured = mixer_device(cost.profile, cost.calibration, kind)
    if measured is None:
        return SupportPart(part=kind, state="data sheet", how="rates, memory and efficiencies of its data sheet")
    error = f"median error {mixer_error(measured, kind):.1f} %"
    if kind in UNMEASURED:
        how = f"as {UNMEASURED[kind]} of {measured} ({error}): no kernel of it was measured"
        return SupportPart(part=kind, state="carried", how=how)
    if measured != cost.calibration.device:
        return SupportPart(part=kind, state="carried", how=f"kernels of {measured} ({error}), by the device's rates")
    return SupportPart(part=kind, state="fitted", how=f"measured kernels, {error}")


def _of_fit(kind: str, kernels: list[str], calibration: Calibration) -> SupportPart:
    names = ", ".join(kernels)
    if calibration.carried_from:
        return SupportPart(part=kind, state="carried", how=f"{names} of {calibration.carried_from}")
    if other := [name for name in kernels if name in calibration.carried]:
        return SupportPart(part=kind, state="carried", how=f"{', '.join(other)} {_stand_ins(calibration)}")
    known = [calibration.accuracy[name].median_ape for name in kernels if name in calibration.accuracy]
    if not known:
        return SupportPart(part=kind, state="stated", how=f"{names}: coefficients stated, not fitted")
    return SupportPart(part=kind, state="fitted", how=f"{names}: median error {max(known):.1f} %")


@dataclass(frozen=True, slots=True, kw_only=True)
class _NamingCost(CalibratedCost):
    """Notes the kernels that operators ask for."""

    kind: list[str] = field(default_factory=lambda: [""])
    asked: dict[str, set[str]] = field(default_factory=dict)

    def _price(self, name: str, form: str, inputs: Inputs) -> Parts:
        self.asked.setdefault(self.kind[0], set()).add(name)
        return CalibratedCost._price(self, name, form, inputs)  # noqa: SLF001  its own base, which slots hide from super
