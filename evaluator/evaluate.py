"""One scenario, every batch size, in one vectorised call: pure, and free of torch once the operators are known.

Not here: which scenarios there are, what is stored, and whether a probe fits or meets a limit."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from evaluator.capture.request import CaptureRequest
from evaluator.cost import KINDS, CostModel
from evaluator.cost.theoretical import TheoreticalCost
from evaluator.device import DeviceProfile
from evaluator.formats import linear_format
from evaluator.memory import transfer_bytes
from evaluator.occupancy import kv_cache_bits, memory_bytes
from evaluator.operators import OperatorSet
from evaluator.probe_block import ProbeBlock, joined
from evaluator.serving.batches import BatchSource, FixedLengths
from evaluator.serving.closed_run import closed_loop_times, decodes_alone, engine_of, prompts_alone, refusal
from evaluator.serving.engines import described, label_of_engine, list_engines
from evaluator.serving.formulas import PrefillCompletion, RequestTimes, aggregated_times, tokens_per_step
from evaluator.serving.mixed import MixedLengths, PrefillRule
from evaluator.serving.phases import Convention, Integers, Phase, Run, Scenario, decode_period, prefilled, shared_steps
from evaluator.serving.shared_mixed import mixed_prefilled, shared_mixed_steps
from evaluator.step import StepTimes
from evaluator.sums import FloatArray
from evaluator.workload import Workload
from store.errors import InputError

Trace = Literal["prefill", "decode"]
Columns = dict[str, NDArray[Any]]
# waves: seed 001's formulas; seed002: a mixed-length prefill batch runs whole; engines play a closed loop.
SERVING_MODELS = ("waves", "seed002", *list_engines())
MS = 1000.0
LARGEST_BATCH = 8192  # a replica (design decision 9)
LARGEST_WAVES = 64
_FIRST_BLOCK = 512
_TRACES: Mapping[Phase, tuple[Trace, ...]] = {
    "prefill": ("prefill",),
    "decode": ("decode",),
    "aggregated": ("prefill", "decode"),
}


def traces_of(phase: Phase) -> tuple[Trace, ...]:
    """The operator sets that a phase needs."""
    return _TRACES[phase]


def capture_requests(scenario: Scenario, *, compile_graphs: bool) -> dict[Trace, CaptureRequest]:
    """What `operators` of evaluate_scenario must hold: look each request's key up, and capture what is not known."""
    precision = scenario.precision
    linear, experts = (
        linear_format(name, mxfp4_group_size=precision.mxfp4_group_size, convention=scenario.convention)
        for name in (precision.linear, precision.experts or precision.linear)
    )
    return {
        trace: CaptureRequest(
            model=scenario.model,
            plan=scenario.plan,
            linear=linear,
            experts=experts,
            kv_bits=kv_cache_bits(precision),
            trace=trace,
            compile=compile_graphs,
            convention=scenario.convention,
        )
        for trace in traces_of(scenario.phase)
    }


@functools.lru_cache(maxsize=64)
def cost_model(device: DeviceProfile, convention: Convention) -> CostModel:
    """The family of cost model that a device profile says it has; a calibration is read once, not once a scenario."""
    if device.family == "theoretical":
        return TheoreticalCost(device=device, convention=convention)
    from evaluator.cost.calibrated import calibrated_cost

    return calibrated_cost(device)


def assumptions_of(
    scenario: Scenario, operators: Mapping[str, OperatorSet], *, cost: CostModel | None = None
) -> tuple[str, ...]:
    """What a reader of the numbers should know, one sentence each: dtypes the device lacks, operators without a
    formula."""
    model = cost or cost_model(scenario.device, scenario.convention)
    sets = [operators[trace] for trace in traces_of(scenario.phase)]
    said = [f"not priced, no formula: {name}" for one in sets for name in one.unmodelled]
    if (engine := engine_of(scenario)) is not None:
        said.append(f"engine {label_of_engine(scenario.engine or engine)}: {described(engine)}")
    if isinstance(model, TheoreticalCost):
        dtypes = {one.matrix_dtype for chosen in sets for one in chosen.operators if not one.matrix_flops.is_zero}
        said += [model.said_of(dtype) for dtype in sorted(dtypes)]
    return tuple(dict.fromkeys(sentence for sentence in (*model.assumptions, *said) if sentence))


