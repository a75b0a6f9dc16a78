"""Parts of a model, a device and an engine: whether each is exact, fitted, carried over or refused.

Not here: how far whole answers have been off (the ledger), and what one scenario assumes (evaluator.evaluate)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from evaluator.calibration.forms import Inputs, Parts
from evaluator.calibration.mixer_kernels import MIXER_KINDS, UNMEASURED, mixer_device, mixer_error
from evaluator.defaults import usual_precision
from evaluator.evaluate import capture_requests, cost_model
from evaluator.graph import OperatorSet, capture_operators
from evaluator.graph.operators import COLLECTIVE_KINDS
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.devices.calibration_record import Calibration, calibration_from_json
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.devices.device_profiles import list_devices, load_device
from evaluator.inputs.devices.device_profiles import resolve as resolve_device
from evaluator.inputs.drafts.speculation import acceptance_table, list_acceptance, missing_draft, no_drafter
from evaluator.inputs.engines.engine_profiles import fitted_engine, list_engines
from evaluator.inputs.formats import check_precision
from evaluator.inputs.launchable import RULES, rule_of
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.models import list_models, load_model
from evaluator.inputs.plan import Plan
from evaluator.inputs.plan_search import divides_prompts, holds_shares, illegality
from evaluator.inputs.precision import Precision
from evaluator.inputs.vision.tower import VisionTower
from evaluator.inputs.workloads.workload import Workload
from evaluator.inputs.yaml_file import shortened
from evaluator.pricing.calibrated import CalibratedCost
from evaluator.pricing.step import operator_seconds
from evaluator.scenario import Scenario
from evaluator.serving.engine.tier_loads import HOST_EFFICIENCY
from store.errors import InputError

State = Literal["exact", "by hand", "fitted", "carried", "stated", "data sheet", "left out", "refused", "measured"]
_WORKLOAD = Workload(input_length=1024, output_length=128.0)
_ENCODERS = (
    "one prompt's images after another, embeddings moved; engines, one prompt length; refused: formulas, distributions,"
    " keys outside the devices beside them"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportPart:
    """One part of a model, device or engine, and how well it is known."""

    part: str
    state: State
    how: str


def supported(model: str | None, device: str | None = None, engine: str | None = None) -> tuple[SupportPart, ...]:
    """Every part of what is named; kernels where a model and a device are."""
    found: list[SupportPart] = []
    spec = None
    if model is not None:
        try:
            model, spec = load_model(model)
        except InputError as error:
            return (SupportPart(part="model", state="refused", how=error.message),)
        found += _of_model(spec)
        found += _of_options(model, spec)
    profile = None if device is None else load_device(device)
    if profile is not None:
        found.append(device_support(profile))
        found += _of_tiers(profile)
    if spec is not None and profile is not None:
        found += _of_kernels(spec, profile)
    if engine is not None:
        found.append(engine_support(engine))
        found += _of_launches(engine)
    return tuple(found)


def supported_words(words: Sequence[str]) -> tuple[SupportPart, ...]:
    """Every part of a model, a device and an engine, of those that are named, in any order.

    A word that names a shipped engine is one, of those left one that names a device, and the rest is the model."""
    kinds: dict[str, str] = {}
    for word in words:
        kind = "engine" if word in list_engines() else "device" if _is_device(word, words) else "model"
        if kind in kinds:
            hint = "one of each: `sweepdb support MODEL DEVICE ENGINE`"
            raise InputError(f"two names of a {kind}: {shortened(kinds[kind])} and {shortened(word)}", hint=hint)
        kinds[kind] = word
    return supported(kinds.get("model"), kinds.get("device"), kinds.get("engine"))


def _is_device(word: str, words: Sequence[str]) -> bool:
    """Whether a word is a device: a known name, a file, or what stands between a model and an engine."""
    if word.endswith((".yaml", ".yml")):
        return True
    try:
        resolve_device(word)
    except InputError:
        return len(words) > 1 and words[1] == word
    return True


def support_table() -> tuple[tuple[str, str, SupportPart], ...]:
    """(model, device or engine; its name; how well it is known) of everything that ships."""
    models = [("model", name, next(_of_model(load_model(name)[1]))) for name in list_models()]
    devices = [("device", name, device_support(load_device(name))) for name in list_devices()]
    engines = [("engine", name, engine_support(name)) for name in list_engines()]
    drafts = (("drafts", name, _of_drafts(name)) for name in list_acceptance())
    return (*models, *devices, *engines, *drafts, *_of_serving())


def _of_serving() -> Iterator[tuple[str, str, SupportPart]]:
    """Ways of serving beside the usual splits: which are priced, and which engines are started with them."""
    context, copies = Plan(tp=8, ep=8, dcp=8), Plan(dp=8, ep=8, redundant_experts=8)
    prompts, halves = Plan(pcp=8, ep=8), Plan(dp=8, ep=8, micro_batches=2)
    for name, plan, how in (
        ("decode context parallelism (dcp_sizes)", context, "shares of every context, gathered queries, summed parts"),
        ("prefill context parallelism (pcp_sizes)", prompts, "shares of every prompt, new keys and values gathered"),
        ("copies of experts (redundant_experts)", copies, "slots over which tokens fall evenly"),
        ("two batches that overlap (micro_batches)", halves, "rows of one half exchanged beside the other's products"),
        ("encoders on devices of their own (encoder_devices)", Plan(encoder_devices=1), _ENCODERS),
    ):
        launchers = ", ".join(engine for engine in RULES if _launches(engine, plan))
        yield "serving", name, SupportPart(part="serving", state="by hand", how=f"{how}; launched on {launchers}")
    load = "the busiest device of experts gets F times the tokens of the mean one"
    yield "serving", "uneven experts (routing load_F)", SupportPart(part="serving", state="stated", how=load)
    skewed = "measured kernels under a power law of exponent 1.2"
    yield "serving", "uneven experts (routing power_law_1.2)", SupportPart(part="serving", state="fitted", how=skewed)
    for name, state, how in _WAYS:
        yield "serving", name, SupportPart(part="serving", state=state, how=how)


# Ways of serving that are no size of a plan alone; refused combinations are named by evaluate, too.
_TIERS = (
    "shares of prompts, stated or by a log's own prefixes (trace_caches), read at the rates of a device's link or"
    " stated ones: engines, formulas, requests that arrive and logs; refused: pipeline stages, upstream, pools"
)
_IMAGES = (
    "encoders as their classes', kernels fitted on devices with measured ones; loops, formulas, requests that arrive"
    " and logs that state theirs; refused: upstream, pools of prefill instances; videos and sound are left out"
)
_DRAFTS = "published acceptance lengths, listed below; drafts beside a model are priced by their own layers"
_DRAFT_MODELS = (
    "every pass a step of the model that drafts, on the same ranks, in its own format; what its drafts gain is stated;"
    " launched on vllm, sglang, trtllm; refused: routed experts, linear states and chosen keys in it"
)
_ROLES = "each side by its own device's kernels, keys moved over the prefill side's outermost link"
_WAYS: tuple[tuple[str, State, str], ...] = (
    ("keys in hosts' memory, on SSDs or remote (host_hit_rate ...)", "stated", _TIERS),
    ("images of requests (images, image_size)", "exact", _IMAGES),
    ("drafts by a named table (speculative NAME:k)", "measured", _DRAFTS),
    ("drafts by a whole model (speculative MODEL:k)", "by hand", _DRAFT_MODELS),
    ("prefill and decode on different devices (prefill_device, decode_device)", "fitted", _ROLES),
)


def _launches(engine: str, plan: Plan) -> bool:
    """Whether files are written that start a plan of a mixture of experts."""
    return RULES[engine](plan, True) and not (plan.encoder_devices and engine != "sglang")


def _of_drafts(name: str) -> SupportPart:
    table = acceptance_table(name)
    lengths = ", ".join(f"{one:g}" for one in table.tokens_per_step)
    how = f"{table.model}, {table.method}: {lengths} tokens a step at 1 to {len(table.tokens_per_step)} drafts"
    missing = None if table.model is None else missing_draft(table, load_model(table.model)[1])
    if missing is not None:
        return SupportPart(part="drafts", state="refused", how=f"{how}; {missing}")
    return SupportPart(part="drafts", state="measured", how=how)


def device_support(profile: DeviceProfile) -> SupportPart:
    """Whether a device's kernels were measured, are those of another, or follow from its data sheet."""
    if profile.calibration is None:
        return SupportPart(part="device", state="data sheet", how=f"{profile.source or 'stated figures'}")
    calibration = calibration_from_json(profile.calibration)
    if calibration.carried_from:
        return SupportPart(part="device", state="carried", how=f"kernels of {calibration.carried_from}, by its rates")
    errors = sorted(entry.median_ape for entry in calibration.accuracy.values())
    middle = f"median error {errors[len(errors) // 2]:.1f} % of {len(errors)} kernels" if errors else "measured kernels"
    if calibration.carried:
        middle += f", {len(calibration.carried)} others {_stand_ins(calibration)}"
    return SupportPart(part="device", state="fitted", how=middle)


