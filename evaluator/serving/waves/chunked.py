"""Aggregated serving of prompts longer than the token budget: chunks and decodes share steps, decodes first.

Seed 001: a fixed decode-first scheduler with a margin of 15 % on the token budget. Counts do not depend on times, nor
on how many requests come later: one schedule of the largest batch holds that of every smaller one. Left out: random
lengths."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import floor

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, dot
from store.light_dataclass import dataclass

BUDGET_MARGIN = 1.15
# (decodes, prefills, chunk index) of steps -> their times
StepTime = Callable[[FloatArray, Integers, Integers], FloatArray]


def prompts_a_step(chunk_tokens: int, token_budget: int) -> int:
    """Chunks that a step takes beside no decode, 15 % above the budget at most."""
    return max(1, floor(BUDGET_MARGIN * token_budget) // chunk_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedWorkload:
    """The numbers that decide the counts of a schedule.

    `decode_steps` is what a request needs after its first token. `rounds` micro-batches circulate in a pipeline, so
    that a request decodes in every rounds-th step."""

    chunks: int
    chunk_tokens: int
    token_budget: int
    decode_steps: float
    tokens_per_decode: int = 1
    rounds: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkSchedule:
    """The steps until the last prompt is prefilled, one entry each.

    A step has `decodes` and `prefills`, the `chunk` that the prefills are of, and the `first` prompt of their group.
    The progress `clock` after it counts the decode steps that a request present throughout has had. `prefilled_in[i]`
    is the step in which prompt i's last chunk runs."""

    decodes: FloatArray
    prefills: Integers
    chunk: Integers
    first: Integers
    clock: FloatArray
    prefilled_in: Integers


