"""Shares of a context and copies of experts: plans, work, memory and times, by literal arithmetic."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import DEEPSEEK_V3, GPT_OSS_20B, LLAMA_31_8B, QWEN3_30B_A3B, TEST_DEVICE, captured, gqa, one_group
from hypothesis import given
from hypothesis import strategies as st

from evaluator.evaluate import capture_requests, cost_model, evaluate_scenario, unsupported
from evaluator.graph.capture import capture_operators
from evaluator.graph.sums import repeated, request_sums
from evaluator.identity import RecordBuilder
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.launchable import launchable_by
from evaluator.inputs.model import DenseMlp, GatedDeltaNet, LayerGroup, TokenIndexer
from evaluator.inputs.plan_search import PlanSearch, illegality, plan_choices
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.kv_state import BLOCK_TOKENS
from evaluator.pricing.memory import kv_bytes, weight_bytes
from evaluator.pricing.occurrence import operator_seconds, seen_by
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.scenario import Scenario, evened_out
from store.errors import InputError

COST = TheoreticalCost(device=TEST_DEVICE)
FEW_HEADS = one_group("x", 4096, 32000, 2, gqa(32, 2, 128), DenseMlp(intermediate_size=8192))


def by_label(model, plan, trace, part, **options):
    """The operators of a layer of the last kind, by what their labels end in."""
    layer = f"layers{len(model.layers) - 1}." if len(model.layers) > 1 else "layers."
    found = captured(model, plan, trace, **options).operators
    return {one.label.removeprefix(layer): one for one in found if one.label.startswith(layer + part)}


def test_a_decode_gathers_queries_and_puts_parts_together():
    # 2 requests on 4,096 keys, 8 devices of 16 heads each that share the keys: 512 a device and request
    sums = repeated(request_sums(1.0, 4095.0), 2.0)
    parts = by_label(DEEPSEEK_V3, Plan(tp=8, ep=8, dcp=8), "decode", "", compile=True)
    payloads = {
        name: float(one.collective.payload_bytes.at(sums)) for name, one in parts.items() if one.collective is not None
    }
    assert payloads["query_all_gather"] == 2 * 16 * 576 * 2
    assert payloads["denominator_all_gather"] == 2 * 128 * 4
    assert payloads["output_reduce_scatter"] == 2 * 128 * 512 * 2
    assert all(parts[name].collective.group_size == 8 for name in ("query_all_gather", "output_reduce_scatter"))
    attention = parts["attention"]
    assert attention.attention.query_heads == 128
    own = seen_by(attention, sums)
    assert float(attention.matrix_flops.at(own)) == 2 * 128 * (576 + 512) * 2 * 512
    # Its queries, and one latent of 576 numbers a key of its own
    assert float(attention.bytes_read.at(own)) == 2 * 128 * 576 * 2 + 2 * 512 * 576 * 2
    alone = by_label(DEEPSEEK_V3, Plan(tp=8, ep=8), "decode", "attention", compile=True)["attention"]
    assert float(alone.matrix_flops.at(sums)) == float(attention.matrix_flops.at(own))


@pytest.mark.parametrize("family", ["theoretical", "calibrated"])
def test_a_share_of_a_long_context_takes_less_time_than_all_of_it(family):
    cost = cost_model(load_device("h200_sxm", family=family), "physical")
    sums = repeated(request_sums(1.0, 99_999.0), 8.0)
    alone, shared = (
        float(operator_seconds(one, cost, sums).total())
        for plan in (Plan(tp=8, ep=8), Plan(tp=8, ep=8, dcp=8))
        for one in by_label(DEEPSEEK_V3, plan, "decode", "attention", compile=True).values()
        if one.kind == "mla_decode"
    )
    # The same products and an eighth of the bytes; a measured kernel has a time of its own beside them.
    assert alone / 8 < shared < alone / 2


def test_a_prompt_gathers_what_others_keep_of_it_and_attends_as_ever():
    plan = Plan(tp=8, dcp=4)
    shared, alone = (by_label(FEW_HEADS, one, "prefill", "") for one in (plan, Plan(tp=8)))
    assert shared.keys() - alone.keys() == {"context_all_gather"}
    assert shared["attention"] == alone["attention"]
    gather = shared["context_all_gather"]
    cached = request_sums(100.0, 800.0)
    # One KV head of 128 + 128 numbers: 200 of the 800 tokens are its own.
    assert float(gather.collective.payload_bytes.at(cached)) == 200 * 256 * 2
    assert operator_seconds(gather, COST, cached).total() > 0
    assert operator_seconds(gather, COST, request_sums(100.0, 0.0)).total() == 0
    # New keys and values: a quarter is kept.
    assert float(shared["kv_write"].bytes_written.at(cached)) == 25 * 256 * 2


@given(tokens=st.integers(1, 100_000), requests=st.integers(1, 50), dcp=st.sampled_from([1, 2, 4, 8]))
def test_each_device_keeps_a_share_of_every_request_in_whole_blocks(tokens, requests, dcp):
    plan = Plan(tp=8, ep=8, dcp=dcp)
    held, whole = (
        float(kv_bytes(DEEPSEEK_V3, one, 16, np.asarray(float(tokens)), np.asarray(float(requests)), paging="per_request", drafting=False))
        for one in (plan, Plan(tp=8, ep=8))
    )  # fmt: skip
    blocks = math.ceil(math.ceil(tokens / dcp) / BLOCK_TOKENS)
    assert held == requests * blocks * BLOCK_TOKENS * 61 * 576 * 2
    assert held <= whole
    assert held >= whole / dcp - requests * BLOCK_TOKENS * 61 * 576 * 2


def test_states_of_one_size_stay_whole():
    net = GatedDeltaNet(key_heads=16, value_heads=16, key_head_dim=128, value_head_dim=128, convolution=4)
    linear = LayerGroup(count=3, attention=net, mlp=FEW_HEADS.layers[0].mlp)
    hybrid = replace(FEW_HEADS, layers=(linear, *FEW_HEADS.layers))
    one, shared = (
        float(kv_bytes(hybrid, plan, 16, np.asarray(4096.0), np.asarray(1.0), paging="per_request", drafting=False))
        for plan in (Plan(tp=8), Plan(tp=8, dcp=4))
    )
    assert one - shared == 2 * 3072 * 256 * 2  # two layers of one KV head keep 1,024 of 4,096 tokens
    assert illegality(hybrid, Plan(tp=8, dcp=4), 8) is None


@pytest.mark.parametrize(
    ("model", "plan", "reason"),
    [
        (DEEPSEEK_V3, Plan(tp=8, ep=8, dcp=8), None),
        (FEW_HEADS, Plan(tp=8, dcp=4), None),
        (FEW_HEADS, Plan(tp=8, dcp=8), "dcp 8 does not divide the 4 devices of tp 8 that hold the same keys"),
        (LLAMA_31_8B, Plan(tp=8, dcp=2), "dcp 2 does not divide the 1 devices of tp 8 that hold the same keys"),
        (DEEPSEEK_V3, Plan(tp=8, ep=8, dcp=3), "dcp 3 does not divide the 8 devices of tp 8 that hold the same keys"),
        (GPT_OSS_20B, Plan(tp=16, ep=16, dcp=2), "a kind of layer here does not"),
        (QWEN3_30B_A3B, Plan(dp=8, ep=8, redundant_experts=4), "ep 8 does not divide the 128 experts and 4 copies"),
        (QWEN3_30B_A3B, Plan(dp=8, ep=8, redundant_experts=16), None),
        (LLAMA_31_8B, Plan(tp=8, redundant_experts=8), "no copies of experts"),
    ],
    ids=str,
)
def test_which_plans_are_legal(model, plan, reason):
    found = illegality(model, plan, plan.num_devices)
    assert found is None if reason is None else reason in found


def test_attention_to_chosen_keys_shares_no_context():
    attention = replace(DEEPSEEK_V3.layers[0].attention, chosen_keys=2048, indexer=TokenIndexer(heads=64, head_dim=128))
    sparse = replace(DEEPSEEK_V3, layers=tuple(replace(one, attention=attention) for one in DEEPSEEK_V3.layers))
    assert "a kind of layer here does not" in illegality(sparse, Plan(tp=8, ep=8, dcp=8), 8)


def test_a_draft_beside_the_model_must_share_too():
    layer = LayerGroup(count=1, attention=gqa(64, 64, 128), mlp=DenseMlp(intermediate_size=18432))
    drafted = replace(DEEPSEEK_V3, draft_layer=layer, draft_states=3)
    assert "1 devices of tp 8" in illegality(drafted, Plan(tp=8, ep=8, dcp=8), 8)


def test_a_search_looks_at_shares_only_when_asked_and_tells_what_cannot_be():
    usual = plan_choices(FEW_HEADS, 8, PlanSearch())
    assert {choice.plan.dcp for choice in usual} == {1}
    asked = plan_choices(FEW_HEADS, 8, PlanSearch(tp_sizes=(8,), dcp_sizes=(1, 4, 8)))
    assert [(choice.plan.dcp, choice.illegal is None) for choice in asked] == [(1, True), (4, True), (8, False)]
    every = plan_choices(FEW_HEADS, 8, PlanSearch(tp_sizes=(8,), dcp_sizes=()))
    assert [choice.plan.dcp for choice in every if choice.illegal is None] == [1, 2, 4]
    with pytest.raises(InputError, match="dcp_sizes"):
        plan_choices(FEW_HEADS, 8, PlanSearch(dcp_sizes=(0,)))
    with pytest.raises(InputError, match="redundant_experts"):
        plan_choices(QWEN3_30B_A3B, 8, PlanSearch(redundant_experts=(-1,)))


def test_who_launches_them():
    assert launchable_by(DEEPSEEK_V3, Plan(tp=8, ep=8, dcp=8)) == ("vllm", "sglang")
    assert launchable_by(DEEPSEEK_V3, Plan(dp=8, ep=8, redundant_experts=32)) == ("vllm", "sglang")
    assert launchable_by(DEEPSEEK_V3, Plan(tp=8, moe_tp=8, redundant_experts=32)) == ()


def served(plan, **changes):
    workload = Workload(input_length=4000, output_length=200.0)
    return Scenario(
        **{"model": DEEPSEEK_V3, "device": TEST_DEVICE, "precision": Precision(linear="FP8_BLOCK"), "plan": plan,
           "workload": workload, "phase": "decode", **changes}
    )  # fmt: skip


def test_keys_of_plans_without_either_do_not_move_and_numbers_with_them_do():
    usual, shared, copied = (served(Plan(tp=8, ep=8, **more)) for more in ({}, {"dcp": 8}, {"redundant_experts": 32}))
    keys = {RecordBuilder().scenario("x", one).key for one in (usual, shared, copied)}
    assert len(keys) == 3
    assert "dcp" not in str(capture_requests(usual)["decode"].key)
    blocks = [
        evaluate_scenario(one, np.asarray([64]), {t: capture_operators(r) for t, r in capture_requests(one).items()})
        for one in (usual, shared, copied)
    ]
    assert blocks[1].kv_cache_bytes[0] < blocks[0].kv_cache_bytes[0] / 6  # 525 tokens in 5 blocks for 4,200 in 33
    assert blocks[1].weight_bytes[0] == blocks[0].weight_bytes[0]
    # 32 copies over 8 devices: 4 experts of 3 x 7,168 x 2,048 more in each of 58 layers, a byte and 4 / 128^2 each
    more = float(blocks[2].weight_bytes[0] - blocks[0].weight_bytes[0])
    assert more == pytest.approx(58 * 4 * 3 * 7168 * 2048 * (1 + 4 / 128**2), rel=1e-6)
    assert len({float(block.tpot_exclusive_ms[0]) for block in blocks}) == 3


def test_copies_even_out_what_falls_on_experts():
    assert evened_out(served(Plan(tp=8, ep=8, redundant_experts=8), phase="prefill"))
    assert not evened_out(served(Plan(tp=8, ep=8), phase="prefill"))
    sets = captured(QWEN3_30B_A3B, Plan(dp=8, ep=8, redundant_experts=16), "decode", compile=True)
    grouped = next(one for one in sets.operators if one.kind == "moe_grouped_gemm")
    assert (grouped.experts.experts, grouped.experts.local_experts) == (144, 18)
    assert weight_bytes(sets, drafting=False) > weight_bytes(captured(QWEN3_30B_A3B, Plan(dp=8, ep=8), "decode", compile=True), drafting=False)  # fmt: skip


def test_upstream_has_neither():
    assert unsupported(served(Plan(tp=8, ep=8), convention="upstream")) is None
    for more in ({"dcp": 8}, {"redundant_experts": 32}):
        refused = unsupported(served(Plan(tp=8, ep=8, **more), convention="upstream"))
        assert "no copies of experts" in refused.message
