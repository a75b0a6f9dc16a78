"""Attention to chosen tokens: the dense operators where all are chosen, flat beyond, and what its caches hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import DEEPSEEK_V3, TEST_DEVICE, captured, gqa, one_group
from hypothesis import given
from hypothesis import strategies as st
from shared_data import shared_data

from evaluator.calibration.device_fit import fit_kernel
from evaluator.calibration.forms.base import figures_of
from evaluator.calibration.mixer_kernels import MIXER_KINDS, mixer_values
from evaluator.canonical import canonical
from evaluator.evaluate import assumptions_of, capture_requests, cost_model, evaluate_scenario, unsupported
from evaluator.graph.capture import capture_operators
from evaluator.graph.sums import composed, repeated, request_sums
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import DenseMlp, LayerGroup, MoeMlp, Short, TokenIndexer
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.kv_state import kv_states, layer_bytes
from evaluator.pricing.memory import kv_bytes, transfer_bytes
from evaluator.pricing.occurrence import operator_seconds
from evaluator.pricing.step import step_seconds
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.restore import restored
from evaluator.scenario import Scenario
from tools.mixer_kernels import rows_of

INDEXER = TokenIndexer(heads=64, head_dim=128)
CHOSEN = 2048
COST = TheoreticalCost(device=TEST_DEVICE)


def sparse(chosen, *, indexer=INDEXER):
    """DeepSeek-V3 whose tokens attend to chosen ones."""
    attention = replace(DEEPSEEK_V3.layers[0].attention, chosen_keys=chosen, indexer=indexer)
    return replace(DEEPSEEK_V3, layers=tuple(replace(group, attention=attention) for group in DEEPSEEK_V3.layers))


V32 = sparse(CHOSEN)


def work(model, trace, new, cached, kind):
    """(matrix FLOPs, bytes read) of one occurrence of the first operator of a kind."""
    sums = repeated(request_sums(float(new), float(cached), windows=model.windows), 1.0)
    one = next(one for one in captured(model, Plan(), trace).operators if one.kind == kind)
    seen = sums if one.attention is None else sums.within(one.attention.window)
    return float(one.matrix_flops.at(seen)), float(one.bytes_read.at(seen))


@given(new=st.integers(1, 4000), cached=st.integers(0, 200_000))
def test_where_all_keys_are_chosen_decodes_are_the_dense_operators(new, cached):
    chosen = sparse(new + cached + 7)
    dense, ours = captured(DEEPSEEK_V3, Plan(), "decode"), captured(sparse(1_000_000), Plan(), "decode")
    assert (
        work(chosen, "decode", new, cached, "sparse_attention")[0]
        == work(DEEPSEEK_V3, "decode", new, cached, "mla_decode")[0]
    )
    other = [one for one in ours.operators if "indexer" not in one.label and one.kind != "sparse_attention"]
    assert other == [one for one in dense.operators if one.kind != "mla_decode"]


def without_index(model, trace):
    """The operators of a step that are not its indexer's."""
    sets = captured(model, Plan(), trace)
    return replace(sets, operators=tuple(one for one in sets.operators if ".indexer" not in one.label))


@given(requests=st.lists(st.tuples(st.integers(1, 1500), st.integers(0, 548)), min_size=1, max_size=4))
def test_prompts_of_no_more_keys_than_are_chosen_are_the_dense_operators(requests):
    sums = composed(np.ones((1, len(requests))), request_sums(*np.asarray(requests, dtype=float).T, windows=V32.spans))
    dense = step_seconds(captured(DEEPSEEK_V3, Plan(), "prefill"), COST, sums)
    assert np.array_equal(step_seconds(without_index(V32, "prefill"), COST, sums).kinds, dense.kinds)
    scored = [one for one in captured(V32, Plan(), "prefill").operators if one.kind in {"index_scores", "index_choice"}]
    assert len(scored) == 4
    assert all(operator_seconds(one, COST, sums).total() == 0 for one in scored)