def schedule(workload: ChunkedWorkload, requests: int) -> ChunkSchedule:
    limit = floor(BUDGET_MARGIN * workload.token_budget)
    queue: deque[tuple[int, int, int]] = deque([(0, requests, 0)])  # first prompt, prompts, chunks done
    decoding: deque[tuple[float, int]] = deque()  # the clock at which prompts finish, and how many
    rows: list[tuple[float, int, int, int, float]] = []
    prefilled = np.zeros(requests, dtype=np.int64)
    ready, clock = 0, 0.0
    while queue:
        decodes = min(ready / workload.rounds, workload.token_budget / workload.tokens_per_decode)
        # Budget 8,192, 2 decodes, chunks of 4,096: floor((9,420 - 2) / 4,096) = 2 prefills.
        room = floor((limit - decodes * workload.tokens_per_decode) / workload.chunk_tokens)
        first, prompts, done = queue.popleft()
        taken = min(max(room, 0 if ready else 1), prompts)
        # 2 prompts are ready, in 2 rounds: 1 decodes in this step, which is half a tick.
        clock += decodes / ready if ready else 1.0
        rows.append((decodes, taken, done, first, clock))
        if taken < prompts:
            queue.appendleft((first + taken, prompts - taken, done))
        while decoding and decoding[0][0] <= clock + 1e-9:
            ready -= decoding.popleft()[1]
        if taken and done + 1 < workload.chunks:
            queue.appendleft((first, taken, done + 1))
        elif taken:
            prefilled[first : first + taken] = len(rows) - 1
            decoding.append((clock + workload.decode_steps, taken))
            ready += taken
    decodes_, prefills, chunk, firsts, clocks = zip(*rows, strict=True)
    return ChunkSchedule(
        decodes=np.asarray(decodes_, dtype=np.float64),
        prefills=np.asarray(prefills, dtype=np.int64),
        chunk=np.asarray(chunk, dtype=np.int64),
        first=np.asarray(firsts, dtype=np.int64),
        clock=np.asarray(clocks, dtype=np.float64),
        prefilled_in=prefilled,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedTimes:
    """Mean time to first token, mean time to the last, and when the last prompt is prefilled.

    Entries are by number of requests: 1, 2 ..."""

    ttft: FloatArray
    e2e: FloatArray
    makespan: FloatArray


def chunked_times(workload: ChunkedWorkload, requests: int, step_time: StepTime) -> ChunkedTimes:
    plan = schedule(workload, requests)
    ended = np.cumsum(step_time(plan.decodes, plan.prefills, plan.chunk))
    savings = _smaller_last_groups(plan, step_time)
    saved = savings.summed(requests)
    prefilled = ended[plan.prefilled_in]
    # Steps of 10 ms for 2 prompts and 6 ms for 1: a batch of 4 ends at 20 ms, one of 3 at 20 - 4 = 16.
    makespan = prefilled - saved
    ttft = np.cumsum(prefilled) - saved * savings.prompts_in_last_group(requests)
    last_tokens = _last_tokens(workload, plan, ended, makespan, savings, step_time=step_time)
    number = np.arange(1, requests + 1)
    return ChunkedTimes(ttft=ttft / number, e2e=last_tokens / number, makespan=makespan)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Savings:
    """The seconds that a batch saves in a step in which it has fewer prompts than the schedule's group.

    There is one entry a (batch, step)."""

    batch: Integers  # index: one less than its requests
    step: Integers
    prompts: Integers  # of this batch in the step's group
    seconds: FloatArray

    def summed(self, requests: int, times: FloatArray | float = 1.0) -> FloatArray:
        total = np.zeros(requests)
        np.add.at(total, self.batch, self.seconds * times)
        return total

    def prompts_in_last_group(self, requests: int) -> FloatArray:
        most = np.zeros(requests)
        np.maximum.at(most, self.batch, self.prompts.astype(np.float64))
        return most


def _smaller_last_groups(plan: ChunkSchedule, step_time: StepTime) -> _Savings:
    spare = np.maximum(plan.prefills - 1, 0)
    step = np.repeat(np.arange(plan.prefills.size), spare)
    prompts = np.arange(step.size) - np.repeat(np.cumsum(spare) - spare, spare) + 1
    decodes, chunk = plan.decodes[step], plan.chunk[step]
    seconds = np.zeros(0)
    if step.size:
        seconds = step_time(decodes, plan.prefills[step], chunk) - step_time(decodes, prompts, chunk)
    return _Savings(batch=plan.first[step] + prompts - 1, step=step, prompts=prompts, seconds=seconds)


def _last_tokens(
    workload: ChunkedWorkload,
    plan: ChunkSchedule,
    ended: FloatArray,
    makespan: FloatArray,
    savings: _Savings,
    *,
    step_time: StepTime,
) -> FloatArray:
    """Sum over prompts of the time of their last token, for every batch: first those done while others prefill, then
    the tail.

    In the tail m prompts are left and a tick of the clock takes D(m); prompt k follows prompt k - 1 by the ticks
    between them."""
    requests = plan.prefilled_in.size
    started = plan.clock[plan.prefilled_in]
    finish_clock = started + workload.decode_steps
    finished_in = np.searchsorted(plan.clock, finish_clock - 1e-9)  # beyond the last step: not while others prefill
    early = np.concatenate(([0.0], np.cumsum(np.append(ended, 0.0)[finished_in])))
    # Those that finish in a step of a smaller last group, or after it, finish earlier by what was saved until then.
    later = np.searchsorted(finished_in, plan.prefilled_in[savings.batch], side="right")
    hastened = savings.summed(requests, (later - np.searchsorted(finished_in, savings.step)).astype(np.float64))
    tick = _tick_times(workload, requests, step_time)
    weighted = np.concatenate(([0.0], np.arange(1, requests + 1) * tick[1:]))
    gaps = np.diff(started, prepend=started[0])
    total = np.empty(requests)
    for batch in range(1, requests + 1):
        now = plan.clock[plan.prefilled_in[batch - 1]]
        first = int(np.searchsorted(finish_clock[:batch], now + 1e-9))
        left = batch - first
        tail = 0.0
        if left:
            # Prompts done at 10 and 20 s, the first with 2 ticks left, D(2) = 1.5 s, D(1) = 1 s: 2 (20 + 3) + 1 = 47 s.
            tail = left * (makespan[batch - 1] + (finish_clock[first] - now) * tick[left])
            tail += float(dot(gaps[first + 1 : batch], weighted[1:left][::-1]))
        total[batch - 1] = early[first] + tail
    return total - hastened


def finishes(workload: ChunkedWorkload, makespan: FloatArray, step_time: StepTime) -> FloatArray:
    """When the last request of each batch of 1, 2 ... prompts has its last token. Prompts finish in their order."""
    requests = makespan.size
    plan = schedule(workload, requests)
    started = plan.clock[plan.prefilled_in]
    tick = _tick_times(workload, requests, step_time)
    gaps = np.diff(started, prepend=started[0])
    finish = np.empty(requests)
    for batch in range(1, requests + 1):
        now = started[batch - 1]
        first = int(np.searchsorted(started[:batch] + workload.decode_steps, now + 1e-9))
        # Prompts done at 10 and 20 s, the first with 2 ticks left, D(2) = 1.5 s, D(1) = 1 s: 20 + 2 x 1.5 + 1 = 24 s.
        left = (started[first] + workload.decode_steps - now) * tick[batch - first] if first < batch else 0.0
        finish[batch - 1] = (
            makespan[batch - 1] + left + float(dot(gaps[first + 1 : batch], tick[1 : batch - first][::-1]))
        )
    return finish


def _tick_times(workload: ChunkedWorkload, requests: int, step_time: StepTime) -> FloatArray:
    """Time in which each of m prompts makes one decode step, m = 0 ... requests, when nothing is prefilled."""
    number = np.arange(1, requests + 1, dtype=np.float64)
    together = np.minimum(number / workload.rounds, workload.token_budget / workload.tokens_per_decode)
    none = np.zeros(requests, dtype=np.int64)
    # 8 prompts in 2 rounds, 10 ms a step of 4: all have decoded once after 2 steps, 20 ms.
    return np.concatenate(([0.0], step_time(together, none, none) * (number / together)))
