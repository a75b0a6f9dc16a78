"""Chunks in turn under upstream, against a player that moves one request at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.serving.waves.rotating import rotated_times

MARGIN = 1.15


def step_time(decodes, prefills, chunk):
    return np.maximum(0.7 * prefills * (1 + 0.3 * chunk) + 0.4 * (prefills > 0), (0.1 + 0.02 * decodes) * (decodes > 0))


def played(chunks, budget, decode_steps, requests):
    """Times of each request: prefilled, finished."""
    queue = [(number, 0) for number in range(requests)]
    left, first, last, clock = {}, {}, {}, 0.0
    while queue or left:
        decoding, chunk = list(left), queue[0][1] if queue else 0
        room = int((int(MARGIN * budget) - len(decoding)) // chunks[chunk]) if queue else 0
        alike = 0
        while alike < len(queue) and queue[alike][1] == chunk:
            alike += 1
        taken = [queue.pop(0) for _ in range(min(max(room, 0), alike))]
        times = (np.asarray([float(len(decoding))]), np.asarray([len(taken)]), np.asarray([chunk]))
        clock += float(step_time(*times)[0])
        for number, done in taken:
            if done + 1 < len(chunks):
                queue.append((number, done + 1))
            else:
                first[number], left[number] = clock, decode_steps
        for number in decoding:
            left[number] -= 1
        for number in [number for number, steps in left.items() if steps == 0]:
            last[number] = clock
            del left[number]
    return first, last


@given(
    budget=st.integers(40, 400),
    share=st.floats(0.1, 1.0),
    whole=st.integers(1, 4),
    decode_steps=st.integers(1, 40),
    requests=st.integers(1, 25),
)
def test_times_of_every_batch_size_are_those_of_one_request_at_a_time(budget, share, whole, decode_steps, requests):
    chunks = (*([budget] * whole), max(1, int(share * budget)))
    times = rotated_times(chunks, budget, float(decode_steps), requests, step_time)
    for batch in {1, (requests + 1) // 2, requests}:
        first, last = played(chunks, budget, decode_steps, batch)
        assert times.ttft[batch - 1] == pytest.approx(np.mean([*first.values()]))
        assert times.makespan[batch - 1] == pytest.approx(max(first.values()))
        assert times.finish[batch - 1] == pytest.approx(max(last.values()))
        apart = [(last[number] - first[number]) / decode_steps for number in first]
        assert times.tpot[batch - 1] == pytest.approx(np.mean(apart))


def test_a_request_of_one_token_ends_with_its_prompt():
    # Two prompts of 50 + 30 tokens, budget 50: 50-token chunks alone in steps of 1.1, then 30-token ones of 0.91 + 0.4:
    # floor(57.5 / 30) = 1 a step: 2.2 + 1.31 and 2.2 + 2.62 seconds.
    times = rotated_times((50, 30), 50, 0.0, 2, step_time)
    assert times.ttft[1] == pytest.approx((3.51 + 4.82) / 2)
    assert (times.finish[1], times.tpot[1]) == (pytest.approx(4.82), 0.0)