def _stand_ins(calibration: Calibration) -> str:
    """Whose kernels those are that a device with kernels of its own lacks."""
    if calibration.donor is None:
        return "as the nearest kernels of the device"
    return f"of {calibration.donor}, scaled"


def engine_support(name: str) -> SupportPart:
    """Whether an engine's numbers were fitted to measured servers."""
    fitted = fitted_engine(name)
    pairs = len(fitted.held_out)
    if not pairs:
        return SupportPart(part="engine", state="stated", how="numbers that fits start from; nobody measured it")
    how = f"{fitted.profile.admission} prompts; measured servers of {pairs} devices with models"
    return SupportPart(part="engine", state="fitted", how=how)


def _of_model(spec: ModelSpec) -> Iterator[SupportPart]:
    how = "parameters and products are those of the Hugging Face class"
    if spec.residual_block:  # no class has these
        yield SupportPart(part="model", state="by hand", how="parameters of its released tensors; no class holds it")
    else:
        yield SupportPart(part="model", state="exact", how=how)
    yield from _of_encoders(spec)
    named = {
        "linears": spec.native_linear,
        "experts": spec.native_experts,
        "mixers": spec.native_mixers,
        "head": spec.native_head,
        "drafts": spec.native_drafts,
    }
    for part, name in named.items():
        if name is None:
            continue
        try:
            check_precision(Precision(linear=name))
        except InputError as error:
            yield SupportPart(part=f"format of {part}", state="refused", how=error.message)
        else:
            yield SupportPart(part=f"format of {part}", state="exact", how=f"{name}, as published")
    yield _of_context(spec)
    if all(map(divides_prompts, spec.layers)):
        yield SupportPart(part="prefill context parallelism", state="by hand", how="new keys and values are gathered")
    else:
        why = "layers of linear states, compressed entries or chosen blocks"
        yield SupportPart(part="prefill context parallelism", state="refused", how=why)


