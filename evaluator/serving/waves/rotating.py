"""Aggregated serving of long prompts as upstream plays it: all prompts do their first chunk, then all their second.

A prompt's next chunk goes to the end of the queue, so that no request decodes before the last chunks begin. From there
on decodes and last chunks share steps, each as long as the longer of the two. Left out: more decodes than the budget
has tokens."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.graph.sums import BatchSums, repeated
from evaluator.pricing.step import draft_seconds, step_seconds
from evaluator.serving.batches import FixedLengths
from evaluator.serving.interface import Run
from evaluator.serving.phases import decode_step_times
from evaluator.serving.waves.chunked import (
    ChunkedWorkload,
    StepTime,
    chunked_times,
    finishes,
    prompts_a_step,
)
from evaluator.serving.waves.wave_latencies import PrefillCompletion, RequestTimes
from store.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedTimes:
    """Mean time to first token, mean time between tokens, when the last prompt is prefilled and the last request done.

    Entries are by number of requests: 1, 2 ..."""

    ttft: FloatArray
    tpot: FloatArray
    makespan: FloatArray
    finish: FloatArray


def rotated_times(
    chunks: tuple[int, ...], token_budget: int, decode_steps: float, requests: int, step_time: StepTime
) -> RotatedTimes:
    """Times of batches of 1 to `requests` prompts. Each needs `decode_steps` decodes after its first token."""
    rounds = chunks if decode_steps <= 0 else chunks[:-1]
    started, mean = np.zeros(requests), np.zeros(requests)
    for index, size in enumerate(rounds):
        mean = started  # of the last round, what is before it
        taken, full, rest = _round(size, token_budget, requests)
        alone = step_time(np.zeros(taken + 1), np.arange(taken + 1), np.full(taken + 1, index)) * (
            np.arange(taken + 1) > 0
        )
        # 5 prompts, 2 a step of 10 ms, 6 ms for one: 2 x 10 + 6 = 26 ms.
        started = started + full * alone[taken] + alone[rest]
        # The first 2 are done at 10 ms, the next 2 at 20, the last at 26: (2 (10 + 20) + 26) / 5 = 17.2 ms.
        waited = taken * alone[taken] * full * (full + 1) / 2 + rest * (full * alone[taken] + alone[rest])
        mean = mean + waited / np.arange(1, requests + 1)
    if decode_steps <= 0:
        return RotatedTimes(ttft=mean, tpot=np.zeros(requests), makespan=started, finish=started)
    last = ChunkedWorkload(
        chunks=1, chunk_tokens=chunks[-1], token_budget=token_budget, decode_steps=decode_steps
    )  # fmt: skip

    def last_time(decodes: FloatArray, prefills: Integers, chunk: Integers) -> FloatArray:
        return step_time(decodes, prefills, np.full_like(chunk, len(chunks) - 1))

    times = chunked_times(last, requests, last_time)
    return RotatedTimes(
        ttft=started + times.ttft,
        tpot=(times.e2e - times.ttft) / decode_steps,
        makespan=started + times.makespan,
        finish=started + finishes(last, times.makespan, last_time),
    )


def _round(chunk_tokens: int, token_budget: int, requests: int) -> tuple[int, Integers, Integers]:
    taken = prompts_a_step(chunk_tokens, token_budget)
    full, rest = np.divmod(np.arange(1, requests + 1), taken)
    return taken, full, rest


def rotated_steps(run: Run, source: FixedLengths, gained: float) -> tuple[PrefillCompletion, RequestTimes]:
    """Completion of prompts and latencies as upstream prints them: TPOT is exclusive, the end that of the last."""
    replicas = source.scheduled_replicas
    scheduled = run.requests * replicas
    output = run.scenario.workload.output_length
    times = rotated_times(
        source.chunk_tokens,
        source.token_budget * replicas,
        max(output - 1.0, 0.0),
        int(scheduled.max()),
        _Steps(run=run, source=source, gained=gained).seconds,
    )
    index = scheduled - 1
    tpot = times.tpot[index]
    completion = PrefillCompletion(mean=times.ttft[index], makespan=times.makespan[index])
    return completion, RequestTimes(e2e=times.finish[index], tpot_inclusive=tpot, tpot_exclusive=tpot)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Steps:
    """Prices steps: the longer of their prefills and their decodes, both dealt out to the replicas."""

    run: Run
    source: FixedLengths
    gained: float

    def seconds(self, decodes: FloatArray, prefills: Integers, chunk: Integers) -> FloatArray:
        replicas = self.source.scheduled_replicas
        together = np.zeros(decodes.shape)
        for index, sums in enumerate(self.source.chunk_sums()):
            mine = np.flatnonzero((chunk == index) & (prefills > 0))
            if mine.size:
                number, place = np.unique(-(-prefills[mine] // replicas), return_inverse=True)
                together[mine] = self._prefill(repeated(sums, number))[place.ravel()]
        requests, place = np.unique(np.ceil(decodes / replicas), return_inverse=True)
        period = decode_step_times(self.run, requests.astype(np.float64)).total * (requests > 0) / self.gained
        return np.maximum(together, period[place.ravel()])

    def _prefill(self, sums: BatchSums) -> FloatArray:
        operators, cost = self.run.operators["prefill"], self.run.cost
        seconds = step_seconds(operators, cost, sums).total
        return seconds + draft_seconds(operators, cost, sums).total if self.run.scenario.drafting else seconds