def test_of_a_batch_each_request_is_short_or_long_by_itself():
    # 1,000 tokens after 1,048 are short; 3,000 are long, and so is 1 token after 2,048.
    sums = composed([[2.0, 1.0, 1.0]], request_sums([1000.0, 3000.0, 1.0], [1048.0, 0.0, 2048.0], windows=V32.spans))
    short, long = sums.only(Short(CHOSEN)), sums.beyond(Short(CHOSEN))
    assert (short.tokens, short.pairs, short.keys) == (2000, 2 * (1000 * 1048 + 500_500), 4096)
    assert (long.tokens, long.pairs, long.keys) == (3001, 3000 * 3001 // 2 + 2049, 3000 + 2049)
    # In the window of as many keys: 2,048 x 2,049 / 2 + 952 x 2,048, and 2,048
    assert sums.within(CHOSEN).beyond(Short(CHOSEN)).pairs == 2048 * 2049 // 2 + 952 * 2048 + 2048


def test_an_expanded_form_beside_an_absorbed_one_has_no_weights_of_its_own():
    both, dense = (captured(model, Plan(), "prefill").operators for model in (V32, DEEPSEEK_V3))
    index = sum(one.count * one.weight_bytes for one in both if ".indexer" in one.label)
    assert sum(one.count * one.weight_bytes for one in both) == index + sum(
        one.count * one.weight_bytes for one in dense
    )
    prompt = request_sums(8192.0, 100_000.0, windows=V32.spans)
    short_keys = [one for one in captured(V32, Plan(), "prefill").alive_bytes if one.keys]
    assert not short_keys  # 100,000 keys are never expanded
    assert operator_seconds(next(one for one in both if one.kind == "mla_prefill"), COST, prompt).total() == 0


def test_attention_does_not_grow_beyond_the_chosen_keys_and_scores_do():
    # 2 x 128 heads x (576 + 512) x 2,048 keys, whatever the context; an index score is 2 x 64 x 128 of each key
    assert work(V32, "decode", 1, 8191, "sparse_attention")[0] == 2 * 128 * 1088 * 2048
    assert work(V32, "decode", 1, 100_000, "sparse_attention")[0] == 2 * 128 * 1088 * 2048
    assert work(V32, "decode", 1, 99_999, "paged_scores") == (2 * 64 * 128 * 100_000, 64 * 128 + 132 * 100_000)
    # A prompt of 4,096: 2,048 x 2,049 / 2 pairs while it grows, then 2,048 each; a query gathers its own entries.
    pairs = 2048 * 2049 // 2 + 2048 * 2048
    flops, moved = work(V32, "prefill", 4096, 0, "sparse_attention")
    assert (flops, moved) == (2 * 128 * 1088 * pairs, 4096 * 128 * 576 * 2 + pairs * 1152)
    assert work(V32, "prefill", 4096, 0, "index_scores")[0] == 2 * 64 * 128 * (4096 * 4097 // 2)


def test_the_rotated_part_of_a_gathered_entry_stays_in_sixteen_bits():
    sums = repeated(request_sums(1.0, 4095.0, windows=(CHOSEN,)), 1.0).within(CHOSEN)
    narrow = next(one for one in captured(V32, Plan(), "decode", kv_bits=8).operators if one.kind == "sparse_attention")
    # 512 x 1 + 64 x 2 bytes, beside a query of 128 x 576 numbers
    assert float(narrow.bytes_read.at(sums)) == 2048 * 640 + 128 * 576 * 2


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)])
def test_layers_in_any_order_are_the_same_work(order):
    shared = sparse(CHOSEN, indexer=None).layers[1]
    groups = (V32.layers[0], replace(V32.layers[1], count=20), replace(shared, count=38))
    model = replace(V32, layers=tuple(groups[index] for index in order), mtp_layers=0)
    sets = captured(model, Plan(tp=2, ep=2), "decode")
    sums = repeated(request_sums(1.0, 5000.0, windows=(CHOSEN,)), 4.0)
    total = sum(float(one.matrix_flops.at(sums)) * one.count for one in sets.operators)
    first = captured(replace(model, layers=groups), Plan(tp=2, ep=2), "decode")
    assert total == pytest.approx(
        sum(float(one.matrix_flops.at(sums)) * one.count for one in first.operators), rel=1e-12
    )
    assert sum(one.count for one in sets.operators if one.kind == "paged_scores") == 23


