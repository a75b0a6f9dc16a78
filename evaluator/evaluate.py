"""One scenario, every batch size, in one vectorised call: pure, and free of torch once the operators are known.

Not here: which scenarios there are, what is stored, and whether a probe fits or meets a limit."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import FloatArray, Integers
from evaluator.graph.capture.capture_request import CaptureRequest
from evaluator.graph.operators import OperatorSet
from evaluator.graph.same_objects import SameObjects
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.formats import linear_format, slow_formats
from evaluator.inputs.launch import LOAD, Routing, busiest_load
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LatentAttention, LayerGroup, ModelSpec, MoeMlp
from evaluator.inputs.plan import Plan
from evaluator.inputs.precision import Precision
from evaluator.inputs.vision.images import Images
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.cost_model import CostModel
from evaluator.pricing.memory import transfer_bytes
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.probe_block import ProbeBlock, joined_blocks
from evaluator.scenario import Scenario, evened_out
from evaluator.serving.batches import BatchSource
from evaluator.serving.encoding import embedding_bytes
from evaluator.serving.engine.tier_loads import tier_refusal
from evaluator.serving.interface import Run, ServingModel
from evaluator.serving.models import serving_model_of
from evaluator.serving.occupancy import kv_cache_bits, memory_bytes
from evaluator.serving.waves.mixed import MixedLengths
from evaluator.serving.waves.side_by_side import SideBySide
from store.errors import InputError
from store.schema import MEASURES, Convention, Phase

Trace = Literal["prefill", "decode", "encoder"]
LANGUAGE_PART = "language part only: no "
Columns = dict[str, NDArray[Any]]
ROUTED: Mapping[Routing, str] = {"balanced": "if routed evenly", "power_law_1.2": "under a power law of exponent 1.2"}
_TRACES: Mapping[Phase, tuple[Trace, ...]] = {
    "prefill": ("prefill",),
    "decode": ("decode",),
    "aggregated": ("prefill", "decode"),
}


def traces_of(phase: Phase) -> tuple[Trace, ...]:
    """The operator sets that a phase needs."""
    return _TRACES[phase]


def capture_requests(scenario: Scenario) -> dict[Trace, CaptureRequest]:
    """The captures that `operators` of evaluate_scenario must hold.

    Look each request's key up, and capture what is not known."""
    wanted = dict(
        _step_requests(
            scenario.model,
            scenario.plan,
            scenario.precision,
            scenario.phase,
            scenario.convention,
            scenario.launch.compile,
        )
    )
    if scenario.workload.images is not None:
        wanted["encoder"] = _encoder_request(scenario, scenario.workload.images)
    return wanted


@SameObjects
def _step_requests(  # noqa: PLR0917  what decides the operators of steps
    model: ModelSpec, plan: Plan, precision: Precision, phase: Phase, convention: Convention, compiled: bool
) -> Mapping[Trace, CaptureRequest]:
    """The captures of the steps of a phase, whatever the device and the workload."""
    size = precision.mxfp4_group_size
    linear, experts = (
        linear_format(name, mxfp4_group_size=size, convention=convention)
        for name in (precision.linear, precision.experts or precision.linear)
    )
    mixers, head, drafts = (
        None if name is None else linear_format(name, mxfp4_group_size=size, convention=convention)
        for name in (precision.mixers, precision.head, precision.drafts)
    )
    return {
        trace: CaptureRequest(
            model=model,
            plan=replace(plan, encoder_devices=0),
            linear=linear,
            experts=experts,
            kv_bits=kv_cache_bits(precision),
            kv_dtype=_kv_dtype(precision, convention),
            trace=trace,
            compile=compiled,
            convention=convention,
            mixers=mixers,
            head=head,
            drafts=drafts,
        )
        for trace in traces_of(phase)
    }


def _encoder_request(scenario: Scenario, images: Images) -> CaptureRequest:
    """The encoder of a plan: what decides its operators are the ranks that share it and the stages that have none."""
    apart = scenario.plan.encoder_devices > 0  # each of them has the whole encoder
    half = linear_format("BF16", mxfp4_group_size=scenario.precision.mxfp4_group_size, convention=scenario.convention)
    return CaptureRequest(
        model=scenario.model,
        plan=Plan() if apart else Plan(tp=scenario.plan.tp, pp=scenario.plan.pp),
        linear=half,
        experts=half,
        kv_bits=16,
        kv_dtype="",
        trace="encoder",
        compile=True,
        tower=images.tower,
        tower_whole=images.split == "data" and not apart,
    )


