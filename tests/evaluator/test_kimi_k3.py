"""Kimi-K3: parts that no installed class has, by literal arithmetic on the shapes of its released tensors."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import captured

from evaluator.canonical import canonical
from evaluator.evaluate import assumptions_of, capture_requests, evaluate_scenario, unsupported
from evaluator.graph.capture import capture_operators
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import load_model
from evaluator.inputs.parameters import parameter_count
from evaluator.inputs.workloads.workload import Workload
from evaluator.restore import restored
from evaluator.scenario import Scenario

K3 = load_model("moonshotai/Kimi-K3")[1]
# Three layers of either kind, the first dense, and sums of residuals that end after two layers: as fast as small.
SMALL = replace(
    K3, residual_block=2, layers=tuple(replace(group, count=count) for group, count in zip(K3.layers, (1, 2, 2), strict=True))
)  # fmt: skip
ONE = repeated(request_sums(512.0, 0.0), 1.0)


def of_label(plan, end, trace="prefill", model=SMALL):
    return [one for one in captured(model, plan, trace).operators if one.label.endswith(end)]


def test_parameters_by_hand():
    inner, latent = 96 * 128, 3584
    net = 7168 * (4 * inner + 128 + 96) + 128 * inner + inner + 96 + 3 * inner * 4 + 128 + inner * 7168
    queries = 7168 * 1536 + 1536 + 1536 * 96 * 192
    full = queries + 7168 * 576 + 512 + 512 * 96 * 256 + 2 * inner * 7168
    experts = 896 * 3 * latent * 3072 + 896 * 7168 + 896 + 2 * 7168 * latent + latent + 3 * 7168 * 6144
    each_layer = 2 * 7168 + 2 * 2 * 7168  # norms, and of each mixture a norm and a score
    whole = 69 * net + 24 * full + 92 * experts + 3 * 7168 * 33792 + 93 * each_layer + 3 * 7168 + 2 * 163840 * 7168
    assert parameter_count(K3).total == whole
    active = parameter_count(K3).active - 163840 * 7168  # what is looked up, not multiplied with
    assert 104.0e9 < active < 104.3e9


def test_every_weight_is_resident_once():
    held = sum(one.count * one.weight_bytes for one in captured(SMALL, Plan(), "prefill").operators)
    assert held == 2 * parameter_count(SMALL).total


def test_every_block_reads_the_ended_sums_and_the_running_one():
    # Layers of two, five in all: sums read are 1 2, 2 2, 2 3, 3 3, 3 4 before attention and MLP, and 4 at the end
    found = {one.label: one for one in captured(SMALL, Plan(), "prefill").operators if "residuals" in one.label}
    counts = {name: one.count for name, one in found.items()}
    assert counts == {
        "residuals.mixed_of_1": 1,
        "residuals.mixed_of_2": 4,
        "residuals.mixed_of_3": 4,
        "residuals.mixed_of_4": 2,
        "residuals.ended.join": 3,
    }
    three = found["residuals.mixed_of_3"]
    assert float(three.bytes_read.at(ONE)) == 512 * 2 * 3 * 7168 * 2 + 2 * 7168 * 2
    assert float(three.bytes_written.at(ONE)) == 512 * 7168 * 2


def test_stages_hand_on_all_ended_sums():
    sent = of_label(Plan(pp=2), "stage_transfer")
    assert [(one.counts, one.collective.payload_bytes.tokens) for one in sent] == [((1, 0), 3 * 7168 * 2)]
    mixed = [one.counts for one in captured(SMALL, Plan(pp=2), "prefill").operators if "residuals.mixed" in one.label]
    assert np.sum(mixed, axis=0).tolist() == [6, 5]


def test_sums_are_alive_to_the_end_of_a_step():
    every = [float(peak.at(ONE)) for peak in captured(SMALL, Plan(), "prefill").alive_bytes]
    plain = [float(peak.at(ONE)) for peak in captured(replace(SMALL, residual_block=0), Plan(), "prefill").alive_bytes]
    assert max(every) - max(plain) == pytest.approx(512 * 3 * 7168 * 2)


@pytest.mark.parametrize("plan", [Plan(tp=4, moe_tp=4), Plan(tp=4, ep=4)])
def test_a_norm_needs_what_all_devices_give(plan):
    reduced = [one for one in captured(SMALL, plan, "prefill").operators if one.kind == "all_reduce"]
    payloads = {one.label.split(".", 1)[1]: one.collective.payload_bytes.tokens for one in reduced}
    assert payloads.get("mlp.latent_all_reduce") == (3584 * 2 if plan.ep == 1 else None)
    assert payloads["mlp.shared_experts.all_reduce"] == 7168 * 2


def test_a_gate_is_as_wide_as_what_comes_out_and_nothing_turns():
    gate = of_label(Plan(tp=8), "gate_proj")[0].gemm
    assert (gate.n, gate.k) == (96 * 128 // 8, 7168)
    assert not [one for one in captured(SMALL, Plan(), "prefill").operators if one.kind == "rope"]


def test_a_decode_reads_a_decay_of_every_channel():
    update = next(one for one in captured(SMALL, Plan(), "decode").operators if one.kind == "channel_update")
    sums = repeated(request_sums(1.0, 5000.0), 16.0)
    states, inner = 16 * 96 * 128 * 128 * 4, 96 * 128
    assert float(update.bytes_read.at(sums)) == states + 16 * 2 * 4 * inner + 2 * (96 + inner)
    assert float(update.vector_flops.at(sums)) == 7 * 16 * 96 * 128 * 128


def test_an_engine_on_a_measured_device_serves_it():
    scenario = Scenario(
        model=K3, device=load_device("b200_sxm", family="calibrated"), plan=Plan(tp=8, dp=2, ep=16),
        precision=Precision(linear="BF16", experts="MXFP4_W4A16"), phase="aggregated", serving_model="vllm",
        workload=Workload(input_length=4000, output_length=200.0),
    )  # fmt: skip
    sets = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    block = evaluate_scenario(scenario, np.asarray([1, 8, 32]), sets)
    assert (np.diff(block.tpot_exclusive_ms) > 0).all()
    assert any("channel_scan" in sentence for sentence in assumptions_of(scenario, sets))
    assert "upstream" in unsupported(replace(scenario, convention="upstream", serving_model="waves")).message
    assert restored(canonical(K3)) == replace(K3, left_out="", vision=None)
