"""From step times to TTFT, TPOT and makespan, for every batch size at once. All times of one call are in one unit.

Sources: seed 001 (waves, TPOT, serving cost), verified against upstream's probes; pipelines by the completion of their
slowest stage. Left out: queueing of arrivals (every request is there at the start), and decodes running beside
whole-prompt waves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.pricing.step import StepTimes
from evaluator.serving.batches import WaveStage
from store.schema import Convention


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