def _kv_dtype(precision: Precision, convention: Convention) -> str:
    """The dtype that upstream quantises attention to; blank where it does not, or where the convention is ours."""
    named = precision.cache.lower()
    return named if convention == "upstream" and named != "disabled" else ""


def cost_of(scenario: Scenario) -> CostModel:
    """The cost model that prices a scenario: by its device, and for calibrated ones by how tokens fall on experts."""
    stated = scenario.routing.startswith(LOAD)  # of the server as it is, its copies of experts included
    routing = "balanced" if evened_out(scenario) and not stated else scenario.routing
    return cost_model(scenario.device, scenario.convention, routing)


@functools.lru_cache(maxsize=64)
def cost_model(device: DeviceProfile, convention: Convention, routing: Routing = "balanced") -> CostModel:
    """The cost model of the family that a device profile names. A calibration is read once, not once a scenario."""
    load = busiest_load(routing)
    if device.family == "theoretical":
        return TheoreticalCost(device=device, convention=convention, load=load)
    from evaluator.pricing.calibrated import calibrated_cost

    return calibrated_cost(device, routing="balanced" if routing.startswith(LOAD) else routing, load=load)


def assumptions_of(
    scenario: Scenario, operators: Mapping[str, OperatorSet], *, cost: CostModel | None = None
) -> tuple[str, ...]:
    """Sentences that a reader of the numbers should know, such as dtypes the device lacks, operators without a
    formula."""
    model = cost or cost_of(scenario)
    sets = [operators[trace] for trace in traces_of(scenario.phase)]
    said = _said_of_parts(scenario)
    if "encoder" in operators:
        sets.append(operators["encoder"])
    said += [f"not priced, no formula: {name}" for one in sets for name in one.unmodelled]
    said += serving_model_of(scenario).said(scenario)
    said += slow_formats(scenario.device, scenario.precision, scenario.convention)
    if isinstance(model, TheoreticalCost):
        dtypes = {one.matrix_dtype for chosen in sets for one in chosen.operators if not one.matrix_flops.is_zero}
        said += [model.said_of(dtype) for dtype in sorted(dtypes)]
    else:
        kinds = {one.kind for chosen in sets for one in chosen.operators}
        said += [sentence(kinds) for sentence in (getattr(model, "said_of_mixers", None),) if sentence is not None]
    if scenario.model.routed and scenario.routing.startswith(LOAD):
        said.append(f"the busiest device of experts gets {busiest_load(scenario.routing):g} times the mean's tokens")
    elif not isinstance(model, TheoreticalCost) and scenario.model.routed:
        evened = ", evened out by the server's copies of busy experts" if evened_out(scenario) else ""
        said.append(f"tokens fall on experts as {ROUTED[scenario.routing]}{evened}")
    return tuple(dict.fromkeys(sentence for sentence in (*model.assumptions, *said) if sentence))


def _said_of_parts(scenario: Scenario) -> list[str]:
    """Parts of the published model that are not evaluated; of images, what stands for them."""
    left_out, images = scenario.model.left_out, scenario.workload.images
    if images is None:
        return [f"{LANGUAGE_PART}{left_out}"] if left_out else []
    shared = {
        "weights": "tensor parallel ranks share the encoder's weights",
        "data": "each tensor parallel rank has the whole encoder and its share of a step's images",
    }
    number = f"{images.count} {'image' if images.count == 1 else 'images'} of {images.width}x{images.height} a request"
    cached = "; those that the prefix cache holds are not encoded" if scenario.workload.prefix_cache_hit_rate else ""
    where = "before its prompt" if scenario.plan.encoder_devices else "in the first step of a prompt"
    said = [
        f"{number}: {images.all_patches} patches and {images.tokens} prompt tokens each",
        f"the image encoder runs in 16 bits {where}, every image anew{cached}",
        "decoding and resizing images on the host is not priced",
        shared[images.split] if not scenario.plan.encoder_devices else _said_of_encoders(scenario, images),
    ]
    if "audio" in left_out:
        said.append("no audio encoder")
    return said


def _said_of_encoders(scenario: Scenario, images: Images) -> str:
    """Where the encoders are, and what comes from them."""
    number = scenario.plan.encoder_devices
    each = 1e-6 * embedding_bytes(scenario.model, images)
    return (
        f"{number} {'device' if number == 1 else 'devices'} of their own encode for each instance, which holds no"
        f" encoder then: {each:.3g} MB of an image come over the link to other hosts"
    )


def batch_source(scenario: Scenario) -> BatchSource:
    """The source of the batches that the scenario's workload fills."""
    return serving_model_of(scenario).source(scenario)