def batch_source(scenario: Scenario) -> BatchSource:
    """What the workload puts into batches."""
    workload = scenario.workload
    windows = tuple(sorted({group.window for group in scenario.model.layers if group.window is not None}))
    single = _single_lengths(workload)
    if single is None:
        rule: PrefillRule = "whole" if scenario.serving_model == "seed002" else "packed"
        return mixed_lengths(workload, scenario.convention, rule, windows)
    input_length, output_length, hit_rate = single
    return FixedLengths(
        input_length=input_length,
        output_length=output_length,
        hit_rate=hit_rate,
        token_budget=workload.max_batched_tokens,
        convention=scenario.convention,
        replicas=scenario.plan.dp,
        windows=windows,
        tokens_per_decode=1 + workload.mtp_tokens,
    )


@functools.lru_cache(maxsize=4)
def mixed_lengths(
    workload: Workload, convention: Convention, rule: PrefillRule, windows: tuple[int, ...]
) -> MixedLengths:
    """One source for all plans and phases of a distribution: what it has composed and packed is used again."""
    return MixedLengths(
        bins=workload.bins,
        hit_rate=workload.prefix_cache_hit_rate,
        token_budget=workload.max_batched_tokens,
        convention=convention,
        rule=rule,
        windows=windows,
        tokens_per_decode=1 + workload.mtp_tokens,
    )


def _single_lengths(workload: Workload) -> tuple[int, float, float] | None:
    """(prompt, output, hit rate) where every request has the same; None where lengths are distributed."""
    if workload.input_length is not None:
        return workload.input_length, workload.output_length, workload.prefix_cache_hit_rate
    own = {
        (
            round(bin_.input_length),
            bin_.output_length,
            workload.prefix_cache_hit_rate if bin_.prefix_cache_hit_rate is None else bin_.prefix_cache_hit_rate,
        )
        for bin_ in workload.bins
    }
    return next(iter(own)) if len(own) == 1 else None


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
    return None if engine_of(scenario) is None else refusal(scenario, batch_source(scenario))


def evaluate_scenario(
    scenario: Scenario,
    batch_sizes: Integers,
    operators: Mapping[str, OperatorSet],
    *,
    source: BatchSource | None = None,
    cost: CostModel | None = None,
) -> ProbeBlock:
    """The probes of a scenario. `operators` holds the sets of `traces_of(phase)` by trace."""
    if scenario.engine is None and scenario.serving_model not in SERVING_MODELS:
        raise InputError(
            f"unknown serving model {scenario.serving_model!r}", hint=f"known: {', '.join(SERVING_MODELS)}"
        )
    run = Run(
        scenario=scenario,
        operators=operators,
        source=source or batch_source(scenario),
        cost=cost or cost_model(scenario.device, scenario.convention),
        batch_sizes=np.asarray(batch_sizes, dtype=np.int64),
    )
    phase = {"prefill": _prefill, "decode": _decode, "aggregated": _aggregated}[scenario.phase]
    if scenario.phase == "decode" or not isinstance(run.source, MixedLengths):
        return phase(run)
    blocks = run.source.blocks(run.requests)
    return joined([phase(replace(run, batch_sizes=run.batch_sizes[block])) for block in blocks])


def _prefill(run: Run) -> ProbeBlock:
    cost_s = run.scenario.serving_cost_ms / MS
    completion, full = _prefilled(run, cost_s)
    if (engine := engine_of(run.scenario)) is not None:
        alone = prompts_alone(run, engine)
        completion = replace(completion, mean=alone.mean + cost_s, makespan=alone.makespan + cost_s)
    return replace(
        _blank(run),
        **_prefill_columns(run, completion, full),
        ttft_ms=MS * completion.mean,
        makespan_ms=MS * completion.makespan,
    )