def _of_options(name: str | None, spec: ModelSpec) -> Iterator[SupportPart]:
    """Two batches, copies of experts, encoders apart and drafts: what of them this model can have."""
    dense = "a dense model exchanges no rows of experts"
    for part, how in (("two micro-batches", "halves of a batch"), ("copies of experts", "slots beside the experts")):
        yield SupportPart(part=part, state="by hand" if spec.routed else "refused", how=how if spec.routed else dense)
    if isinstance(spec.vision, VisionTower):
        yield SupportPart(part="encoders on devices of their own", state="by hand", how=_ENCODERS)
    if spec.mtp_layers:
        like = "layers of the model" if spec.draft_layer is None else "layers of their own shape"
        how = f"{spec.mtp_layers} MTP {'layer' if spec.mtp_layers == 1 else 'layers'}, priced as {like}"
        yield SupportPart(part="own drafts", state="exact", how=how)
    why = no_drafter(spec)
    how = f"speculative {name}:k for another model of its tokens" if why is None else why
    yield SupportPart(part="drafts for other models", state="by hand" if why is None else "refused", how=how)
    for table in list_acceptance():
        measured = acceptance_table(table).model
        if measured is not None and load_model(measured)[1].layers == spec.layers:
            found = _of_drafts(table)
            yield SupportPart(part=f"drafts by {table}", state=found.state, how=found.how)


