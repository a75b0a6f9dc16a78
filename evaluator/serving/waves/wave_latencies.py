"""From step times to TTFT, TPOT and makespan, for every batch size at once. All times of one call are in one unit.

Sources: seed 001 (waves, TPOT, serving cost), verified against upstream's probes; pipelines by the completion of their
slowest stage. Left out: queueing of arrivals (every request is there at the start), and decodes running beside
whole-prompt waves.

Keys from outside the devices: no engine is named, so the order is the formulas' own. Prompts are all there, and links
read one prompt after another from the start on, layer by layer beside computing. Steps of equal prompts that follow
each other then take the longer of both each, which is exact; of several lengths a step reads what its tokens read in
the mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.sums import BatchSums
from evaluator.pricing.cost_model import KINDS
from evaluator.pricing.step import StepTimes
from evaluator.scenario import Scenario
from evaluator.serving.batches import BatchSource, FixedLengths, WaveStage
from evaluator.serving.engine.request_kinds import RequestKind, weights_of
from evaluator.serving.engine.tier_loads import load_seconds, said_of_loads
from evaluator.serving.interface import Run
from evaluator.serving.waves.mixed import MixedLengths
from store.light_dataclass import dataclass
from store.schema import FORMULA_MODELS, Convention


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveTimes:
    """Times of one wave of a stage: through all pipeline stages, and through the slowest of them."""

    total: FloatArray
    slowest_stage: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillCompletion:
    """When the prompts of each batch are prefilled: the mean over prompts, and the last."""

    mean: FloatArray
    makespan: FloatArray


def prefill_completion(stages: Sequence[WaveStage], times: Sequence[WaveTimes], batches: int) -> PrefillCompletion:
    """Waves one after the other, a new one entering the pipeline when its first stage is free.

    n equal waves of w prompts and duration P after a start s: one pipeline stage gives w (n s + P n (n + 1) / 2), seed
    001's sum. With several, wave i ends at s + P + (i - 1) S, S being the slowest stage. Without pipeline P = S."""
    entered, ended = np.zeros(batches), np.zeros(batches)  # when the next wave may enter; when the last one ends
    waited, prompts = np.zeros(batches), np.zeros(batches)
    for stage, time in zip(stages, times, strict=True):
        repeats = stage.repeats.astype(np.float64)
        # A smaller wave cannot overtake the one before it: it follows its end by its own slowest stage at least.
        first_end = np.maximum(entered[stage.batch] + time.total, ended[stage.batch] + time.slowest_stage)
        # 3 waves of 2 prompts, 4 s through 4 stages of 1 s: 2 (3 x 4 + 1 x 3 x 2 / 2) = 30 s over 6 prompts: mean 5.
        if stage.final:
            waited[stage.batch] += stage.requests * (
                repeats * first_end + time.slowest_stage * repeats * (repeats - 1.0) / 2.0
            )
            prompts[stage.batch] += stage.requests * repeats
        ended[stage.batch] = first_end + (repeats - 1.0) * time.slowest_stage
        entered[stage.batch] += repeats * time.slowest_stage
    return PrefillCompletion(mean=waited / prompts, makespan=ended)


def tokens_per_step(mtp_tokens: int, acceptance: Sequence[float]) -> float:
    """Tokens a request gains in one decode step: 1 + the acceptance rates of the drafts, each given that those
    before held."""
    # Two drafts that hold at rates 0.8 and 0.6: 1 + 0.8 + 0.6 = 2.4 tokens.
    return 1.0 + float(sum(acceptance[:mtp_tokens]))


def pipeline_period(step: StepTimes, pipeline_stages: int, convention: Convention) -> FloatArray:
    """Time between two steps of one micro-batch when `pipeline_stages` of them circulate.

    The slowest stage serves every micro-batch once a round; upstream's TPOT ignores that bubble (seed 001)."""
    if convention == "upstream" or pipeline_stages == 1:
        return step.total
    # 4 micro-batches, steps of 10 ms, 3 ms in the slowest stage: max(10, 4 x 3) = 12 ms.
    return np.maximum(step.total, pipeline_stages * step.slowest_stage)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTimes:
    """Latencies of a request, by batch size."""

    e2e: FloatArray
    tpot_inclusive: FloatArray
    tpot_exclusive: FloatArray


def aggregated_times(
    ttft: FloatArray, decode: FloatArray, output_length: FloatArray | float, convention: Convention
) -> RequestTimes:
    """Prefill of everything, then decode. The first token comes from the prefill, so O - 1 decodes follow; upstream
    counts O."""
    steps = output_length if convention == "upstream" else np.maximum(output_length - 1.0, 0.0)
    return request_times(ttft, ttft + decode * steps, output_length)


def request_times(ttft: FloatArray, e2e: FloatArray, output_length: FloatArray | float) -> RequestTimes:
    """TPOT by both definitions: seed 001's e2e / O, and vLLM's (e2e - ttft) / max(O - 1, 1)."""
    # First token at 1 s, last of 101 at 3 s: 3 / 101 = 29.7 ms, and 2 / 100 = 20 ms.
    return RequestTimes(
        e2e=e2e, tpot_inclusive=e2e / output_length, tpot_exclusive=(e2e - ttft) / np.maximum(output_length - 1.0, 1.0)
    )


def reading_s(run: Run, sums: BatchSums) -> FloatArray:
    """Seconds in which the links bring what lies outside of the prompts of steps; 0 under engines."""
    scenario = run.scenario
    if not scenario.workload.tiers or scenario.serving_model not in FORMULA_MODELS:
        return np.zeros_like(sums.tokens)
    kinds = _kinds(run.source)
    weights = weights_of(kinds)
    seconds = (weights * [load_seconds(scenario, kind) for kind in kinds]).sum()
    # 100 ms for prompts of 1,000 new tokens: a step of 4,000 tokens reads for 400 ms.
    return np.asarray(sums.tokens * (seconds / (weights * [kind.new_tokens for kind in kinds]).sum()))


def with_reading(run: Run, step: StepTimes, sums: BatchSums) -> StepTimes:
    """Prefill steps with what of their reading computing does not hide, as overhead. A pipeline has one stage."""
    waiting = np.maximum(reading_s(run, sums) - step.total, 0.0)
    if not waiting.any():
        return step
    overhead = np.zeros_like(step.kinds)
    overhead[KINDS.index("overhead")] = waiting
    return step + StepTimes(kinds=overhead, slowest_stage=waiting)


def said_of_reading(scenario: Scenario, source: BatchSource) -> tuple[str, ...]:
    return said_of_loads(scenario, _kinds(source)) if scenario.workload.tiers and scenario.phase != "decode" else ()


def _kinds(source: BatchSource) -> tuple[RequestKind, ...]:
    if isinstance(source, MixedLengths):
        return source.kinds
    if isinstance(source, FixedLengths):
        return (RequestKind(new_tokens=source.new_tokens, cached=source.input_length - source.new_tokens),)
    raise TypeError(f"no kinds of requests in {type(source).__name__}")