def _prefilled(run: Run, serving_cost_s: float) -> tuple[PrefillCompletion, StepTimes]:
    if isinstance(run.source, MixedLengths):
        return mixed_prefilled(run, run.source, serving_cost_s)
    return prefilled(run, serving_cost_s)


def _decode(run: Run) -> ProbeBlock:
    cost_s = run.scenario.serving_cost_ms / MS
    (step, quantiles), gained = _decode_periods(run, cost_s), _tokens_per_step(run)
    engine = engine_of(run.scenario)
    seconds = step.total if engine is None else decodes_alone(run, engine) + cost_s
    tpot = MS * seconds / gained
    columns = _decode_columns(run, step, gained) | quantiles
    return replace(_blank(run), **columns, tpot_inclusive_ms=tpot, tpot_exclusive_ms=tpot)


def _aggregated(run: Run) -> ProbeBlock:
    (step, quantiles), gained = _decode_periods(run, 0.0), _tokens_per_step(run)
    completion, times, full = _aggregated_times(run, step, gained)
    return replace(
        _blank(run),
        **_prefill_columns(run, completion, full),
        **_decode_columns(run, step, gained),
        **quantiles,
        ttft_ms=MS * completion.mean,
        makespan_ms=MS * completion.makespan,
        e2e_ms=MS * times.e2e,
        tpot_inclusive_ms=MS * times.tpot_inclusive,
        tpot_exclusive_ms=MS * times.tpot_exclusive,
    )


def _aggregated_times(run: Run, step: StepTimes, gained: float) -> tuple[PrefillCompletion, RequestTimes, StepTimes]:
    """Completion of the prompts, times of a request, and the first prefill step of each batch."""
    engine = engine_of(run.scenario)
    if isinstance(run.source, MixedLengths) and run.source.chunks > 1 and engine is None:
        return shared_mixed_steps(run, run.source, gained, step.total)
    completion, full = _prefilled(run, 0.0)
    if engine is not None:
        return *closed_loop_times(run, engine), full
    if run.source.chunks > 1 and isinstance(run.source, FixedLengths):
        return *shared_steps(run, run.source, gained), full
    convention, output = run.scenario.convention, run.scenario.workload.output_length
    return completion, aggregated_times(completion.mean, step.total / gained, output, convention), full


def _tokens_per_step(run: Run) -> float:
    workload = run.scenario.workload
    return tokens_per_step(workload.mtp_tokens, workload.mtp_acceptance)


def _prefill_columns(run: Run, completion: PrefillCompletion, full: StepTimes) -> Columns:
    return {
        "prefill_step_ms": MS * full.total,
        "prefill_chunks": np.full(completion.mean.shape, float(run.source.chunks)),
        **_split("prefill", full),
    }


def _decode_columns(run: Run, step: StepTimes, gained: float) -> Columns:
    return {
        "decode_step_ms": MS * step.total,
        "tokens_per_step": np.full(run.batch_sizes.shape, gained),
        **_split("decode", step),
    }


# Standard normal quantiles: the keys a step reads are a sum over many requests.
_QUANTILES = {"p50": 0.0, "p90": 1.2815515655446004, "p99": 2.3263478740408408}


def _decode_periods(run: Run, serving_cost_s: float) -> tuple[StepTimes, Columns]:
    """The expected decode step, and its quantiles over random compositions and ages of the batch (none for fixed
    lengths)."""
    if not isinstance(run.source, MixedLengths):
        return decode_period(run, serving_cost_s), {}
    source = run.source.deviating((0.0, *_QUANTILES.values()))
    periods = decode_period(replace(run, source=source), serving_cost_s)
    total = MS * periods.total
    expected = StepTimes(kinds=periods.kinds[..., 0], slowest_stage=periods.slowest_stage[..., 0])
    return expected, {f"decode_step_{name}_ms": total[:, index] for index, name in enumerate(_QUANTILES, start=1)}


def _split(phase: str, step: StepTimes) -> Columns:
    return {f"{phase}_step_{kind}_ms": MS * step.kinds[index] for index, kind in enumerate(KINDS)}