def _of_tiers(profile: DeviceProfile) -> Iterator[SupportPart]:
    """Rates at which a device reads keys that lie outside."""
    if profile.host_link_bytes_per_s:
        rate = 1e-9 * HOST_EFFICIENCY * profile.host_link_bytes_per_s
        how = f"{rate:.4g} GB/s, {HOST_EFFICIENCY:g} of the host link of its data sheet"
        yield SupportPart(part="keys in the hosts' memory", state="data sheet", how=how)
    else:
        how = "no host link is stated: needs `host_gb_per_s`"
        yield SupportPart(part="keys in the hosts' memory", state="refused", how=how)
    yield SupportPart(part="keys on SSDs", state="refused", how="no rate is stated: needs `ssd_gb_per_s`")
    outer = profile.links[0]
    how = f"{1e-9 * outer.bandwidth_bytes_per_s * outer.efficiency:.4g} GB/s, its link to other hosts"
    yield SupportPart(part="keys in a remote store", state="data sheet", how=how)


def _of_launches(engine: str) -> Iterator[SupportPart]:
    """Ways of serving that files are written for, under the engine's rule."""
    named = rule_of(engine)
    for part, plan in (
        ("decode context parallelism", Plan(tp=8, ep=8, dcp=8)),
        ("prefill context parallelism", Plan(pcp=8, ep=8)),
        ("copies of experts", Plan(dp=8, ep=8, redundant_experts=8)),
        ("two micro-batches", Plan(dp=8, ep=8, micro_batches=2)),
        ("encoders on devices of their own", Plan(encoder_devices=1)),
    ):
        can = named is not None and _launches(named, plan)
        how = "launch files have its flags" if can else f"evaluated; no launch file of {engine} has it"
        yield SupportPart(part=f"{part}, launched", state="exact" if can else "refused", how=how)


def _of_encoders(spec: ModelSpec) -> Iterator[SupportPart]:
    """Encoders of images: read, so that requests may have some, or why not; those of sound are left out."""
    if isinstance(spec.vision, VisionTower):
        millions = round(spec.vision.parameters / 1e6)
        how = f"{millions:,} M weights, as its class; priced where requests have `images`, else text alone is evaluated"
        yield SupportPart(part="image encoder", state="exact", how=how)
    elif spec.left_out:
        how = spec.vision or "image tokens lengthen the prompt; encoding is free"
        yield SupportPart(part=spec.left_out, state="left out", how=how)


def _of_context(spec: ModelSpec) -> SupportPart:
    """Whether devices can hold shares of a context: every layer that keeps keys keeps those of all tokens."""
    part = "decode context parallelism"
    keeping = [group for group in spec.layers if group.attention is not None and group.attention.keeps_tokens]
    if not keeping:
        return SupportPart(part=part, state="left out", how="no layer keeps keys of tokens")
    if not all(map(holds_shares, keeping)):
        return SupportPart(part=part, state="refused", how="layers of windows, chosen keys or compressed entries")
    heads = max(getattr(group.attention, "kv_heads", 1) for group in keeping)
    copies = "all of tp" if heads == 1 else f"tp / {heads}"
    return SupportPart(part=part, state="by hand", how=f"dcp divides {copies}, devices that would hold the same keys")


def _of_kernels(spec: ModelSpec, profile: DeviceProfile) -> Iterator[SupportPart]:
    """The kernels that price each kind of operator on the device."""
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
    """The published formats, 16 bits where they are none."""
    try:
        return check_precision(replace(usual_precision(spec, "physical"), attention="DISABLED"))
    except InputError:
        return Precision()


def _operators(spec: ModelSpec, profile: DeviceProfile) -> list[OperatorSet]:
    """The operators of both traces, on two devices where the model can be split."""
    plan = Plan(tp=2, ep=2) if spec.routed else Plan(tp=2)
    scenario = Scenario(
        model=spec,
        device=profile,
        precision=_native(spec),
        plan=plan if illegality(spec, plan, 2) is None else Plan(),
        workload=_WORKLOAD,
        phase="aggregated",
    )
    return [capture_operators(request) for request in capture_requests(scenario).values()]


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
    """A calibration that notes which kernel each kind of operator asks for."""

    kind: list[str] = field(default_factory=lambda: [""])
    asked: dict[str, set[str]] = field(default_factory=dict)

    def _price(self, name: str, form: str, inputs: Inputs) -> Parts:
        self.asked.setdefault(self.kind[0], set()).add(name)
        return CalibratedCost._price(self, name, form, inputs)  # noqa: SLF001  its own base, which slots hide from super
