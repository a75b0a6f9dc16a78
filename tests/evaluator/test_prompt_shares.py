"""Prefill context parallelism: groups that divide a prompt's tokens, by literal arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import DEEPSEEK_V3, LLAMA_31_8B, QWEN3_30B_A3B, TEST_DEVICE, captured
from hypothesis import given
from hypothesis import strategies as st

from evaluator.evaluate import capture_requests, evaluate_scenario, unsupported
from evaluator.graph.capture import capture_operators
from evaluator.graph.sums import repeated, request_sums
from evaluator.identity import RecordBuilder
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.launchable import launchable_by
from evaluator.inputs.model import GatedDeltaNet, TokenIndexer
from evaluator.inputs.plan_search import PlanSearch, illegality, plan_choices
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.memory import activation_bytes, kv_bytes, weight_bytes
from evaluator.pricing.occurrence import operator_seconds, seen_by
from evaluator.pricing.step import step_seconds
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.scenario import Scenario

COST = TheoreticalCost(device=TEST_DEVICE)
INDEXED = replace(
    DEEPSEEK_V3,
    layers=tuple(
        replace(
            group,
            attention=replace(group.attention, chosen_keys=2048, indexer=TokenIndexer(heads=64, head_dim=128)),
        )
        for group in DEEPSEEK_V3.layers
    ),
)


def by_label(model, plan, trace, **options):
    """The operators of a layer of the last kind, by what their labels end in."""
    layer = f"layers{len(model.layers) - 1}." if len(model.layers) > 1 else "layers."
    found = captured(model, plan, trace, compile=True, **options).operators
    return {one.label.removeprefix(layer): one for one in found if one.label.startswith(layer)}


def test_a_group_computes_its_share_and_reads_every_key():
    # 8,192 new tokens after 2,048 cached ones, in 4 groups of tp 2: 2,048 tokens each
    sums = request_sums(8192.0, 2048.0)
    parts = by_label(LLAMA_31_8B, Plan(tp=2, pcp=4), "prefill")
    projection = parts["qkv_proj"]
    # 16 query heads and 4 heads of keys and of values of 128 a device: 3,072 columns of 4,096
    assert float(projection.matrix_flops.at(seen_by(projection, sums))) == 2 * 2048 * 4096 * (16 + 4 + 4) * 128
    attention = parts["attention"]
    own = seen_by(attention, sums)
    pairs = 8192 * 2048 + 8192 * 8193 // 2
    assert float(own.pairs) == pairs / 4
    assert float(own.keys) == 8192 + 2048
    assert float(attention.matrix_flops.at(own)) == 2 * 16 * (128 + 128) * pairs / 4
    # All groups together do the work of one that is alone
    alone = by_label(LLAMA_31_8B, Plan(tp=2), "prefill")["attention"]
    assert 4 * float(attention.matrix_flops.at(own)) == float(alone.matrix_flops.at(sums))


def test_new_keys_and_values_are_gathered_over_groups_and_kept_whole():
    sums = repeated(request_sums(4096.0, 0.0), 3.0)
    gqa = captured(LLAMA_31_8B, Plan(tp=2, pcp=4), "prefill", compile=True).operators
    gathers = [one for one in gqa if one.label.endswith("prompt_all_gather")]
    # 3 x 4,096 / 4 tokens, 4 heads of 128 numbers of two bytes, keys and values; devices of one head are tp apart
    sent = sum(one.count * float(one.collective.payload_bytes.at(seen_by(one, sums))) for one in gathers)
    assert sent == 32 * 2 * (3 * 1024 * 4 * 128 * 2)
    assert {(one.collective.group_size, one.collective.stride) for one in gathers} == {(4, 2)}
    latent = by_label(DEEPSEEK_V3, Plan(pcp=8, ep=8), "prefill")
    written = latent["kv_write"]
    assert float(written.bytes_written.at(seen_by(written, sums))) == 3 * 4096 * 576 * 2
    plans = (Plan(tp=2), Plan(tp=2, pcp=4))
    whole, kept = (
        kv_bytes(LLAMA_31_8B, plan, 16, np.asarray(4096.0), np.asarray(3.0), paging="per_request", drafting=False)
        for plan in plans
    )
    assert whole == kept


def test_indexers_gather_their_keys_too():
    sums = request_sums(8192.0, 0.0, windows=INDEXED.spans)
    found = captured(INDEXED, Plan(pcp=8, ep=8), "prefill", compile=True).operators
    (gather,) = {
        float(one.collective.payload_bytes.at(seen_by(one, sums)))
        for one in found
        if one.label.endswith("indexer.kv_write.prompt_all_gather")
    }
    assert gather == 1024 * 128  # a byte a number, 1,024 tokens of its own
    scores = next(one for one in found if one.kind == "index_scores")
    alone = next(one for one in captured(INDEXED, Plan(tp=8, ep=8), "prefill", compile=True).operators
                 if one.kind == "index_scores")  # fmt: skip
    assert 8 * float(scores.matrix_flops.at(seen_by(scores, sums))) == float(
        alone.matrix_flops.at(seen_by(alone, sums))
    )


def test_experts_serve_the_tokens_of_all_groups():
    sums = request_sums(8192.0, 0.0)
    for plan in (Plan(pcp=8, ep=8), Plan(tp=2, pcp=4, ep=8), Plan(tp=8, ep=8)):
        parts = by_label(DEEPSEEK_V3, plan, "prefill")
        grouped = next(one for one in parts.values() if one.kind == "moe_grouped_gemm")
        assert float(grouped.experts.tokens.at(seen_by(grouped, sums))) == 8192
        # Each device sends the 8 rows of its own 1,024 tokens
        sent = parts["mlp.dispatch"]
        assert float(sent.collective.payload_bytes.at(seen_by(sent, sums))) == 8 * 1024 * 7168 * 2
    decode = by_label(DEEPSEEK_V3, Plan(pcp=8, ep=8), "decode")
    # 64 tokens, which all 8 devices hold: each routes 8 of them and gets the others' back
    batch = repeated(request_sums(1.0, 999.0), 64.0)
    assert float(decode["mlp.dispatch"].collective.payload_bytes.at(batch)) == 8 * 8 * 7168 * 2
    assert decode["mlp.all_gather"].collective.group_size == 8


def test_a_decode_is_the_same_in_every_group():
    plans = (Plan(tp=2), Plan(tp=2, pcp=4))
    first, second = (captured(LLAMA_31_8B, plan, "decode", compile=True) for plan in plans)
    assert first.operators == second.operators
    assert first.alive_bytes == second.alive_bytes


@given(tokens=st.integers(1, 60_000), cached=st.integers(0, 60_000), groups=st.sampled_from([2, 4, 8]))
def test_work_of_groups_adds_up_and_time_and_activations_fall(tokens, cached, groups):
    sums = request_sums(float(tokens), float(cached))
    alone, shared = (captured(LLAMA_31_8B, Plan(pcp=pcp), "prefill", compile=True) for pcp in (1, groups))
    for name in ("matrix_flops", "vector_flops"):
        total, each = (
            sum(
                one.count * float(getattr(one, name).at(seen_by(one, sums)))
                for one in found.operators
                if one.driver != "sequences"
            )
            for found in (alone, shared)
        )
        assert each * groups == pytest.approx(total, rel=1e-9)
    assert weight_bytes(shared, drafting=False) == weight_bytes(alone, drafting=False)
    assert float(activation_bytes(shared, sums)) <= float(activation_bytes(alone, sums))
    computing = [
        sum(
            one.count * float(operator_seconds(one, COST, sums).total())
            for one in found.operators
            if one.collective is None
        )
        for found in (alone, shared)
    ]
    assert computing[1] <= computing[0]


def test_a_long_prompt_takes_nearly_a_share_of_its_time():
    sums = request_sums(np.asarray([131_072.0]), np.asarray([0.0]))
    alone, shared = (
        step_seconds(captured(LLAMA_31_8B, Plan(pcp=pcp), "prefill", compile=True), COST, sums).total[0]
        for pcp in (1, 8)
    )
    assert alone / 8 < shared < alone / 6


def test_plans_say_what_divides_prompts():
    assert Plan(tp=2, pcp=4, dp=2).num_devices == 16
    assert illegality(LLAMA_31_8B, Plan(tp=2, pcp=4), 8) is None
    assert "tp 2 x pp 1 x dp 1 x pcp 4 is 8, not 4 devices" in illegality(LLAMA_31_8B, Plan(tp=2, pcp=4), 4)
    assert "x pcp 4 = 8" in illegality(QWEN3_30B_A3B, Plan(tp=2, pcp=4, ep=2), 8)
    linear = replace(
        LLAMA_31_8B,
        layers=(
            replace(
                LLAMA_31_8B.layers[0],
                attention=GatedDeltaNet(
                    key_heads=16, value_heads=32, key_head_dim=128, value_head_dim=128, convolution=4
                ),
            ),
        ),
    )
    assert "a kind of layer here is none" in illegality(linear, Plan(pcp=2), 2)
    usual = plan_choices(LLAMA_31_8B, 8, PlanSearch())
    assert {choice.plan.pcp for choice in usual} == {1}
    asked = plan_choices(LLAMA_31_8B, 8, PlanSearch(pcp_sizes=(1, 4), dp_sizes=(1,)))
    assert {(choice.plan.tp, choice.plan.pcp) for choice in asked if choice.illegal is None} == {(8, 1), (2, 4)}


def test_engines_that_launch_them():
    assert launchable_by(LLAMA_31_8B, Plan(tp=2, pcp=4)) == ("vllm", "sglang")
    assert launchable_by(DEEPSEEK_V3, Plan(pcp=8, ep=8)) == ("vllm", "sglang")
    assert launchable_by(DEEPSEEK_V3, Plan(tp=2, pcp=4, ep=4, moe_tp=2)) == ("sglang",)


def scenario_of(plan, **more):
    """A prompt of 32,768 tokens on the test device."""
    workload = Workload(input_length=32_768, output_length=100.0)
    precision = Precision(linear="BF16", attention="DISABLED")
    return Scenario(
        model=LLAMA_31_8B,
        device=TEST_DEVICE,
        precision=precision,
        plan=plan,
        workload=workload,
        phase="prefill",
        **more,
    )


@pytest.mark.parametrize("serving_model", ["waves", "vllm", "sglang"])
def test_prompts_come_sooner_and_keys_of_others_stay(serving_model):
    found = []
    for plan in (Plan(tp=2), Plan(tp=2, pcp=4)):
        scenario = scenario_of(plan, serving_model=serving_model)
        assert unsupported(scenario) is None
        operators = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
        found.append(evaluate_scenario(scenario, np.asarray([1, 4]), operators))
    alone, shared = found
    assert (shared.ttft_ms < alone.ttft_ms).all()
    assert (shared.kv_cache_bytes == alone.kv_cache_bytes).all()
    assert (shared.weight_bytes == alone.weight_bytes).all()


def test_a_plan_without_them_keeps_its_keys():
    usual, shared = (scenario_of(plan) for plan in (Plan(tp=2), Plan(tp=2, pcp=4)))
    records = [RecordBuilder().scenario("m", one) for one in (usual, shared)]
    assert records[0].key != records[1].key
    assert unsupported(replace(shared, convention="upstream")) is not None