def _blank(run: Run) -> ProbeBlock:
    """Every column that all phases have; the others are absent."""
    scenario, nothing = run.scenario, np.full(run.batch_sizes.shape, np.nan)
    absent: Columns = dict.fromkeys(_ABSENT, nothing)
    if isinstance(run.source, MixedLengths):
        absent["realised_input_length_mean"] = run.source.realised_mean(run.requests)
    memory = memory_bytes(run)
    workload = scenario.workload
    prompts = [(bin_.weight, float(bin_.input_length)) for bin_ in workload.bins] or [
        (1.0, float(workload.input_length or 0))
    ]
    bits = kv_cache_bits(scenario.precision)
    moved = sum(weight * transfer_bytes(scenario.model, bits, tokens) for weight, tokens in prompts)
    moved /= sum(weight for weight, _ in prompts)
    return ProbeBlock(
        batch_size=run.batch_sizes,
        concurrency=run.batch_sizes * scenario.plan.dp * scenario.plan.pp,
        weight_bytes=np.full(run.batch_sizes.shape, memory.weights, dtype=np.int64),
        kv_cache_bytes=_whole(memory.kv_full),
        kv_cache_mean_bytes=_whole(memory.kv_mean),
        activation_bytes=_whole(memory.activations),
        kv_bytes_per_request=np.full(run.batch_sizes.shape, round(moved), dtype=np.int64),
        **absent,
    )


_ABSENT = (
    "ttft_ms",
    "prefill_step_ms",
    "prefill_chunks",
    "makespan_ms",
    "decode_step_ms",
    "tokens_per_step",
    "tpot_inclusive_ms",
    "tpot_exclusive_ms",
    "e2e_ms",
    *(f"{phase}_step_{kind}_ms" for phase in ("prefill", "decode") for kind in KINDS),
    "realised_input_length_mean",
    "decode_step_p50_ms",
    "decode_step_p90_ms",
    "decode_step_p99_ms",
    "prompt_service_ms",
)


def _whole(values: FloatArray) -> Integers:
    return np.rint(values).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRange:
    """Batch sizes worth storing: 1 to `last`; `largest_fitting` (0: none) fits with no reserve at the mean charge."""

    largest_fitting: int
    last: int


def batch_range(
    scenario: Scenario,
    operators: Mapping[str, OperatorSet],
    *,
    source: BatchSource | None = None,
    ceiling: int = LARGEST_BATCH,
) -> BatchRange:
    """Every integer up to the largest that fits, and an eighth beyond it; at most 8,192 a replica (or `ceiling`),
    prefill up to 64 waves.

    One batch size at least, so that a question can say how far off it was."""
    chosen = source or batch_source(scenario)
    if scenario.phase == "prefill":
        all_at_once = np.asarray([LARGEST_BATCH * scenario.plan.pp], dtype=np.int64)
        waves = LARGEST_WAVES * int(chosen.wave_requests(all_at_once)[0])
        ceiling = min(ceiling, -(-waves // scenario.plan.pp))
    ceiling = max(1, min(LARGEST_BATCH, ceiling))
    fitting = _largest_fitting(
        Run(
            scenario=scenario,
            operators=operators,
            source=chosen,
            cost=cost_model(scenario.device, scenario.convention),
            batch_sizes=np.arange(1, ceiling + 1, dtype=np.int64),
        )
    )
    return BatchRange(largest_fitting=fitting, last=min(ceiling, max(1, fitting + -(-fitting // 8))))


def _largest_fitting(run: Run) -> int:
    """The last of batch sizes 1, 2, 3 ... before the first that does not fit, looked for in ever larger blocks."""
    start, end = 0, _FIRST_BLOCK
    while start < run.batch_sizes.size:
        block = replace(run, batch_sizes=run.batch_sizes[start:end])
        fits = memory_bytes(block, mean_only=True).used("mean") <= run.scenario.device.memory_bytes
        if not fits.all():
            return start + int(np.argmin(fits))
        start, end = end, end * 4
    return int(run.batch_sizes.size)
