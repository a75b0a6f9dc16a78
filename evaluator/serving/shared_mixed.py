"""Prefill of mixed lengths, and aggregated serving whose long prompts need chunks: prefill steps beside decodes.

Step k prefills the k-th stretch of tokens. In aggregated serving every request whose prompt is done decodes in the same
step, which is that of the packed batch (the longer of the two under upstream). Left out: the 15 % margin of the
fixed-length schedule, and requests that differ in output length (all have the mean)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluator.serving.formulas import PrefillCompletion, RequestTimes, request_times
from evaluator.serving.mixed import MixedLengths
from evaluator.serving.packing import PackedSteps, taken
from evaluator.serving.phases import Run, as_waves, decode_step_times, wave_times
from evaluator.step import StepTimes, draft_seconds, mixed_stage_seconds, step_seconds
from evaluator.sums import BatchSums, FloatArray


@dataclass(frozen=True, slots=True)
class _Schedule:
    """Steps of all batches, a row a batch: when each ends, how many prompts end in it, and how many steps there are."""

    ends: FloatArray
    finished: FloatArray
    count: FloatArray


def mixed_prefilled(run: Run, source: MixedLengths, serving_cost_s: float) -> tuple[PrefillCompletion, StepTimes]:
    """Completion of all prompts, and the first (fullest) step of each batch.

    Step k enters the pipeline when its first stage is free and cannot overtake: it ends at the sum of the slowest
    stages up to its own, plus the longest way through the rest of the pipeline of all steps so far."""
    packed = source.packed(run.requests)
    steps = wave_times(run, [packed.sums])
    times = as_waves(run, steps)
    left = np.cumsum(_rows(packed, times.slowest_stage), axis=1)
    ends = left + np.maximum.accumulate(_rows(packed, times.total - times.slowest_stage), axis=1)
    finished = _rows(packed, packed.finished)
    completion = PrefillCompletion(
        mean=(finished * ends).sum(axis=1) / finished.sum(axis=1) + serving_cost_s,
        makespan=ends[:, -1] + serving_cost_s,
    )
    first = packed.first
    return completion, StepTimes(kinds=steps.kinds[:, first], slowest_stage=steps.slowest_stage[first])


def first_steps(run: Run, source: MixedLengths) -> StepTimes:
    """Times of the first (fullest) prefill step of each batch."""
    return wave_times(run, source.largest_waves(run.requests)[0].steps)


def shared_mixed_steps(
    run: Run, source: MixedLengths, gained: float, decode_s: FloatArray
) -> tuple[PrefillCompletion, RequestTimes]:
    """Completion of the prompts, and latencies of requests that decode while later prompts are prefilled.

    `decode_s` is the decode period of the whole batch, `gained` the tokens a request gains in a step."""
    schedule = _schedule(run, source)
    output = run.scenario.workload.output_length
    wanted = (output if run.scenario.convention == "upstream" else max(output - 1.0, 0.0)) / gained
    prompts = schedule.finished.sum(axis=1)
    ttft = (schedule.finished * schedule.ends).sum(axis=1) / prompts
    makespan = schedule.ends[np.arange(prompts.size), schedule.count.astype(np.int64) - 1]
    # A prompt that ends in step k decodes beside the count - 1 - k steps that follow, the rest after the last of them.
    after = schedule.count[:, None] - 1.0 - np.arange(schedule.ends.shape[1])[None, :]
    done = makespan[:, None] + np.maximum(wanted - after, 0.0) * decode_s[:, None]
    if schedule.ends.shape[1] > wanted:
        early = _at(schedule, np.arange(schedule.ends.shape[1])[None, :] + np.ceil(wanted))
        done = np.where(after >= wanted, early, done)
    e2e = (schedule.finished * done).sum(axis=1) / prompts
    return PrefillCompletion(mean=ttft, makespan=makespan), request_times(ttft, e2e, output)


def _schedule(run: Run, source: MixedLengths) -> _Schedule:
    packed = source.packed(run.requests)
    finished = _rows(packed, packed.finished)
    before = (np.cumsum(finished, axis=1) - finished)[packed.batch, packed.position]
    seconds = _step_seconds(run, source, packed.sums, before)
    return _Schedule(np.cumsum(_rows(packed, seconds), axis=1), finished, packed.count.astype(np.float64))


def _rows(packed: PackedSteps, values: NDArray[np.int64] | FloatArray) -> FloatArray:
    """A row a batch, its steps in order, and zeros beyond the last."""
    rows = np.zeros((packed.count.size, int(packed.count.max())))
    rows[packed.batch, packed.position] = values
    return rows


def _step_seconds(run: Run, source: MixedLengths, prefills: BatchSums, decoding: FloatArray) -> FloatArray:
    if run.scenario.convention == "upstream":
        longest = step_seconds(run.operators["prefill"], run.cost, prefills).total
        beside = decode_step_times(run, np.arange(decoding.max() + 1.0)).total
        return np.asarray(np.maximum(longest, np.where(decoding > 0, beside[decoding.astype(np.int64)], 0.0)))
    alone_at = np.flatnonzero(decoding == 0)
    seconds = _shared_seconds(run, source, prefills, decoding)
    seconds[alone_at] = step_seconds(run.operators["prefill"], run.cost, taken(prefills, alone_at)).slowest_stage
    return seconds


def _shared_seconds(run: Run, source: MixedLengths, prefills: BatchSums, decoding: FloatArray) -> FloatArray:
    drafts, index = run.scenario.workload.mtp_tokens, decoding.astype(np.int64)
    decodes = source.decodes(np.arange(decoding.max() + 1.0), 1 + drafts)
    prefill, decode = run.operators["prefill"], run.operators["decode"]
    seconds = mixed_stage_seconds(prefill, decode, run.cost, prefills, decodes, index)
    if drafts:
        seconds += drafts * draft_seconds(decode, run.cost, decodes).slowest_stage[index]
    return seconds


def _at(schedule: _Schedule, index: FloatArray) -> FloatArray:
    """When the steps at these positions end; the last one for positions beyond it."""
    last = schedule.count[:, None] - 1.0
    position = np.minimum(index, last).astype(np.int64)
    return np.take_along_axis(schedule.ends, np.broadcast_to(position, schedule.ends.shape), axis=1)