@pytest.mark.parametrize(("kv_bits", "latent"), [(16, 70_272), (8, 39_040)])
@pytest.mark.parametrize("tokens", [8192, 131_072])
def test_state_of_a_token(kv_bits, latent, tokens):
    # 61 layers of 576 numbers, or 512 bytes and 64 numbers; an index key of 128 bytes and its scale beside them
    kept = sum(group.count * layer_bytes(group, kv_bits, 8, float(tokens)) for group in V32.layers)
    assert kept == tokens * (latent + 61 * 132)
    assert transfer_bytes(V32, kv_bits, float(tokens)) == kept
    pooled = kv_bytes(
        V32, Plan(tp=8), kv_bits, np.asarray(float(tokens)), np.asarray(3.0), paging="per_request", drafting=False
    )
    assert float(pooled) == 3 * kept


def test_layers_that_share_an_indexer_keep_no_index():
    assert len(kv_states(sparse(CHOSEN, indexer=None).layers[0], 16, 1)) == 1


def served(model=V32, **changes):
    return Scenario(
        **{
            "model": model,
            "device": TEST_DEVICE,
            "precision": Precision(linear="FP8_BLOCK"),
            "plan": Plan(tp=8, ep=8),
            "workload": Workload(input_length=4000, output_length=200.0),
            "phase": "aggregated",
            **changes,
        }
    )


def block_of(scenario, sizes=(1, 4, 16)):
    sets = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    return evaluate_scenario(scenario, np.asarray(sizes), sets), sets


@pytest.mark.parametrize("serving_model", ["waves", "sglang"])
def test_a_measured_device_prices_it_and_says_by_which_kernels(serving_model):
    scenario = served(device=load_device("h200_sxm", family="calibrated"), serving_model=serving_model)
    block, sets = block_of(scenario)
    assert (np.diff(block.tpot_exclusive_ms) > 0).all()
    said = "index_choice, index_scores, paged_scores, sparse_attention: rooflines fitted to kernels of h200_sxm, apart from the calibration"
    assert said in assumptions_of(scenario, sets)
    carried = served(device=load_device("gb300", family="calibrated"))
    assert any("kernels of b200_sxm, apart" in one for one in assumptions_of(carried, sets))


def test_decodes_of_long_contexts_cost_less_than_dense_ones():
    sparse_block, dense_block = (
        block_of(served(model, phase="decode", workload=Workload(input_length=60_000, output_length=200.0)), (8,))[0]
        for model in (V32, DEEPSEEK_V3)
    )
    assert sparse_block.tpot_exclusive_ms[0] < dense_block.tpot_exclusive_ms[0]
    assert sparse_block.kv_cache_bytes[0] == pytest.approx(dense_block.kv_cache_bytes[0] * (1152 + 132) / 1152)


def test_upstream_has_none_of_it():
    error = unsupported(served(convention="upstream"))
    assert error is not None
    assert "no sparse attention" in error.message
    single = one_group("x", 64, 100, 1, gqa(4, 4, 16), DenseMlp(intermediate_size=64))
    cut = replace(single, layers=(*single.layers, LayerGroup(count=1, attention=None, mlp=single.layers[0].mlp)))
    assert unsupported(served(cut, plan=Plan(), convention="upstream")) is not None
    assert unsupported(served(single, plan=Plan(), convention="upstream")) is None


def test_a_stored_model_is_the_same_model():
    assert restored(canonical(V32)) == V32
    assert "chosen_keys" not in canonical(DEEPSEEK_V3)


def test_every_kind_has_a_figure_on_every_measured_device():
    for device in ("h100_sxm", "h200_sxm", "b200_sxm"):
        for kind in MIXER_KINDS:
            assert 0 < mixer_values(device, kind)["memory_efficiency"] <= 1.5


