"""What is predicted for a deployment: phases alone, static batches, closed loops, and two sides, by hand arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator.measured.prediction import as_launched, central_metrics, kv_transfer_s, predictions, prompt_batch_s
from hypothesis import given
from hypothesis import strategies as st

from evaluator.measured.deployments import Deployment
from evaluator.measured.models import measured_model
from evaluator.operators import Affine, CollectiveExtents, ExpertExtents, Operator
from evaluator.plan import Plan
from evaluator.precision import Precision
from evaluator.profiles.load import load_device
from evaluator.serving.closed_pair import ClosedPair, pair_times, queueing_s
from evaluator.serving.engines import EngineProfile
from evaluator.serving.step_tables import StepTable, gathered_once

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


def deployment(**changes: object) -> Deployment:
    name, model = measured_model("Qwen/Qwen3-8B")
    base = Deployment(
        model_name=name,
        model=model,
        device=load_device("h100_sxm"),
        precision=Precision(),
        plan=Plan(tp=1),
        engine=None,
        mode="aggregated",
        input_length=100,
        output_length=11,
        users=4,
    )
    return replace(base, **changes)


def test_prompts_of_a_batch_in_steps_of_the_budget():
    # 400 tokens, 200 a step: two steps of 20 ms, and the attention of four prompts.
    assert prompt_batch_s(TABLE, BARE, 4) == pytest.approx(2 * 0.020 + 4 * 0.001)
    # 300 tokens: a whole step and one of 100 tokens.
    assert prompt_batch_s(TABLE, BARE, 3) == pytest.approx(0.020 + 0.010 + 3 * 0.001)


def test_phases_alone_follow_their_own_definition():
    found = predictions(deployment(mode="decode"), TABLE, BARE)
    assert found["decode_step_ms"] == pytest.approx(8.0)  # 4 + 4 sequences
    assert found["output_tokens_per_s"] == pytest.approx(4 / 0.008)
    found = predictions(deployment(mode="prefill"), TABLE, replace(BARE, request_ms=5.0))
    assert found["prefill_latency_ms"] == pytest.approx(44.0)
    assert found["ttft_ms"] == pytest.approx(49.0)  # a client sees the request's own time, too
    assert found["input_tokens_per_s"] == pytest.approx(4 * 100 / 0.044)


def test_a_static_batch_is_its_prompts_and_then_its_steps():
    found = predictions(deployment(batched=True), TABLE, BARE)
    assert found["e2e_ms"] == pytest.approx(44.0 + 10 * 8.0)


def test_one_user_alone():
    found = predictions(deployment(users=1), TABLE, BARE)
    assert found["ttft_ms"] == pytest.approx(11.0)
    assert found["tpot_exclusive_ms"] == pytest.approx(5.0)
    assert found["e2e_ms"] == pytest.approx(11.0 + 10 * 5.0)
    assert found["output_tokens_per_s"] == pytest.approx(11 / 0.061)
    assert found["requests_per_s"] == pytest.approx(1 / 0.061)


def test_requests_that_are_all_there_take_places_as_they_fall_free():
    # One place: 11 ms of prompt and ten steps of 5 ms each, one after the other.
    found = predictions(deployment(users=1, requests=3), TABLE, BARE)
    assert found == {
        "requests_per_s": pytest.approx(3 / (3 * 0.061)),
        "output_tokens_per_s": pytest.approx(11 / 0.061),
    }
    # Four places for four: their prompts in two steps of 22 ms, then ten steps of 8 ms.
    found = predictions(deployment(users=4, requests=4), TABLE, BARE)
    assert found["requests_per_s"] == pytest.approx(4 / (0.044 + 0.080))


def test_launch_flags_of_a_deployment():
    assert as_launched(deployment(), BARE) is BARE
    assert as_launched(deployment(token_budget=512), BARE).token_budget == 512
    waiting = predictions(deployment(users=1, wait_steps=20), TABLE, BARE)
    assert waiting["ttft_ms"] == pytest.approx(11.0 + 20 * 5.0)


def test_keys_and_values_over_the_links_of_all_that_hold_them():
    # Qwen3-8B: 36 layers x 8 KV heads x 128 x (keys and values) x 2 B = 147,456 B a token.
    eight = deployment(plan=Plan(tp=8), input_length=1000, transfer_bytes_per_s=200e9)
    link = eight.device.links[0]
    assert kv_transfer_s(eight) == pytest.approx(link.latency_s + 147_456_000 / (200e9 * link.efficiency))
    own = replace(eight, transfer_bytes_per_s=None)
    line = 8 * link.bandwidth_bytes_per_s
    assert kv_transfer_s(own) == pytest.approx(link.latency_s + 147_456_000 / (line * link.efficiency))
    narrow = replace(own, precision=Precision(attention="FP8"))
    assert kv_transfer_s(narrow) - link.latency_s == pytest.approx((kv_transfer_s(own) - link.latency_s) / 2)


def test_a_first_token_that_waits_for_the_transfer():
    moved = deployment(mode="prefill", transferred=True)
    plain = predictions(replace(moved, transferred=False), TABLE, BARE)["ttft_ms"]
    assert predictions(moved, TABLE, BARE)["ttft_ms"] == pytest.approx(plain + 1e3 * kv_transfer_s(moved))


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


def test_metrics_once_each_by_mean_then_median():
    metrics = {"ttft_ms_mean": 1.0, "ttft_ms_p50": 2.0, "e2e_ms_p50": 3.0, "tpot_ms_p99": 4.0, "requests_per_s": 5.0}
    assert central_metrics(metrics) == {"ttft_ms": 1.0, "e2e_ms": 3.0, "requests_per_s": 5.0}


def test_tokens_are_gathered_once_around_experts():
    def exchange(label: str, kind: str) -> Operator:
        moved = CollectiveExtents(group_size=8, stride=1, payload_bytes=Affine(tokens=8 * 14336))
        return Operator(label=label, kind=kind, counts=(1,), collective=moved)

    experts = ExpertExtents(
        tokens=Affine(tokens=8),
        experts=256,
        local_experts=256,
        ranks=1,
        experts_per_token=8,
        hidden_size=7168,
        intermediate_size=256,
        role="gate_up",
    )
    before = [
        exchange("layers.mlp.dispatch", "all_gather"),
        exchange("layers.mlp.gather", "reduce_scatter"),
        exchange("layers.mlp.dispatch", "all_to_all"),  # sends rows to where their experts are
        exchange("layers.attention_all_reduce", "all_reduce"),
        Operator(label="layers.mlp.experts.gate_up", kind="moe_grouped_gemm", counts=(1,), experts=experts),
    ]
    moved = [one.collective.payload_bytes.tokens for one in gathered_once(before) if one.collective]
    assert moved == [14336, 14336, 8 * 14336, 8 * 14336]
