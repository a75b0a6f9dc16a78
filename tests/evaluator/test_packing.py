"""Packing of prompts into waves against one request at a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evaluator.serving.packing import chunk_plan, completion, pack


def one_by_one(samples, lengths, budget):
    """(requests of each bin, steps) of every wave in order: prompts enter in bin order while they fit."""
    waves, wave, used = [], [0] * len(lengths), 0
    for kind, (count, length) in enumerate(zip(samples, lengths, strict=True)):
        chunks, chunk = (int(value[0]) for value in chunk_plan(np.array([length]), budget))
        if chunks > 1 and count:
            if used:
                waves.append((tuple(wave), 1))
                wave, used = [0] * len(lengths), 0
            per_wave = budget // chunk
            while count:
                now = min(count, per_wave)
                waves.append((tuple(now if k == kind else 0 for k in range(len(lengths))), chunks))
                count -= now
            continue
        for _ in range(count):
            if used + length > budget:
                waves.append((tuple(wave), 1))
                wave, used = [0] * len(lengths), 0
            wave[kind] += 1
            used += length
    if used:
        waves.append((tuple(wave), 1))
    return waves


@st.composite
def workloads(draw):
    lengths = sorted(draw(st.lists(st.integers(1, 60), min_size=1, max_size=5, unique=True)))
    samples = draw(
        st.lists(
            st.lists(st.integers(0, 12), min_size=len(lengths), max_size=len(lengths)).filter(any),
            min_size=1,
            max_size=4,
        )
    )
    return np.array(samples), np.array(lengths), draw(st.integers(5, 80))


@given(workloads())
def test_every_batch_is_packed_as_one_request_at_a_time_would_be(workload):
    samples, lengths, budget = workload
    stages = pack(samples, lengths, budget)
    chunks, _ = chunk_plan(lengths, budget)
    for batch in range(len(samples)):
        waves = []
        for stage in stages:
            for position in np.flatnonzero(stage.batch == batch):
                if stage.bins is not None:
                    wave, steps = tuple(stage.bins[position].tolist()), 1
                else:
                    kind = stage.uniform_bin
                    wave = tuple(int(stage.requests[position]) if k == kind else 0 for k in range(len(lengths)))
                    steps = int(chunks[kind])
                waves += [(wave, steps)] * int(stage.repeats[position])
        assert waves == one_by_one(samples[batch].tolist(), lengths.tolist(), budget)


def test_s15_twelve_requests_in_three_waves():
    # Budget 8192, input 2048: 4 prompts a wave, 3 waves of L each: sum 4 (1 + 2 + 3) L = 24 L, mean 2 L
    stages = pack(np.array([[12]]), np.array([2048]), 8192)
    done = completion(stages, 1, lambda stage: np.full(stage.batch.size, 1.0))
    assert done.mean.tolist() == [2.0]
    assert done.makespan.tolist() == [3.0]
    assert (done.mean * 12).tolist() == [24.0]
