"""Two sides in closed form, by hand arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.serving.closed_pair import ClosedPair, pair_times, queueing_s
from evaluator.serving.engines import EngineProfile
from evaluator.serving.step_tables import StepTable

BARE = EngineProfile(
    name="bare",
    admission="prefill_first",
    token_budget=200,
    step_ms=0.0,
    step_per_decode_ms=0.0,
    step_per_prompt_ms=0.0,
    prompt_step_ms=0.0,
    request_ms=0.0,
)
# A prompt of 100 tokens takes 10 ms and 1 ms of attention; a decode step of b sequences 4 + b ms.
TABLE = StepTable(
    spacing=100,
    linear=np.asarray([0.0, 0.010, 0.020]),
    input_length=100,
    attention=np.asarray([0.0, 0.001]),
    decode_linear=np.asarray([4e-3 + 1e-3 * batch for batch in range(101)]),
    decode_own=np.zeros(101),
)


def pair(**changes: object) -> ClosedPair:
    return replace(ClosedPair(users=1, output_length=11.0, prefill_servers=1, decode_servers=1), **changes)


def test_one_user_of_two_sides_waits_for_nobody():
    found = pair_times(TABLE, TABLE, BARE, pair(transfer_s=0.002), alone_s=0.011)
    assert found.ttft_s == pytest.approx(0.013)
    assert found.tpot_exclusive_s == pytest.approx(0.005)


def test_a_saturated_prefill_side_hands_out_prompts_at_its_own_rate():
    # A prompt of a full step takes 20 / 2 + 1 = 11 ms of the one server: 90.9 a second. One step of 5 ms to decode, so
    # 90.9 x 0.005 = 0.4545 decode, and of 90 users the rest wait: TTFT = 90 / 90.9 - 0.005 = 0.985 s.
    found = pair_times(TABLE, TABLE, BARE, pair(users=90, output_length=2.0), alone_s=0.011)
    assert found.decoding == pytest.approx(0.4545, rel=1e-3)
    assert found.tpot_exclusive_s == pytest.approx(0.005)
    # One request in ten met the burst: 11 ms x (1 + 89/2) = 0.5005 s.
    assert found.ttft_s == pytest.approx(0.1 * 0.5005 + 0.9 * 0.985, rel=1e-3)


def test_waiting_for_a_server():
    # One server, random arrivals, equal services: load / (2 (1 - load)) services (Pollaczek-Khinchine).
    assert queueing_s(0.5, 2.0, 1) == pytest.approx(1.0)
    assert queueing_s(0.8, 1.0, 1) == pytest.approx(2.0)
    # Seven servers: 0.5 x 0.5^(sqrt 16 - 1) / (7 x 0.5) = 0.017857.
    assert queueing_s(0.5, 1.0, 7) == pytest.approx(0.0178571, rel=1e-5)
    assert queueing_s(0.0, 1.0, 3) == 0.0


@given(users=st.integers(1, 90), servers=st.integers(1, 4), output=st.integers(2, 400))
def test_more_users_never_see_two_sides_faster(users, servers, output):
    sides = pair(users=users, prefill_servers=servers, output_length=float(output))
    one = pair_times(TABLE, TABLE, BARE, sides, alone_s=0.011)
    more = pair_times(TABLE, TABLE, BARE, replace(sides, users=users + 1), alone_s=0.011)
    assert more.ttft_s >= one.ttft_s * (1 - 1e-9)
    assert more.tpot_exclusive_s >= one.tpot_exclusive_s * (1 - 1e-9)
    assert one.ttft_s >= 0.011 * (1 - 1e-9)
