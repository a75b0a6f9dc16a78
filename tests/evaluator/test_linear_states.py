"""Gated delta nets: work that follows tokens and requests alone, and states of one size in memory and transfers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import TEST_DEVICE, captured, gqa
from hypothesis import given
from hypothesis import strategies as st

from evaluator.canonical import canonical
from evaluator.evaluate import assumptions_of, capture_requests, evaluate_scenario, unsupported
from evaluator.graph.capture import capture_operators
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import DenseMlp, GatedDeltaNet, LayerGroup, ModelSpec, MoeMlp, StateSpace
from evaluator.inputs.parameters import parameter_count
from evaluator.inputs.plan_search import illegality
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.kv_state import layer_bytes
from evaluator.pricing.memory import transfer_bytes
from evaluator.restore import restored
from evaluator.scenario import Scenario
from evaluator.together.ranges import batch_range

NET = GatedDeltaNet(key_heads=16, value_heads=64, key_head_dim=128, value_head_dim=128, convolution=4)
FULL = gqa(32, 2, 256, qk_norm="per_head", output_gate=True)
MOE = MoeMlp(experts=512, experts_per_token=10, intermediate_size=1024, shared_intermediate_size=1024, shared_gate=True)
# The published shapes of Qwen3.5-397B-A17B.
HYBRID = ModelSpec(
    architecture="qwen3_5_moe_text",
    hidden_size=4096,
    vocab_size=248320,
    layers=(LayerGroup(count=45, attention=NET, mlp=MOE), LayerGroup(count=15, attention=FULL, mlp=MOE)),
    rope_fraction=0.25,
    mtp_layers=1,
    max_positions=262144,
)


def of_kind(trace, kind, plan=Plan()):  # noqa: B008  frozen
    return next(one for one in captured(HYBRID, plan, trace).operators if one.kind == kind)


def test_a_token_of_a_layer():
    # Of one token: in-projections of 12,288 + 8,192 and 128, the way out of 8,192, and the scan of 180,224 a head
    sums = repeated(request_sums(512.0, 0.0), 1.0)
    net = [
        one
        for one in captured(HYBRID, Plan(), "prefill").operators
        if one.label.startswith("layers0.") and ".mlp." not in one.label
    ]
    flops = sum(float(one.matrix_flops.at(sums)) for one in net) / 512
    assert flops == 2 * 4096 * (12_288 + 8_192 + 128 + 8_192) + 64 * 180_224
    assert 2 * 4096 * (12_288 + 8_192 + 128 + 8_192) == 235_929_600


def test_a_decode_reads_and_writes_the_state_of_each_request():
    update = of_kind("decode", "state_update")
    sums = repeated(request_sums(1.0, 5000.0), 256.0)
    states = 256 * 64 * 128 * 128 * 4
    assert float(update.bytes_read.at(sums)) == states + 256 * 12_288 * 2 + 2 * 64 * 2
    assert float(update.bytes_written.at(sums)) == states + 256 * 8_192 * 2
    assert float(update.vector_flops.at(sums)) == 7 * 256 * 64 * 128 * 128


@given(cached=st.integers(0, 200_000), other=st.integers(0, 200_000))
def test_its_work_does_not_know_the_context(cached, other):
    one, two = (repeated(request_sums(7.0, float(length)), 3.0) for length in (cached, other))
    for trace, kind in (("prefill", "state_scan"), ("decode", "state_update")):
        operator = of_kind(trace, kind)
        assert operator.matrix_flops.at(one) == operator.matrix_flops.at(two)
        assert operator.bytes_read.at(one) == operator.bytes_read.at(two)


@pytest.mark.parametrize("tokens", [1024.0, 131_072.0])
def test_state_of_a_request(tokens):
    # 45 x (64 x 128 x 128 x 4 + 12,288 x 3 x 2) bytes, and 15 x 2 x 2 x 256 x 2 a token
    kept = sum(group.count * layer_bytes(group, 16, 1, tokens) for group in HYBRID.layers)
    assert kept == 192_061_440 + 30_720 * tokens
    assert transfer_bytes(HYBRID, 16, tokens) == kept
    eighth = sum(group.count * layer_bytes(group, 16, 8, tokens) for group in HYBRID.layers)
    assert eighth == 192_061_440 / 8 + 15_360 * tokens  # two KV heads: one on each device


def test_both_kinds_of_heads_are_split():
    assert illegality(HYBRID, Plan(tp=32, ep=32), 32) == "tp 32 does not divide the 16 key heads"
    assert illegality(HYBRID, Plan(tp=16, ep=16), 16) is None


def served(**changes):
    return Scenario(
        **{
            "model": HYBRID,
            "device": load_device("h200_sxm", family="calibrated"),
            "precision": Precision(linear="FP8_BLOCK"),
            "plan": Plan(tp=8, ep=8),
            "workload": Workload(input_length=4000, output_length=200.0),
            "phase": "aggregated",
            "serving_model": "vllm",
            **changes,
        }
    )


def sets_of(scenario):
    return {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}


def test_the_state_is_in_memory_and_in_the_largest_batch():
    decode = served(
        phase="decode",
        device=TEST_DEVICE,
        serving_model="waves",
        workload=Workload(input_length=100, output_length=20.0),
    )
    sets = sets_of(decode)
    block = evaluate_scenario(decode, np.asarray([1, 10]), sets)
    # 128 tokens of 15 layers with one KV head of 256 each, and an eighth of 192 MB, a request
    assert list(block.kv_cache_bytes) == [n * (128 * 15_360 + 192_061_440 // 8) for n in (1, 10)]
    bare = replace(decode, model=replace(HYBRID, layers=(replace(HYBRID.layers[1], count=60),)))
    assert batch_range(decode, sets).largest_fitting < batch_range(bare, sets_of(bare)).largest_fitting


@pytest.mark.parametrize("phase", ["prefill", "decode", "aggregated"])
def test_an_engine_on_a_measured_device_serves_it(phase):
    scenario = served(phase=phase)
    sets = sets_of(scenario)
    block = evaluate_scenario(scenario, np.asarray([1, 8, 32]), sets)
    times = block.ttft_ms if phase == "prefill" else block.tpot_exclusive_ms
    assert (np.diff(times) > 0).all()
    assert any("rooflines fitted to kernels of h200_sxm" in sentence for sentence in assumptions_of(scenario, sets))


SPACE = StateSpace(heads=128, head_dim=64, groups=8, state_size=128, convolution=4, convolution_bias=True, chunk=128)
LATENT_MOE = MoeMlp(
    experts=512, experts_per_token=22, intermediate_size=2688, shared_intermediate_size=5376, router_bias=True,
    gated=False, latent_size=1024,
)  # fmt: skip
# The published shapes of Nemotron-3-Super: layers of one block each.
SUPER = ModelSpec(
    architecture="nemotron_h",
    hidden_size=4096,
    vocab_size=131072,
    layers=(
        LayerGroup(count=8, attention=gqa(32, 2, 128), mlp=None),
        LayerGroup(count=40, attention=SPACE, mlp=None),
        LayerGroup(count=40, attention=None, mlp=LATENT_MOE),
    ),
    position="none",
)


@pytest.mark.parametrize("tokens", [1024.0, 131_072.0])
def test_state_of_a_state_space(tokens):
    # 40 x (128 x 64 x 128 x 4 + 10,240 x 3 x 2) bytes, and 8 x 2 x 2 x 128 x 2 a token
    assert (
        sum(group.count * layer_bytes(group, 16, 1, tokens) for group in SUPER.layers) == 170_229_760 + 8_192 * tokens
    )


def test_a_state_space_token_by_token_and_in_chunks():
    sums = repeated(request_sums(1.0, 5000.0), 16.0)
    update = next(one for one in captured(SUPER, Plan(), "decode").operators if one.kind == "space_update")
    assert float(update.vector_flops.at(sums)) == 5 * 16 * 128 * 64 * 128
    assert float(update.bytes_written.at(sums)) == 16 * (128 * 64 * 128 * 4 + 128 * 64 * 2)
    scan = next(one for one in captured(SUPER, Plan(), "prefill").operators if one.kind == "space_scan")
    each = 8 * 2 * 128 * 128 + 128 * (2 * 128 * 64 + 4 * 64 * 128)
    assert float(scan.matrix_flops.at(repeated(request_sums(512.0, 0.0), 1.0))) == 512 * each


@pytest.mark.parametrize("plan", [Plan(), Plan(tp=4, ep=4), Plan(tp=2, moe_tp=2)])
def test_experts_in_fewer_dimensions_have_two_matrices_of_them(plan):
    found = {
        one.label.rsplit(".", 1)[-1]: one for one in captured(SUPER, plan, "prefill").operators if "mlp" in one.label
    }
    up, down = (one.gemm for one in captured(SUPER, plan, "prefill").operators if one.kind == "moe_grouped_gemm")
    width = 2688 // plan.moe_tp
    assert (up.n, up.k, down.n, down.k) == (width, 1024, 1024, width)
    assert (found["latent_down_proj"].gemm.n, found["latent_up_proj"].gemm.n) == (1024, 4096)
    held = sum(one.count * one.weight_bytes for one in captured(SUPER, Plan()).operators)
    assert held == 2 * parameter_count(SUPER).total


def test_kernels_of_state_spaces_are_carried_and_said_so():
    scenario = served(model=SUPER)
    sets = sets_of(scenario)
    block = evaluate_scenario(scenario, np.asarray([1, 8, 32]), sets)
    assert (np.diff(block.tpot_exclusive_ms) > 0).all()
    said = "space_scan as state_scan, space_update as state_update: no kernel of it was measured"
    assert any(said in sentence for sentence in assumptions_of(scenario, sets))
    assert restored(canonical(SUPER)) == SUPER


def test_a_stored_hybrid_is_the_same_model():
    assert restored(canonical(HYBRID)) == HYBRID


# The published shapes of Falcon-H1-34B: attention and a state space in every layer, side by side.
FALCON_SPACE = replace(SPACE, heads=32, head_dim=128, groups=2, state_size=256)
FALCON = ModelSpec(
    architecture="falcon_h1",
    hidden_size=5120,
    vocab_size=261120,
    layers=(
        LayerGroup(count=72, attention=gqa(20, 4, 128), mlp=DenseMlp(intermediate_size=21504), beside=FALCON_SPACE),
    ),
)


@pytest.mark.parametrize("tokens", [1024.0, 131_072.0])
def test_a_layer_of_two_mixers_keeps_the_state_of_both(tokens):
    # 72 x (2 x 4 x 128 x 2) a token; 72 x (32 x 128 x 256 x 4 + (4,096 + 2 x 2 x 256) x 3 x 2) bytes a request
    kept = sum(group.count * layer_bytes(group, 16, 1, tokens) for group in FALCON.layers)
    assert kept == 147_456 * tokens + 72 * (4_194_304 + 30_720)
    assert transfer_bytes(FALCON, 16, tokens) == kept


def test_a_layer_of_two_mixers_has_one_norm_and_sums_each_by_itself():
    sums = repeated(request_sums(512.0, 0.0), 1.0)
    found = {one.label: one for one in captured(FALCON, Plan(tp=4), "prefill").operators}
    reduced = [label for label in found if label.startswith("layers.") and label.endswith("all_reduce")]
    assert sorted(reduced) == [
        "layers.attention_all_reduce", "layers.beside.all_reduce", "layers.mlp.all_reduce"
    ]  # fmt: skip
    norms = [label for label, one in found.items() if label.startswith("layers.") and one.kind == "norm"]
    # Behind the gate the published model has a norm of its own.
    assert norms == ["layers.input_norm", "layers.beside.norm", "layers.post_attention_norm"]
    # A quarter of 4,096 for gate and values, of the two groups' states rounded up to one, and of 32 heads
    space = found["layers.beside.input_proj"].gemm
    assert (space.n, space.k) == (1024 + 1024 + 2 * 256 + 8, 5120)
    assert found["layers.beside.input_proj"].count == 72
    assert float(found["layers.beside.input_proj"].matrix_flops.at(sums)) == 2 * 512 * 5120 * 2568
    held = sum(one.count * one.weight_bytes for one in captured(FALCON, Plan()).operators)
    assert held == 2 * parameter_count(FALCON).total


def test_a_layer_of_two_mixers_splits_the_heads_of_both():
    assert illegality(FALCON, Plan(tp=8), 8) == "tp 8 does not divide the 20 query heads"
    more = replace(FALCON, layers=(replace(FALCON.layers[0], attention=gqa(64, 4, 128)),))
    assert illegality(more, Plan(tp=64), 64) == "tp 64 does not divide the 32 state heads"
    assert illegality(FALCON, Plan(tp=4), 4) is None


def test_a_layer_of_two_mixers_is_served_and_restored():
    upstream = served(model=FALCON, plan=Plan(tp=4), serving_model="waves", convention="upstream", device=TEST_DEVICE)
    assert "no linear states" in unsupported(upstream).message
    scenario = served(model=FALCON, plan=Plan(tp=4))
    sets = sets_of(scenario)
    block = evaluate_scenario(scenario, np.asarray([1, 8, 32]), sets)
    assert (np.diff(block.tpot_exclusive_ms) > 0).all()
    assert any("space_scan as state_scan" in sentence for sentence in assumptions_of(scenario, sets))
    assert restored(canonical(FALCON)) == FALCON
    assert "beside" not in canonical(HYBRID)
