"""Steps of many batches at once: the same as one at a time, whatever the grid; and what must hold for every model and plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import (
    ATTENTION_KINDS,
    DEEPSEEK_V3,
    GPT_OSS_20B,
    LLAMA_31_8B,
    MIXTRAL_8X7B,
    QWEN3_30B_A3B,
    QWEN3_32B,
    TEST_DEVICE,
    W4A8,
    W8A8,
    both_traces,
    captured,
)
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.evaluate import evaluate_scenario
from evaluator.graph.operators import COLLECTIVE_KINDS
from evaluator.graph.sums import BatchSums, composed, repeated, request_sums
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.cost_model import KINDS
from evaluator.pricing.occurrence import exchanged_share, expert_loads, operator_seconds, touched_experts
from evaluator.pricing.step import mixed_step_seconds, step_seconds
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.scenario import Scenario

COST = TheoreticalCost(device=TEST_DEVICE)
CASES = {
    "dense": (QWEN3_32B, Plan(tp=8)),
    "pipeline": (QWEN3_32B, Plan(tp=2, pp=4)),
    "experts": (QWEN3_30B_A3B, Plan(dp=8, ep=8)),
    "expert tensor": (MIXTRAL_8X7B, Plan(tp=2, dp=4, ep=4, moe_tp=2)),
    "latent": (DEEPSEEK_V3, Plan(tp=8, ep=8)),
    "windows": (GPT_OSS_20B, Plan(tp=2, ep=2)),
}
NAMES = sorted(CASES)


def operators_of(name, trace="prefill", **options):
    model, plan = CASES[name]
    return captured(model, plan, trace, linear=W8A8, **options)


def seconds(name, requests, new, context, trace="prefill", **options):
    operators = operators_of(name, trace, **options)
    sums = repeated(request_sums(new, context, windows=operators.windows), requests)
    return step_seconds(operators, COST, sums)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_a_grid_is_its_points(name, compiled):
    requests, context = np.arange(1.0, 90.0)[:, None], np.linspace(1, 9000, 60).round()[None, :]
    grid = seconds(name, requests, 3.0, context, compile=compiled)
    assert grid.kinds.shape == (len(KINDS), 89, 60)
    for row, column in ((0, 0), (7, 13), (88, 59), (31, 2)):
        one = seconds(name, requests[row, 0], 3.0, context[0, column], compile=compiled)
        assert grid.kinds[:, row, column] == pytest.approx(one.kinds, rel=1e-12)
        assert grid.slowest_stage[row, column] == pytest.approx(one.slowest_stage, rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_a_step_is_the_sum_of_its_operators(name):
    operators = operators_of(name)
    sums = repeated(request_sums(100.0, 50.0, windows=operators.windows), 7.0)
    expected = sum(float(operator_seconds(one, COST, sums).total()) * one.count for one in operators.operators)
    assert float(step_seconds(operators, COST, sums).total) == pytest.approx(expected, rel=1e-12)


def test_stages_of_a_pipeline_add_up():
    operators = operators_of("pipeline")
    sums = repeated(request_sums(100.0, 0.0), 4.0)
    step = step_seconds(operators, COST, sums)
    stages = [
        sum(float(operator_seconds(one, COST, sums).total()) * one.counts[stage] for one in operators.operators)
        for stage in range(4)
    ]
    assert float(step.total) == pytest.approx(sum(stages), rel=1e-12)
    assert float(step.slowest_stage) == pytest.approx(max(stages), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_tokens_beyond_a_table_of_small_integers(name):
    # Many distinct and large token counts take the sorted path; a few take none of the tables
    many = np.arange(1.0, 6000.0)
    wide = seconds(name, many * 97.0, 1.0, 10.0)
    for index in (0, 17, 5998):
        assert wide.total[index] == pytest.approx(float(seconds(name, many[index] * 97.0, 1.0, 10.0).total), rel=1e-12)


@settings(max_examples=examples(40))
@given(
    name=st.sampled_from(NAMES),
    trace=st.sampled_from(["prefill", "decode"]),
    requests=st.integers(1, 3000),
    new=st.integers(1, 3000),
    context=st.integers(0, 100_000),
    more=st.integers(1, 500),
    axis=st.sampled_from(["requests", "new", "context"]),
)
def test_time_never_falls_as_a_batch_grows(*, name, trace, requests, new, context, more, axis):
    small = {"requests": requests, "new": new, "context": context}
    large = {**small, axis: small[axis] + more}
    before, after = (float(seconds(name, trace=trace, **batch).total) for batch in (small, large))
    assert after >= before * (1 - 1e-12)


@settings(max_examples=examples(25))
@given(
    name=st.sampled_from(NAMES),
    compiled=st.booleans(),
    requests=st.integers(1, 2000),
    new=st.integers(1, 2000),
    context=st.integers(0, 50_000),
)
def test_a_device_with_every_rate_doubled_is_never_slower(name, compiled, requests, new, context):
    device = replace(
        TEST_DEVICE,
        matrix_flops_per_s=tuple((dtype, 2 * rate) for dtype, rate in TEST_DEVICE.matrix_flops_per_s),
        vector_flops_per_s=tuple((dtype, 2 * rate) for dtype, rate in TEST_DEVICE.vector_flops_per_s),
        memory_bandwidth_bytes_per_s=2 * TEST_DEVICE.memory_bandwidth_bytes_per_s,
        memory_bytes=2 * TEST_DEVICE.memory_bytes,
        links=tuple(replace(link, bandwidth_bytes_per_s=2 * link.bandwidth_bytes_per_s) for link in TEST_DEVICE.links),
    )
    operators = operators_of(name, compile=compiled)
    sums = repeated(request_sums(float(new), float(context), windows=operators.windows), float(requests))
    fast = float(step_seconds(operators, TheoreticalCost(device=device), sums).total)
    assert fast <= float(step_seconds(operators, COST, sums).total)


@settings(max_examples=examples(25))
@given(
    st.sampled_from(NAMES),
    st.lists(st.tuples(st.integers(1, 4000), st.integers(0, 4000)), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
def test_the_order_of_sequences_changes_nothing(name, sequences, random):
    operators = operators_of(name)

    def step(order):
        sums = request_sums(
            np.asarray([new for new, _ in order], dtype=float),
            np.asarray([context for _, context in order], dtype=float),
            windows=operators.windows,
        )
        return step_seconds(operators, COST, composed(np.ones((1, len(order))), sums)).total[0]

    shuffled = list(sequences)
    random.shuffle(shuffled)
    assert step(shuffled) == pytest.approx(step(sequences), rel=1e-12)


# What every tensor-parallel rank computes alike, so that it is there tp times over.
REPLICATED = ("router", "query_kv_down_proj", "query_down_proj", "kv_down_proj")


@pytest.mark.parametrize("trace", ["prefill", "decode"])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize(
    ("model", "plan"),
    [
        (QWEN3_32B, Plan(tp=8)),
        (QWEN3_32B, Plan(tp=2, pp=4)),
        (LLAMA_31_8B, Plan(tp=2, dp=2)),
        (QWEN3_30B_A3B, Plan(tp=2, dp=4, ep=8)),
        (QWEN3_30B_A3B, Plan(tp=4, dp=2, ep=2, moe_tp=2, moe_dp=2)),
        (MIXTRAL_8X7B, Plan(tp=4, moe_tp=4)),
        (DEEPSEEK_V3, Plan(tp=8, dp=2, ep=16)),
        (GPT_OSS_20B, Plan(tp=2, ep=2)),
    ],
)
def test_flops_of_all_ranks_are_those_of_the_whole_model(model, plan, compiled, trace):
    def flops(plan, tokens):
        operators = captured(model, plan, trace, linear=W8A8, compile=compiled)
        sums = repeated(request_sums(64.0, 64.0, windows=operators.windows), tokens / 64.0)
        kinds = {"linears": 0.0, "attention": 0.0, "experts": 0.0, "replicated": 0.0}
        for one in operators.operators:
            kind = "attention" if one.kind in ATTENTION_KINDS else "experts" if one.experts is not None else "linears"
            kind = "replicated" if one.label.endswith(REPLICATED) else kind
            if one.per_expert:
                loads = expert_loads(one.experts, one.experts.tokens.at(sums), "physical")
                work = sum(float(load.touched * one.matrix_flops.tokens * load.tokens) for load in loads)
            else:
                seen = sums.within(one.attention.window) if one.attention is not None else sums
                work = float(one.matrix_flops.at(seen))
            kinds[kind] += work * one.count
        return kinds

    devices_of_a_stage = plan.tp * plan.dp
    whole, part = flops(Plan(), 512.0 * plan.dp), flops(plan, 512.0)
    for kind in ("linears", "attention", "experts"):
        assert part[kind] * devices_of_a_stage == pytest.approx(whole[kind], rel=1e-9)
    assert part["replicated"] * devices_of_a_stage >= whole["replicated"] * (1 - 1e-9)


@settings(max_examples=examples(20))
@given(st.sampled_from(NAMES), st.integers(1, 64), st.integers(1, 64), st.integers(1, 4000))
def test_a_mixed_step_lies_between_its_parts_and_their_sum(name, prefills, decodes, prompt):
    model, plan = CASES[name]
    sets = both_traces(model, plan, linear=W8A8)
    windows = sets["prefill"].windows
    first = repeated(request_sums(float(prompt), 0.0, windows=windows), float(prefills))
    second = repeated(request_sums(1.0, 2000.0, windows=windows), float(decodes))
    both = mixed_step_seconds(sets["prefill"], sets["decode"], COST, first, second).total
    alone = [step_seconds(sets[trace], COST, sums).total for trace, sums in (("prefill", first), ("decode", second))]
    assert max(alone) <= both * (1 + 1e-12)
    assert both <= sum(alone)


def test_an_empty_part_of_a_mixed_step_takes_no_time():
    sets = both_traces(QWEN3_32B, Plan(tp=8), linear=W8A8)
    prefill, decode = request_sums(1000.0, 0.0), repeated(request_sums(1.0, 2000.0), 8.0)
    nothing = repeated(decode, 0.0)
    alone = step_seconds(sets["prefill"], COST, prefill).total
    assert mixed_step_seconds(sets["prefill"], sets["decode"], COST, prefill, nothing).total == pytest.approx(alone)


def test_interference_rises_with_the_prompt():
    # DistServe (seed 003, S42): the longer the prompt beside them, the slower decodes are.
    sets = both_traces(LLAMA_31_8B, Plan())
    decode = repeated(request_sums(1.0, 512.0), 32.0)
    alone = float(step_seconds(sets["decode"], COST, decode).total)
    slowdown = [
        float(mixed_step_seconds(sets["prefill"], sets["decode"], COST, request_sums(float(n), 0.0), decode).total)
        / alone
        for n in (128, 256, 512, 1024)
    ]
    assert slowdown == sorted(slowdown)
    assert slowdown[0] > 1.0
    assert slowdown[-1] > 2 * slowdown[0]


def test_sums_of_a_request():
    sums = request_sums(4.0, 10.0, windows=(8, 12))
    # 11 + 12 + 13 + 14 = 50 pairs, 14 keys; window 8: 4 x 8 and min(14, 4 + 7); window 12: 11 + 12 + 12 + 12 and 14
    assert float(sums.pairs) == 50
    assert float(sums.keys) == 14
    assert [(float(pairs), float(keys)) for _, pairs, keys in sums.windows] == [(32, 11), (47, 14)]
    assert float(request_sums(4.0, 10.0, square=True).pairs) == 56


@given(st.integers(1, 60), st.integers(0, 60), st.integers(1, 70))
def test_pairs_of_a_window_are_counted_token_by_token(new, context, window):
    sums = request_sums(float(new), float(context), windows=(window,)).within(window)
    assert float(sums.pairs) == sum(min(context + i + 1, window) for i in range(new))
    read = {key for i in range(new) for key in range(max(0, context + i + 1 - window), context + i + 1)}
    assert float(sums.keys) == len(read)


def extents_of(name, role):
    operators = operators_of(name).operators
    return next(one.experts for one in operators if one.experts is not None and one.experts.role == role)


def test_touched_experts_are_an_expectation():
    extents = extents_of("experts", "gate_up")  # 128 experts, 8 a token, 16 here
    # one token: 16 x 8/128 = 1; many: all 16; two tokens: 16 (1 - (120/128)^2) = 1.9375
    touched = touched_experts(extents, np.asarray([1.0, 2.0, 1e6]), "physical")
    assert touched == pytest.approx([1.0, 1.9375, 16.0])


def test_upstream_deals_assignments_out_in_turn():
    extents = extents_of("experts", "gate_up")
    # 8 ranks with one token each: 8 assignments go to experts 0-7, which rank 0 holds: 8 experts of 8 tokens
    high, low = expert_loads(extents, np.asarray([8.0]), "upstream")
    assert (high.touched[0], high.tokens[0], low.touched[0]) == (8, 8, 0)
    # 20 tokens a rank: 160 assignments, 1 for each expert and a second for the first 32: all 16 here have 2 x 8
    high, low = expert_loads(extents, np.asarray([160.0]), "upstream")
    assert (high.touched[0], high.tokens[0], low.touched[0]) == (16, 16, 0)


def test_upstream_exchanges_what_rank_0_receives():
    extents = extents_of("experts", "exchange")
    # one token a rank: rank 0 sends nothing and receives 7 ranks' 8 rows, 7 times its own share
    assert exchanged_share(extents, np.asarray([8.0]), "upstream") == pytest.approx([7.0])
    assert exchanged_share(extents, np.asarray([8.0]), "physical") == pytest.approx([7 / 8])
    # evenly spread, both are seven eighths
    assert exchanged_share(extents, np.asarray([8.0 * 1600]), "upstream") == pytest.approx([7 / 8])


@pytest.mark.parametrize("name", NAMES)
def test_bytes_and_flops_are_never_negative(name):
    operators = operators_of(name, compile=False)
    for one in operators.operators:
        for form in (one.matrix_flops, one.vector_flops, one.bytes_read, one.bytes_written):
            assert min(form.coefficients) >= 0, one.label
        assert (one.collective is not None) == (one.kind in COLLECTIVE_KINDS)


@settings(max_examples=examples(15))
@given(
    name=st.sampled_from(NAMES),
    phase=st.sampled_from(["prefill", "decode", "aggregated"]),
    prompt=st.integers(1, 20_000),
    output=st.integers(1, 3000),
    hit=st.sampled_from([0.0, 0.5, 0.9]),
)
def test_probes_grow_with_the_batch(name, phase, prompt, output, hit):
    model, plan = CASES[name]
    scenario = Scenario(
        model=model,
        device=TEST_DEVICE,
        precision=Precision(),
        plan=plan,
        workload=Workload(input_length=prompt, output_length=float(output), prefix_cache_hit_rate=hit),
        phase=phase,
    )
    block = evaluate_scenario(scenario, np.arange(1, 200), both_traces(model, plan, linear=W4A8))
    for column, values in block.columns().items():
        if not np.isnan(np.asarray(values, dtype=float)).all():
            assert np.isfinite(np.asarray(values, dtype=float)).all(), column
    growing = (
        "makespan_ms",
        "prefill_step_ms",
        "decode_step_ms",
        "kv_cache_bytes",
        "kv_cache_mean_bytes",
        "activation_bytes",
    )
    for column in growing:
        values = np.asarray(getattr(block, column), dtype=float)
        if not np.isnan(values).any():
            assert (np.diff(values) >= -1e-9 * values[:-1]).all(), column
    assert (block.kv_cache_bytes >= block.kv_cache_mean_bytes).all()


def test_every_sum_broadcasts():
    sums = BatchSums(tokens=np.ones((3, 1)), sequences=np.ones((3, 1)), pairs=np.ones((1, 4)), keys=np.ones((1, 4)))
    assert step_seconds(operators_of("dense"), COST, sums).total.shape == (3, 4)
