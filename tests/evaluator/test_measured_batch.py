"""How many requests fit where everything is asked for at once, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.ledger.limits import LARGEST_PLANNED_BATCH, saturated_users
from evaluator.ledger.matching import measured_model

LLAMA = measured_model("Llama-2 7B")[1]
A100 = load_device("a100_sxm")


def test_what_weights_leave_over_what_a_request_reserves():
    # 80 GiB less 6,738,415,616 weights of 2 B is 72,422,514,688 B, nine tenths 65,180,263,219. A token holds 32 layers
    # x 2 x 32 heads x 128 x 2 B = 524,288 B; 4,096 of them 2,147,483,648 B: 30.35 requests.
    assert saturated_users(LLAMA, A100, Precision(), Plan(tp=1), 4096.0) == 30
    # Two ranks: 85,899,345,920 - 6,738,415,616 is 79,160,930,304, nine tenths 71,244,837,274, over 1 GiB: 66.35.
    assert saturated_users(LLAMA, A100, Precision(), Plan(tp=2), 4096.0) == 66
    # Keys and values in eight bits: twice 30.35.
    assert saturated_users(LLAMA, A100, Precision(attention="FP8"), Plan(tp=1), 4096.0) == 60


def test_windows_hold_no_more_than_they_see():
    model = measured_model("gpt-oss-20b")[1]
    precision = Precision(linear="BF16", experts="MXFP4")
    short, long = (saturated_users(model, A100, precision, Plan(tp=1), tokens) for tokens in (32_768.0, 65_536.0))
    assert short < 2.01 * long  # half of the layers keep 128 tokens whatever the length
    all_layers = tuple(replace(group, window=None) for group in model.layers)
    assert saturated_users(replace(model, layers=all_layers), A100, precision, Plan(tp=1), 32_768.0) < short


def test_experts_are_split_over_all_devices_and_replicas_count_together():
    model = measured_model("Mixtral 8x7B")[1]
    half, whole = Plan(tp=1, dp=4, ep=4), Plan(tp=4, moe_tp=4)
    precision = Precision(linear="BF16", experts="BF16")
    replicas = saturated_users(model, load_device("h100_sxm"), precision, half, 2048.0)
    assert replicas % 4 == 0
    # Attention data parallelism repeats attention, so less is left than where all of it is split.
    assert 0 < replicas < 4 * saturated_users(model, load_device("h100_sxm"), precision, whole, 2048.0)


def test_a_model_that_leaves_nothing_serves_one_and_short_requests_stop_at_the_largest_batch():
    assert saturated_users(measured_model("Llama-3.1 405B")[1], A100, Precision(), Plan(tp=1), 100.0) == 1
    assert saturated_users(LLAMA, A100, Precision(), Plan(tp=8), 16.0) == LARGEST_PLANNED_BATCH


@given(tokens=st.floats(16.0, 1e5), more=st.floats(1.0, 1e5))
def test_longer_requests_never_fit_in_larger_numbers(tokens, more):
    short = saturated_users(LLAMA, A100, Precision(), Plan(tp=1), tokens)
    assert saturated_users(LLAMA, A100, Precision(), Plan(tp=1), tokens + more) <= short


@pytest.mark.parametrize("linear", ["FP8", "NVFP4"])
def test_narrow_weights_leave_more(linear):
    narrow = saturated_users(LLAMA, A100, Precision(linear=linear), Plan(tp=1), 4096.0)
    assert narrow > 30
