"""Times of phases for every batch size: waves, decode steps, chunks beside decodes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.graph.sums import BatchSums, combined, repeated
from evaluator.pricing.cost_model import KINDS
from evaluator.pricing.step import StepTimes, draft_seconds, mixed_step_seconds, step_seconds
from evaluator.serving.batches import FixedLengths
from evaluator.serving.encoding import encoding
from evaluator.serving.interface import Run
from evaluator.serving.waves.chunked import ChunkedWorkload, chunked_times
from evaluator.serving.waves.wave_latencies import (
    PrefillCompletion,
    RequestTimes,
    WaveTimes,
    pipeline_period,
    prefill_completion,
    request_times,
    with_reading,
)


def prefilled(run: Run, serving_cost_s: float) -> tuple[PrefillCompletion, StepTimes]:
    stages = run.source.waves(run.requests)
    waves = [wave_times(run, stage.steps) for stage in stages]
    completion = prefill_completion(stages, [as_waves(run, wave) for wave in waves], run.batch_sizes.size)
    completion = PrefillCompletion(mean=completion.mean + serving_cost_s, makespan=completion.makespan + serving_cost_s)
    full = StepTimes(kinds=np.zeros((len(KINDS), run.batch_sizes.size)), slowest_stage=np.zeros(run.batch_sizes.size))
    for stage, wave in zip(reversed(stages), reversed(waves), strict=True):
        full.kinds[:, stage.batch] = wave.kinds
        full.slowest_stage[stage.batch] = wave.slowest_stage
    return completion, full


def wave_times(run: Run, sums: Sequence[BatchSums]) -> StepTimes:
    """Its steps in turn, with MTP's pass over the prompts."""
    operators = run.steps["prefill"]
    steps = [
        with_reading(
            run,
            step_seconds(operators, run.cost, one, beside=encoding(run, one.sequences) if index == 0 else None),
            one,
        )
        for index, one in enumerate(sums)
    ]
    if run.scenario.drafting:
        steps += [draft_seconds(operators, run.cost, one) for one in sums]
    return sum(steps[1:], steps[0])


def as_waves(run: Run, wave: StepTimes) -> WaveTimes:
    """Upstream lets none enter while one is in the pipeline."""
    slowest = wave.total if run.scenario.convention == "upstream" else wave.slowest_stage
    return WaveTimes(total=wave.total, slowest_stage=slowest)


def decode_period(run: Run, serving_cost_s: float) -> StepTimes:
    """A micro-batch's step with drafts, the pipeline's bubble, and the serving cost as overhead."""
    step = decode_step_times(run, run.batch_sizes.astype(np.float64))
    period = pipeline_period(step, run.scenario.plan.pp, run.scenario.convention)
    # A step of 8 ms, 2.5 in the slowest of 4 stages, serving cost 1: period 4 x 2.5 = 10, overhead 10 - 8 + 1 = 3 ms.
    overhead = np.zeros_like(step.kinds)
    overhead[KINDS.index("overhead")] = period - step.total + serving_cost_s
    return StepTimes(kinds=step.kinds + overhead, slowest_stage=step.slowest_stage)


def decode_step_times(run: Run, requests: FloatArray) -> StepTimes:
    """MTP drafts follow, the first over all tokens of the step."""
    operators, drafts = run.steps["decode"], run.scenario.workload.mtp_tokens
    sums = run.source.decodes(requests, 1 + drafts)
    step = step_seconds(operators, run.cost, sums)
    if drafts:
        step = step + draft_seconds(operators, run.cost, sums)
    if (passes := run.scenario.draft_passes) > 1:
        one = run.source.decodes(requests, 1)
        step = step + draft_seconds(operators, run.cost, one).scaled(passes - 1.0)
    return step


def shared_steps(run: Run, source: FixedLengths, gained: float) -> tuple[PrefillCompletion, RequestTimes]:
    scenario = run.scenario
    output = scenario.workload.output_length
    workload = ChunkedWorkload(
        chunks=source.chunks,
        chunk_tokens=source.chunk_tokens[0],
        token_budget=source.token_budget,
        decode_steps=max(output - 1.0, 0.0) / gained,
        tokens_per_decode=1 + scenario.workload.mtp_tokens,
        rounds=scenario.plan.pp,
    )

    def step_time(decodes: FloatArray, prefills: Integers, chunk: Integers) -> FloatArray:
        return shared_step_seconds(run, source, decodes, prefills, chunk)

    times = chunked_times(workload, int(run.requests.max()), step_time)
    index = run.requests - 1
    completion = PrefillCompletion(mean=times.ttft[index], makespan=times.makespan[index])
    return completion, request_times(completion.mean, times.e2e[index], output)


def shared_step_seconds(
    run: Run, source: FixedLengths, decodes: FloatArray, prefills: Integers, chunk: Integers
) -> FloatArray:
    rows, index = np.unique(np.column_stack((decodes, prefills, chunk)), axis=0, return_inverse=True)
    distinct = np.asarray(rows, dtype=np.float64)
    decoding, prefilling = distinct[:, 0], distinct[:, 1]
    place = distinct[:, 2].astype(np.int64)
    prefill_sums = repeated(_stacked(source.chunk_sums()).mapped(lambda array: array[place]), prefilling)
    decode_sums = source.decodes(decoding, 1 + run.scenario.workload.mtp_tokens)
    step = mixed_step_seconds(
        run.operators["prefill"],
        run.operators["decode"],
        run.cost,
        prefill_sums,
        decode_sums,
        beside=encoding(run, prefilling * (distinct[:, 2] == 0)),
    )
    step = with_reading(run, step, prefill_sums)
    if run.scenario.drafting:
        drafts = draft_seconds(run.operators["decode"], run.cost, decode_sums)
        step = step + drafts.scaled(run.scenario.draft_passes * (decoding > 0).astype(np.float64))
    seconds, alone = np.array(step.slowest_stage), prefilling == 0
    if alone.any():
        seconds[alone] = decode_step_times(run, decoding[alone]).slowest_stage
    return np.asarray(seconds[index.ravel()])


def _stacked(parts: Sequence[BatchSums]) -> BatchSums:
    return combined(parts, np.asarray)
