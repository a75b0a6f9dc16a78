"""One scenario at every batch size, in one vectorised call: pure."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import FloatArray, Integers
from evaluator.features import refusal, said, said_of_cost
from evaluator.graph.capture.capture_request import CaptureRequest, Trace
from evaluator.graph.operators import OperatorSet
from evaluator.inputs.devices.device import DeviceProfile
from evaluator.inputs.formats import Precision, linear_format
from evaluator.inputs.images import Images
from evaluator.inputs.launch import LOAD, Plan, Routing, busiest_load
from evaluator.inputs.model import ModelSpec
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.cost_model import CostModel
from evaluator.pricing.memory import transfer_bytes
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.probe_block import ProbeBlock, joined_blocks
from evaluator.same_objects import SameObjects
from evaluator.scenario import Scenario, evened_out, serving_engine
from evaluator.serving.batches import BatchSource
from evaluator.serving.interface import Run, ServingModel
from evaluator.serving.models import serving_model_of
from evaluator.serving.occupancy import kv_cache_bits, memory_bytes
from evaluator.serving.waves.mixed import MixedLengths
from evaluator.serving.waves.side_by_side import SideBySide
from store.errors import InputError
from store.schema import MEASURES, Convention, Phase

LEAST_UNPADDED_TP = 8  # from which vLLM takes another kernel for experts by itself (its pull request 29346)
Columns = dict[str, NDArray[Any]]
_TRACES: Mapping[Phase, tuple[Trace, ...]] = {
    "prefill": ("prefill",),
    "decode": ("decode",),
    "aggregated": ("prefill", "decode"),
}


def traces_of(phase: Phase) -> tuple[Trace, ...]:
    return _TRACES[phase]


def capture_requests(scenario: Scenario) -> dict[Trace, CaptureRequest]:
    """Captures that evaluate_scenario's `operators` must hold."""
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
    """Only ranks that share it and stages without it decide its operators."""
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
    """As upstream quantises attention; blank where it does not."""
    named = precision.cache.lower()
    return named if convention == "upstream" and named != "disabled" else ""


def cost_of(scenario: Scenario) -> CostModel:
    """Calibrated models also depend on how tokens fall on experts."""
    stated = scenario.routing.startswith(LOAD)  # of the server as it is, its copies of experts included
    routing = "balanced" if evened_out(scenario) and not stated else scenario.routing
    engine = serving_engine(scenario)
    rows = engine.expert_rows if engine is not None and scenario.plan.tp < LEAST_UNPADDED_TP else 0
    return cost_model(scenario.device, scenario.convention, routing, rows)


@functools.lru_cache(maxsize=64)
def cost_model(
    device: DeviceProfile, convention: Convention, routing: Routing = "balanced", expert_rows: int = 0
) -> CostModel:
    """A calibration is read once, not once a scenario."""
    load = busiest_load(routing)
    if device.family == "theoretical":
        return TheoreticalCost(device=device, convention=convention, load=load)
    from evaluator.pricing.calibrated import calibrated_cost

    measured = "balanced" if routing.startswith(LOAD) else routing
    return calibrated_cost(device, routing=measured, load=load, expert_rows=expert_rows)


def assumptions_of(scenario: Scenario, operators: Mapping[str, OperatorSet]) -> tuple[str, ...]:
    """For readers of the numbers: missing dtypes, operators without a formula."""
    model = cost_of(scenario)
    sets = [operators[trace] for trace in (*traces_of(scenario.phase), "encoder") if trace in operators]
    sentences = (
        *model.assumptions,
        *said(scenario),
        *(f"not priced, no formula: {name}" for one in sets for name in one.unmodelled),
        *serving_model_of(scenario).said(scenario),
        *said_of_cost(scenario, model, sets),
    )
    return tuple(dict.fromkeys(filter(None, sentences)))


def batch_source(scenario: Scenario) -> BatchSource:
    return serving_model_of(scenario).source(scenario)


def composition_of(scenario: Scenario, batch_sizes: Integers) -> tuple[Integers, Integers, Integers] | None:
    """(batch size, bin, its requests in a replica); None for fixed lengths."""
    source = batch_source(scenario)
    if not isinstance(source, MixedLengths):
        return None
    samples = source.composition(np.asarray(batch_sizes, dtype=np.int64) * scenario.plan.pp)
    row, column = np.nonzero(samples)
    return np.asarray(batch_sizes, dtype=np.int64)[row], column.astype(np.int64), samples[row, column]


def unsupported(scenario: Scenario) -> InputError | None:
    """Why a feature or the serving model does not cover it. Nothing is traced."""
    if (refused := refusal(scenario)) is not None:
        return refused
    model = serving_model_of(scenario)
    return model.refusal(scenario, model.source(scenario))


def evaluate_scenario(scenario: Scenario, batch_sizes: Integers, operators: Mapping[str, OperatorSet]) -> ProbeBlock:
    return evaluate_run(
        Run(
            scenario=scenario,
            operators=operators,
            source=batch_source(scenario),
            cost=cost_of(scenario),
            batch_sizes=np.asarray(batch_sizes, dtype=np.int64),
        )
    )


def evaluate_run(run: Run) -> ProbeBlock:
    model = serving_model_of(run.scenario)
    return joined_blocks(
        [_evaluated(model, replace(run, batch_sizes=run.batch_sizes[part])) for part in model.parts(run)]
    )


def _evaluated(model: ServingModel, run: Run) -> ProbeBlock:
    phases = {"prefill": model.prefill, "decode": model.decode, "aggregated": model.aggregated}
    return replace(_blank(run), **phases[run.scenario.phase](run))


def _blank(run: Run) -> ProbeBlock:
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
