"""Prefill of mixed lengths, and aggregated serving of chunked prompts.

Step k prefills the k-th stretch. Aggregated, finished prompts decode in the same packed step; upstream prefills all,
then decodes. Left out: the fixed-length schedule's 15 % margin, and differing output lengths (all have the mean)."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.graph.sums import BatchSums
from evaluator.pricing.step import StepTimes, draft_seconds, mixed_stage_seconds, step_seconds
from evaluator.serving.interface import Run
from evaluator.serving.phases import as_waves, wave_times
from evaluator.serving.waves.mixed import MixedLengths
from evaluator.serving.waves.packing import PackedSteps, taken
from evaluator.serving.waves.wave_latencies import (
    PrefillCompletion,
    RequestTimes,
    reading_s,
    request_times,
    with_reading,
)


def mixed_prefilled(run: Run, source: MixedLengths, serving_cost_s: float) -> tuple[PrefillCompletion, StepTimes]:
    """All prompts' completion, and each batch's first (fullest) step.

    Step k enters when its first stage is free: it ends at the sum of the slowest stages so far, plus the longest way
    through the rest of the pipeline."""
    packed = source.packed(run.requests)
    steps = wave_times(run, [packed.sums])
    times = as_waves(run, steps)
    # Steps of 4 and 2 s, 1 and 0.5 s in their slowest stage: they end at 1 + 3 = 4 s and 1.5 + 3 = 4.5 s.
    ends = _accumulated(np.add, packed, times.slowest_stage)
    if run.scenario.plan.pp > 1:
        ends += _accumulated(np.maximum, packed, times.total - times.slowest_stage)
    return _completion(packed, ends + serving_cost_s), _at(steps, packed.first)


def shared_mixed_steps(
    run: Run, source: MixedLengths, gained: float, decode_s: FloatArray
) -> tuple[PrefillCompletion, RequestTimes, StepTimes]:
    """Completion, latencies, and the first prefill step alone.

    Requests decode while later prompts prefill. `decode_s` is the whole batch's period, `gained` its tokens a step."""
    packed = source.packed(run.requests)
    done = np.cumsum(packed.finished) - packed.finished
    decoding = done - np.repeat(done[packed.first], packed.count)
    seconds, full = _shared_seconds(run, source, packed, decoding)
    if run.scenario.drafting:
        full = full + draft_seconds(run.operators["prefill"], run.cost, taken(packed.sums, packed.first))
    ends = _accumulated(np.add, packed, seconds)
    output = run.scenario.workload.output_length
    wanted = max(output - 1.0, 0.0) / gained
    completion = _completion(packed, ends)
    e2e = _mean(packed, _leaving(packed, ends, wanted, decode_s))
    return completion, request_times(completion.mean, e2e, output), full


def _leaving(packed: PackedSteps, ends: FloatArray, wanted: float, decode_s: FloatArray) -> FloatArray:
    last = np.repeat(packed.first + packed.count - 1, packed.count)
    here = np.arange(last.size)
    # They decode beside the steps that follow, and the rest after the last of them.
    after = last - here
    # 4 steps end at 1, 2, 3, 4 s; 10 decodes of 0.1 s: prompts of the first leave at 4 + (10 - 3) x 0.1 = 4.7 s.
    leaving = ends[last] + np.maximum(wanted - after, 0.0) * np.repeat(decode_s, packed.count)
    if packed.count.max() > wanted:
        early = np.minimum(here + int(np.ceil(wanted)), last)
        leaving = np.where(after >= wanted, ends[early], leaving)
    return np.asarray(leaving)


def _completion(packed: PackedSteps, ends: FloatArray) -> PrefillCompletion:
    return PrefillCompletion(mean=_mean(packed, ends), makespan=ends[packed.first + packed.count - 1])


def _mean(packed: PackedSteps, times: FloatArray) -> FloatArray:
    prompts = np.add.reduceat(packed.finished, packed.first)
    return np.asarray(np.add.reduceat(packed.finished * times, packed.first) / prompts)


def _accumulated(add: np.ufunc, packed: PackedSteps, values: FloatArray) -> FloatArray:
    there = np.arange(int(packed.count.max())) < packed.count[:, None]
    rows = np.zeros(there.shape)
    rows[there] = values
    return np.asarray(add.accumulate(rows, axis=1)[there])


def _at(steps: StepTimes, index: Integers) -> StepTimes:
    return StepTimes(kinds=steps.kinds[:, index], slowest_stage=steps.slowest_stage[index])


def _shared_seconds(
    run: Run, source: MixedLengths, packed: PackedSteps, decoding: Integers
) -> tuple[FloatArray, StepTimes]:
    seconds = _mixed_seconds(run, source, packed.sums, decoding)
    alone_at = np.flatnonzero(decoding == 0)
    alone = step_seconds(run.operators["prefill"], run.cost, taken(packed.sums, alone_at))
    seconds[alone_at] = alone.slowest_stage
    full = _at(alone, np.searchsorted(alone_at, packed.first))
    return np.maximum(seconds, reading_s(run, packed.sums)), with_reading(run, full, taken(packed.sums, packed.first))


def _mixed_seconds(run: Run, source: MixedLengths, prefills: BatchSums, decoding: Integers) -> FloatArray:
    drafts = run.scenario.workload.mtp_tokens
    decodes = source.decodes(np.arange(decoding.max() + 1.0), 1 + drafts)
    prefill, decode = run.operators["prefill"], run.operators["decode"]
    seconds = mixed_stage_seconds(prefill, decode, run.cost, prefills, decodes, index=decoding)
    if drafts:
        seconds += run.scenario.draft_passes * draft_seconds(decode, run.cost, decodes).slowest_stage[decoding]
    return seconds
