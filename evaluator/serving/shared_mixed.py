"""Aggregated serving of mixed lengths whose long prompts need chunks: prefill steps run beside the decodes so far.

Step k prefills the k-th stretch of tokens while every request whose prompt is done decodes in the same step; the step
is that of the packed batch (the longer of the two under upstream). Left out: the 15 % margin of the fixed-length
schedule, and requests that differ in output length (all have the mean)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluator.serving.formulas import PrefillCompletion, RequestTimes, request_times
from evaluator.serving.mixed import MixedLengths
from evaluator.serving.phases import Run, decode_step_times
from evaluator.step import draft_seconds, mixed_step_seconds, step_seconds
from evaluator.sums import BatchSums, FloatArray, concatenated


@dataclass(frozen=True, slots=True)
class _Schedule:
    """Steps of all batches, a row a batch: when each ends, how many prompts end in it, and how many steps there are."""

    ends: FloatArray
    finished: FloatArray
    count: FloatArray


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
    rest = makespan[:, None] + np.maximum(wanted - after, 0.0) * decode_s[:, None]
    early = _at(schedule, np.arange(schedule.ends.shape[1])[None, :] + np.ceil(wanted))
    e2e = (schedule.finished * np.where(after >= wanted, early, rest)).sum(axis=1) / prompts
    return PrefillCompletion(mean=ttft, makespan=makespan), request_times(ttft, e2e, output)


def _schedule(run: Run, source: MixedLengths) -> _Schedule:
    stages = source.waves(run.requests)
    shape = (run.batch_sizes.size, len(stages))
    finished, count = np.zeros(shape), np.zeros(shape[0])
    for index, stage in enumerate(stages):
        finished[stage.batch, index] = stage.requests
        count[stage.batch] = index + 1
    before = np.cumsum(finished, axis=1) - finished
    rows = np.concatenate([stage.batch for stage in stages])
    columns = np.repeat(np.arange(len(stages)), [stage.batch.size for stage in stages])
    seconds = np.zeros(shape)
    seconds[rows, columns] = _step_seconds(run, source, [stage.steps[0] for stage in stages], before[rows, columns])
    return _Schedule(np.cumsum(seconds, axis=1), finished, count)


def _step_seconds(run: Run, source: MixedLengths, parts: list[BatchSums], decoding: FloatArray) -> FloatArray:
    prefills, drafts = concatenated(parts), run.scenario.workload.mtp_tokens
    alone = step_seconds(run.operators["prefill"], run.cost, prefills)
    if run.scenario.convention == "upstream":
        beside = decode_step_times(run, decoding).total * (decoding > 0)
        return np.asarray(np.maximum(alone.total, beside))
    decodes = source.decodes(decoding, 1 + drafts)
    step = mixed_step_seconds(run.operators["prefill"], run.operators["decode"], run.cost, prefills, decodes)
    if drafts:
        step = step + draft_seconds(run.operators["decode"], run.cost, decodes).scaled(float(drafts))
    return np.asarray(np.where(decoding > 0, step.slowest_stage, alone.slowest_stage))


def _at(schedule: _Schedule, index: FloatArray) -> FloatArray:
    """When the steps at these positions end; the last one for positions beyond it."""
    last = schedule.count[:, None] - 1.0
    position = np.minimum(index, last).astype(np.int64)
    return np.take_along_axis(schedule.ends, np.broadcast_to(position, schedule.ends.shape), axis=1)