def composition_of(scenario: Scenario, batch_sizes: Integers) -> tuple[Integers, Integers, Integers] | None:
    """(batch size, index of the bin, requests of it in one replica) where there are any; None for fixed lengths."""
    source = batch_source(scenario)
    if not isinstance(source, MixedLengths):
        return None
    samples = source.composition(np.asarray(batch_sizes, dtype=np.int64) * scenario.plan.pp)
    row, column = np.nonzero(samples)
    return np.asarray(batch_sizes, dtype=np.int64)[row], column.astype(np.int64), samples[row, column]


def unsupported(scenario: Scenario) -> InputError | None:
    """Why the serving model of a scenario does not cover it; None where it does. Nothing is traced to know."""
    model, spec, workload = serving_model_of(scenario), scenario.model, scenario.workload
    if scenario.convention == "upstream" and (part := _not_upstream(scenario)):
        return InputError(f"`convention=upstream` has {part}", hint="`convention=physical`")
    if workload.images is not None and (refused := _images_refused(scenario, workload.images)):
        return refused
    if workload.tiers and model.engine(scenario) is None:
        if scenario.plan.pp > 1:
            part = f"{scenario.serving_model} reads no keys from outside the devices for pipeline stages"
            return InputError(part, hint="plans of one stage: `pp_sizes=1`")
        if (refused := tier_refusal(scenario)) is not None:
            return refused
    if spec.draft_states and not _drafts_beside(spec):
        return InputError("a draft beside a model is one layer of grouped queries or latent attention and a dense MLP")
    return model.refusal(scenario, model.source(scenario))


def _not_upstream(scenario: Scenario) -> str:
    """Name what of a scenario upstream's formulas do not have; empty where they have all of it."""
    spec, plan = scenario.model, scenario.plan
    of_two_sums = spec.residual_streams > 1 or spec.residual_block or spec.output_norms
    plain = not of_two_sums and not spec.draft_groups
    if not (plain and all(map(_known_upstream, spec.layers))):
        return "no sparse attention, no linear states, no layers of one part and none of parts side by side"
    if max(plan.dcp, plan.pcp, plan.micro_batches) > 1 or plan.redundant_experts:
        return "no shares of a context or a prompt, no copies of experts and no micro-batches"
    precision = scenario.precision
    if any(name is not None for name in (precision.mixers, precision.head, precision.drafts)):
        return "one format of all linears: no other of mixers, the head or drafts"
    if scenario.workload.tiers:
        return "no keys outside the devices"
    return "no images" if scenario.workload.images is not None else ""


def _images_refused(scenario: Scenario, images: Images) -> InputError | None:
    """Why requests of this scenario cannot have images; None where they can."""
    workload, tp = scenario.workload, scenario.plan.tp
    if scenario.plan.encoder_devices:
        return _encoders_refused(scenario, images)
    if images.split == "weights" and images.tower.heads % tp:
        heads = f"the {images.tower.heads} heads of the image encoder do not divide over tp {tp}"
        return InputError(heads, hint="`encoder_split=data` gives each rank the whole encoder")
    if not workload.bins:
        return None
    if serving_model_of(scenario).engine(scenario) is None:
        mixed = f"`serving_model={scenario.serving_model}` has images with one prompt length, not with a distribution"
        return InputError(mixed, hint="an engine has both: `serving_model=vllm`")
    if any(_hit_rates(workload)):
        return InputError("`prefix_cache_hit_rate` with `images` is of one prompt length, not of a distribution")
    return None


def _encoders_refused(scenario: Scenario, images: Images) -> InputError | None:
    """Why no devices of their own can encode for a scenario; None where they can."""
    if serving_model_of(scenario).engine(scenario) is None:
        part = f"{scenario.serving_model} has no encoders on devices of their own"
        return InputError(part, hint="an engine has: `serving_model=vllm`")
    if images.split == "data":
        return InputError(
            "`encoder_split=data` is of encoders inside an instance, `encoder_devices` of those beside it",
            hint="leave one of them out",
        )
    if scenario.workload.tiers:
        return InputError("`encoder_devices` are not evaluated beside keys outside the devices")
    if scenario.workload.bins:
        return InputError("`encoder_devices` are evaluated with one prompt length, not with a distribution")
    return None


def _hit_rates(workload: Workload) -> Iterator[float]:
    for bin_ in workload.bins:
        own = bin_.prefix_cache_hit_rate
        yield workload.prefix_cache_hit_rate if own is None else own


