"""The closed loop against hand sums and the identity that no schedule can break."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.serving.closed_loop import ClosedLoop, simulate
from evaluator.serving.engines import STARTS
from evaluator.serving.step_tables import StepTable

# A kernel world that is linear: 1 us a new token, 2 us a token of prompt attention, 5 ms + 10 us a decode.
TABLE = StepTable(
    spacing=1024,
    linear=1e-6 * 1024 * np.arange(9),
    input_length=1000,
    attention=np.asarray([0.0, 1e-3, 2e-3]),
    decode_linear=5e-3 + 4e-6 * np.arange(300),
    decode_own=6e-6 * np.arange(300),
)


@pytest.mark.parametrize("name", sorted(STARTS))
def test_one_user_is_the_hand_sum(name: str) -> None:
    engine = replace(
        STARTS[name], prefill_factor=1.0, decode_factor=1.0, step_ms=2.0, step_per_decode_ms=0.5,
        step_per_prompt_ms=2.0, prompt_step_ms=1.0, request_ms=7.0, token_budget=8192,
    )  # fmt: skip
    times = simulate(TABLE, engine, ClosedLoop(users=1, output_length=11))
    # 2 a step + 1 a step with prompts + 2 a prompt + 1 linear + 2 attention = 8 ms, and 7 of HTTP.
    assert times.ttft_s == pytest.approx(0.015)
    # 2 a step + 0.5 a sequence + 5.004 + 0.006 = 7.51 ms
    assert times.tpot_exclusive_s == pytest.approx(0.00751)
    # ten requests one after the other: 10 (8 + 10 x 7.51)
    assert times.makespan_s == pytest.approx(0.831)
    assert times.requests == 10


@settings(max_examples=25, deadline=None)
@given(users=st.integers(2, 48), name=st.sampled_from(sorted(STARTS)), budget=st.sampled_from([1000, 2000, 4000]))
def test_a_cycle_is_its_decodes_and_everybodys_prompts(users: int, name: str, budget: int) -> None:
    """TTFT + (O - 1) TPOT = O D + C W: the scheduler divides this sum, and cannot change it."""
    engine = replace(
        STARTS[name], prefill_factor=1.0, decode_factor=1.0, step_ms=0.0, step_per_decode_ms=0.0,
        step_per_prompt_ms=1.0, prompt_step_ms=0.0, request_ms=0.0, token_budget=budget + 300,
    )  # fmt: skip
    # Decode steps that cost the same whatever is in them, so that the start and the end of the run do too.
    flat = replace(TABLE, linear=np.zeros(9), decode_linear=np.zeros(300), decode_own=4e-3 * (np.arange(300) > 0))
    outputs = 400
    times = simulate(flat, engine, ClosedLoop(users=users, output_length=outputs, prompts=40 * users))
    cycle = times.ttft_s + (outputs - 1) * times.tpot_exclusive_s
    # W = 1 ms of host + 2 ms of attention. A first token needs no decode step, so up to one step of 400 is not there;
    # a prompt cut by the budget is host work in two steps.
    expected = outputs * 4e-3 + users * 3e-3
    assert cycle == pytest.approx(expected, rel=0.04)


def test_polling_rarely_delays_first_tokens_only() -> None:
    loop = ClosedLoop(users=8, output_length=200, shortest=0.8)
    often = simulate(TABLE, STARTS["sglang"], loop)
    rarely = simulate(TABLE, STARTS["sglang"], replace(loop, poll_steps=30))
    assert rarely.ttft_s > often.ttft_s + 0.02
    assert rarely.tpot_exclusive_s <= often.tpot_exclusive_s


def test_shorter_requests_end_sooner() -> None:
    loop = ClosedLoop(users=16, output_length=200)
    fixed = simulate(TABLE, STARTS["vllm"], loop)
    ranged = simulate(TABLE, STARTS["vllm"], replace(loop, shortest=0.8))
    assert 0.85 < ranged.makespan_s / fixed.makespan_s < 1.0
