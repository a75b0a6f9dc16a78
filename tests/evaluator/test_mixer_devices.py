"""Whose kernels price sparse attention, linear states and residual streams on a device."""

import numpy as np
import pytest
from evaluator_cases import captured

from evaluator.calibration.mixer_kernels import mixer_device
from evaluator.evaluate import cost_model
from evaluator.graph.operators import Affine, Operator
from evaluator.graph.sums import BatchSums, repeated, request_sums
from evaluator.inputs.devices.calibration_record import calibration_from_json
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import load_model
from evaluator.pricing.calibrated import calibrated_cost
from evaluator.pricing.mixer_work import channel_chain, choice_chain, query_chain, scan_chain
from evaluator.pricing.occurrence import operator_seconds


@pytest.mark.parametrize(
    ("device", "kind", "whose"),
    [
        ("h200_sxm", "index_scores", "h200_sxm"),
        ("l40s", "state_scan", "l40s"),
        ("l40s", "index_scores", "h100_sxm"),
        ("rtx_pro_6000_server", "index_scores", "b200_sxm"),
        ("rtx_pro_6000_server", "channel_update", "rtx_pro_6000_server"),
        ("l4", "block_attention", "l40s"),
        ("l4", "channel_update", "h100_sxm"),
        ("b60", "state_scan", None),
    ],
)
def test_each_kind_takes_the_devices_own_kernels_else_the_nearest_of_its_maker(device, kind, whose):
    profile = load_device(device)
    assert mixer_device(profile, calibration_from_json(profile.calibration), kind) == whose


def test_a_device_of_another_maker_prices_them_by_its_data_sheet():
    cost = calibrated_cost(load_device("b60"))
    said = cost.said(Operator(kind=kind, label="x", counts=(1,)) for kind in ("state_scan", "index_scores", "norm"))
    assert [*said] == ["index_scores, state_scan: by the device's data sheet, apart from the calibration"]
    # 3 us to start, and 1e9 bytes at half of 456 GB/s.
    bare = Operator(kind="state_update", label="x", counts=(1,), bytes_read=Affine(constant=10**9))
    sums = BatchSums(tokens=np.ones(1), sequences=np.ones(1), pairs=np.ones(1), keys=np.ones(1))
    assert cost.operator_seconds(bare, sums).total() == pytest.approx(3e-6 + 1e9 / (0.5 * 4.56e11), rel=1e-6)


def entries_of_a_prompt(sums):
    """The parts of one kernel over DeepSeek-V4-Flash's heads: a window of 128 beside entries of 128 tokens."""
    model = load_model("deepseek-ai/DeepSeek-V4-Flash")[1]
    layer = next(index for index, group in enumerate(model.layers) if getattr(group.attention, "ratio", 0) == 128)
    cost = cost_model(load_device("h200_sxm", family="calibrated"), "physical")
    own = [one for one in captured(model, Plan(), "prefill", kv_bits=8).operators if one.kind == "entry_attention"]
    return [operator_seconds(one, cost, sums) for one in own if one.label.startswith(f"layers{layer}.")]


@pytest.mark.parametrize(
    ("tokens", "cached", "ms"), [(4096.0, 4096.0, 0.3702), (4096.0, 262_144.0, 2.008), (8192.0, 0.0, 0.7122)]
)
def test_a_window_and_entries_add_up_to_the_measured_kernel(tokens, cached, ms):
    model = load_model("deepseek-ai/DeepSeek-V4-Flash")[1]
    window, entries = entries_of_a_prompt(request_sums(np.asarray([tokens]), np.asarray([cached]), windows=model.spans))
    assert entries.overhead == 0  # the kernel is launched once
    assert (window.total() + entries.total()).item() == pytest.approx(
        1e-3 * ms, rel=0.15
    )  # vLLM 0.24.0, H200, 64 heads


def test_steps_in_a_row_by_hand():
    # 300 tokens are 5 chunks of 64; 264 heads wait once on 132 units.
    assert scan_chain(np.asarray(300.0), np.asarray(264.0), 132) == 10
    # 8,192 scores are 8 parts; 66 queries run at once, 264 after each other.
    assert choice_chain(np.asarray(8192.0), np.asarray(66.0), 132) == 8
    assert choice_chain(np.asarray(8192.0), np.asarray(264.0), 132) == 16
    assert list(query_chain(np.asarray([1.0, 132.0, 133.0]), 132)) == [1, 1, 2]
    assert channel_chain(np.asarray(26_400.0), 132) == 2


def test_a_convolution_of_mamba_waits_for_the_channels_of_all_requests():
    model = load_model("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8")[1]
    cost = cost_model(load_device("h200_sxm", family="calibrated"), "physical")
    one = next(one for one in captured(model, Plan(), "prefill").operators if one.kind == "space_convolution")
    # TensorRT-LLM 1.3.0rc20, H200, 10,240 channels: 64 prompts of 128 tokens 584 us, one of 8,192 115 us.
    for batch, tokens, us in ((64.0, 128.0, 584.3), (1.0, 8192.0, 115.5)):
        sums = repeated(request_sums(np.asarray([tokens]), np.zeros(1)), batch)
        assert operator_seconds(one, cost, sums).total().item() == pytest.approx(1e-6 * us, rel=0.1)