def _drafts_beside(spec: ModelSpec) -> bool:
    """Whether what drafts is a layer that can stand beside a model."""
    layer = spec.draft_layer
    kinds = LatentAttention if spec.draft_block else GroupedQueryAttention | LatentAttention
    if layer is None or layer.parallel_mlp:
        return False
    return isinstance(layer.attention, kinds) and isinstance(layer.mlp, DenseMlp)


def _known_upstream(group: LayerGroup) -> bool:
    """Whether a layer is of two parts that the program behind that convention has."""
    if not isinstance(group.attention, GroupedQueryAttention | LatentAttention) or group.mlp is None:
        return False
    if group.beside is not None or group.parallel_mlp:
        return False
    newer = ["chosen_keys", "indexer", "output_gate", "head_gate", "unscaled_norm", "values_are_keys"]
    if isinstance(group.attention, GroupedQueryAttention):  # latent attention has always had one
        newer.append("value_head_dim")
    other = isinstance(group.mlp, MoeMlp) and (
        group.mlp.apart_norms or group.mlp.latent_size is not None or group.mlp.idle_experts or group.mlp.shortcut
    )
    routed = other or (isinstance(group.mlp, MoeMlp) and not group.mlp.gated)
    turned = getattr(group.attention, "rope_fraction", None) is not None
    return (
        not routed
        and not turned
        and not group.chunked
        and not any(getattr(group.attention, name, None) for name in newer)
    )


def evaluate_scenario(
    scenario: Scenario,
    batch_sizes: Integers,
    operators: Mapping[str, OperatorSet],
    *,
    source: BatchSource | None = None,
    cost: CostModel | None = None,
) -> ProbeBlock:
    """The probes of a scenario. `operators` holds the sets of `traces_of(phase)` by trace."""
    model = serving_model_of(scenario)
    return evaluate_run(
        Run(
            scenario=scenario,
            operators=operators,
            source=source or model.source(scenario),
            cost=cost or cost_of(scenario),
            batch_sizes=np.asarray(batch_sizes, dtype=np.int64),
        )
    )


def evaluate_run(run: Run) -> ProbeBlock:
    """The probes of a run: of one scenario, or of several whose batches stand side by side."""
    model = serving_model_of(run.scenario)
    return joined_blocks(
        [_evaluated(model, replace(run, batch_sizes=run.batch_sizes[part])) for part in model.parts(run)]
    )


def _evaluated(model: ServingModel, run: Run) -> ProbeBlock:
    phases = {"prefill": model.prefill, "decode": model.decode, "aggregated": model.aggregated}
    return replace(_blank(run), **phases[run.scenario.phase](run))


def _blank(run: Run) -> ProbeBlock:
    """Every column that all phases have; the others are absent."""
    scenario, nothing = run.scenario, np.full(run.batch_sizes.shape, np.nan)
    absent: Columns = dict.fromkeys(_ABSENT, nothing)
    if isinstance(run.source, MixedLengths):
        absent["realised_input_length_mean"] = run.source.realised_mean(run.requests)
    memory = memory_bytes(run)
    return ProbeBlock(
        batch_size=run.batch_sizes,
        concurrency=run.batch_sizes * scenario.plan.dp * scenario.plan.pp,
        weight_bytes=np.full(run.batch_sizes.shape, memory.weights, dtype=np.int64),
        kv_cache_bytes=_whole(memory.kv_full),
        kv_cache_mean_bytes=_whole(memory.kv_mean),
        activation_bytes=_whole(memory.activations),
        kv_bytes_per_request=moved_bytes(run),
        **absent,
    )


def moved_bytes(run: Run) -> Integers:
    """KV cache of a prompt, which a pair moves."""
    scenario, source = run.scenario, run.source
    if isinstance(source, SideBySide):
        return source.by_batch([_prompt_bytes(scenario, workload) for workload in source.workloads])
    return np.full(run.batch_sizes.shape, _prompt_bytes(scenario, scenario.workload), dtype=np.int64)


def _prompt_bytes(scenario: Scenario, workload: Workload) -> int:
    prompts = [(bin_.weight, float(bin_.input_length)) for bin_ in workload.bins] or [
        (1.0, float(workload.input_length or 0))
    ]
    bits = kv_cache_bits(scenario.precision)
    moved = sum(weight * transfer_bytes(scenario.model, bits, tokens) for weight, tokens in prompts)
    return round(moved / sum(weight for weight, _ in prompts))


_ABSENT = tuple(column.name for column in MEASURES if column.nullable)


def _whole(values: FloatArray) -> Integers:
    return np.rint(values).astype(np.int64)