@pytest.mark.parametrize(
    "kind",
    ["index_scores", "paged_scores", "entry_attention", "entry_decode", "state_update", "state_convolution",
     "space_convolution", "block_attention", "block_decode", "encoder_attention"],
)  # fmt: skip
def test_the_shipped_figures_are_those_of_the_measured_kernels(kind):
    rows = rows_of(shared_data("kernels_by_engine"), "h200_sxm", kind)
    fit = fit_kernel(rows, figures_of(load_device("h200_sxm", family="theoretical")))
    assert fit.values == mixer_values("h200_sxm", kind)
    assert fit.accuracy.median_ape < 13


# The published shapes of MiniMax-M3's layers of chosen blocks: 16 of 128 keys for each of 4 groups of heads.
BLOCKS = gqa(
    64, 4, 128, qk_norm="per_head", chosen_keys=2048, chosen_block=128, indexer=TokenIndexer(heads=4, head_dim=128)
)
M3 = one_group(
    "minimax_m3", 6144, 200064, 57, BLOCKS,
    MoeMlp(experts=128, experts_per_token=4, intermediate_size=3072, shared_intermediate_size=3072, router_bias=True),
)  # fmt: skip


def test_attention_to_chosen_blocks_is_attention_in_a_window_beside_an_index():
    # 2 x 64 heads x 256 a key of the 2,048; 2 x 4 x 128 for the index of each of 100,000
    assert work(M3, "decode", 1, 99_999, "block_decode")[0] == 2 * 64 * 256 * 2048
    assert work(M3, "decode", 1, 99_999, "block_scores") == (2 * 4 * 128 * 100_000, 4 * 128 * 2 + 100_000 * 256)
    bare = replace(M3, layers=(replace(M3.layers[0], attention=replace(BLOCKS, indexer=None, chosen_keys=None)),))
    all_chosen = replace(M3, layers=(replace(M3.layers[0], attention=replace(BLOCKS, chosen_keys=128 * 10_000)),))
    for new, cached in ((1, 5000), (700, 300)):
        dense = work(bare, "decode", new, cached, "block_decode")
        assert work(all_chosen, "decode", new, cached, "block_decode") == dense


def test_prompts_attend_to_blocks_by_kernels_of_their_own():
    # 8 x H200, vLLM 0.24.0, 16,384 new tokens, all 64 heads: 13.1 ms for the layer, of which 8.3 are attention
    sums = request_sums(16_384.0, 0.0, windows=M3.spans)
    cost = cost_model(load_device("h200_sxm", family="calibrated"), "physical")
    whole, slice_of_16, slice_of_8 = (
        next(one for one in captured(M3, Plan(tp=tp, ep=tp), "prefill", compile=True).operators if one.kind == "block_attention")
        for tp in (1, 4, 8)
    )  # fmt: skip
    pairs = 2048 * 2049 // 2 + (16_384 - 2048) * 2048
    assert float(whole.matrix_flops.at(sums.within(2048))) == 2 * 64 * 256 * pairs
    seconds = [float(operator_seconds(one, cost, sums).total()) for one in (whole, slice_of_16, slice_of_8)]
    assert seconds[0] == pytest.approx(8.335e-3, rel=0.1)
    # 16 heads of one KV head are a quarter; 8 of one cost what 16 do.
    assert seconds[1] == pytest.approx(seconds[0] / 4, rel=0.05)
    assert seconds[2] == pytest.approx(seconds[1], rel=0.05)


@pytest.mark.parametrize("tokens", [8192.0, 131_072.0])
def test_state_of_a_token_with_an_index_of_blocks(tokens):
    # 57 of its 60 layers: 57 x 4 x 2 x 128 x 2 bytes and 57 x 128 x 2 of the index
    assert sum(group.count * layer_bytes(group, 16, 1, tokens) for group in M3.layers) == tokens * (116_736 + 14_592)
