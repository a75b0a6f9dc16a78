"""Length distributions: run 12 of the seeds' program, the fixed-length limit, splitting a bin, steady-state decoding."""

from __future__ import annotations

import numpy as np
import pytest
from evaluator_cases import QWEN3_32B, TEST_DEVICE, W8A8, both_traces
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from restated import length_file, rows

from evaluator.evaluate import batch_source, composition_of, cost_model, evaluate_scenario
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.lengths import load_distribution
from evaluator.inputs.workloads.workload import LengthBin, Workload
from evaluator.inputs.workloads.workload_labels import workload_of
from evaluator.pricing.step import mixed_step_seconds, step_seconds
from evaluator.scenario import Scenario
from evaluator.serving.waves.mixed import MixedLengths


def scenario(workload: Workload, phase: str, plan: Plan = Plan(tp=8), **options) -> Scenario:  # noqa: B008
    return Scenario(
        model=QWEN3_32B,
        device=TEST_DEVICE,
        precision=Precision(linear="W8A8_DYNAMIC"),
        plan=plan,
        workload=workload,
        phase=phase,
        **options,
    )


def operators(plan: Plan, convention: str = "physical"):
    return both_traces(QWEN3_32B, plan, linear=W8A8, convention=convention)


def evaluated(case: Scenario, batches) -> dict[str, np.ndarray]:
    block = evaluate_scenario(case, np.asarray(batches), operators(case.plan, case.convention))
    return dict(block.columns())


def bin_of(length, output, weight=1.0, hit=None) -> LengthBin:
    return LengthBin(
        input_length=length,
        output_length=output,
        weight=weight,
        min_input_length=int(length),
        max_input_length=int(length),
        prefix_cache_hit_rate=hit,
    )


def test_run_12_of_the_seeds_program_within_one_percent(tmp_path):
    bins = load_distribution(length_file(tmp_path), output_length=1500)
    workload = workload_of(input_length=None, output_length=1500, bins=bins, max_batched_tokens=16920)
    printed = [row for row in rows("upstream_answers") if row["run"] == "12"]
    assert len(printed) == 4
    for row in printed:
        case = scenario(workload, "prefill", Plan(tp=int(row["tp"]), dp=int(row["dp"])), convention="upstream")
        columns = evaluated(case, [int(row["batch"])])
        assert columns["ttft_ms"][0] == pytest.approx(float(row["ttft_ms"]), rel=0.01)
        tokens = columns["realised_input_length_mean"][0] * int(row["concurrency"])
        rate = 1000 * tokens / columns["makespan_ms"][0]
        assert rate == pytest.approx(float(row["tokens_per_s"]), rel=0.01)


def test_s31_rule_seed002_runs_the_whole_batch_once():
    bins = (bin_of(1000, 100, 0.5), bin_of(9000, 100, 0.5))
    workload = workload_of(input_length=None, output_length=100, bins=bins)
    whole = evaluated(scenario(workload, "prefill", serving_model="seed002"), [2, 4])
    # one step: everyone is done at its end, so the mean ttft is the makespan
    assert whole["ttft_ms"].tolist() == whole["makespan_ms"].tolist()
    packed = evaluated(scenario(workload, "prefill"), [2, 4])
    assert (packed["ttft_ms"] < packed["makespan_ms"]).all()
    # S31: the composition rows rebuild the aggregate's tokens: 2 x 1000 + 2 x 9000 = 20000 over 4 requests
    assert whole["realised_input_length_mean"].tolist() == [5000.0, 5000.0]


@pytest.mark.parametrize("phase", ["prefill", "decode", "aggregated"])
@pytest.mark.parametrize("convention", ["physical", "upstream"])
@pytest.mark.parametrize(("length", "budget"), [(3500, 8192), (20000, 8192)])
def test_one_bin_of_width_zero_is_the_fixed_length(phase, convention, length, budget):
    options = {"output_length": 300, "max_batched_tokens": budget, "prefix_cache_hit_rate": 0.25}
    fixed = workload_of(input_length=length, **options)
    one = workload_of(input_length=None, bins=(bin_of(length, 300),), **options)
    two = workload_of(input_length=None, bins=(bin_of(length, 300, 0.5), bin_of(length, 300, 0.5)), **options)
    plan = Plan(tp=4, dp=2)
    expected = evaluated(scenario(fixed, phase, plan, convention=convention), range(1, 40))
    for workload in (one, two):
        found = evaluated(scenario(workload, phase, plan, convention=convention), range(1, 40))
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=name)


@settings(max_examples=examples(15))
@given(st.lists(st.tuples(st.integers(100, 9000), st.integers(1, 4)), min_size=2, max_size=4, unique_by=lambda b: b[0]))
def test_splitting_a_bin_in_two_equal_halves_changes_nothing_where_samples_are_whole(kinds):
    kinds = sorted(kinds)
    weight = sum(count for _, count in kinds)
    whole = tuple(bin_of(length, 200, count / weight) for length, count in kinds)
    halves = tuple(bin_of(length, 200, count / weight / 2) for length, count in kinds for _ in range(2))
    batches = [2 * weight, 4 * weight]  # every bin and every half has a whole number of requests
    for phase in ("prefill", "decode", "aggregated"):
        one = evaluated(scenario(workload_of(input_length=None, output_length=200, bins=whole), phase), batches)
        two = evaluated(scenario(workload_of(input_length=None, output_length=200, bins=halves), phase), batches)
        for name, values in one.items():
            np.testing.assert_allclose(two[name], values, rtol=1e-9, err_msg=name)


@pytest.mark.parametrize("phase", ["prefill", "decode", "aggregated"])
def test_the_order_of_bins_decides_equal_remainders_alone(phase):
    bins = (bin_of(500, 100, 0.5), bin_of(2000, 300, 0.25), bin_of(9000, 50, 0.25))
    one, other = (
        evaluated(scenario(workload_of(input_length=None, output_length=137.5, bins=order), phase), [4, 8])
        for order in (bins, bins[::-1])
    )
    for name, values in one.items():
        np.testing.assert_allclose(other[name], values, rtol=1e-12, err_msg=name)


@settings(max_examples=examples(15))
@given(
    st.lists(st.tuples(st.integers(100, 9000), st.integers(1, 9)), min_size=2, max_size=4, unique_by=lambda b: b[0]),
    st.lists(st.integers(1, 300), min_size=1, max_size=4),
)
def test_splitting_a_bin_in_two_equal_halves_changes_no_decode_step_of_any_batch(kinds, batches):
    weight = sum(count for _, count in kinds)
    whole = tuple(bin_of(length, 200, count / weight) for length, count in kinds)
    halves = tuple(bin_of(length, 200, count / weight / 2) for length, count in kinds for _ in range(2))
    one, two = (
        evaluated(scenario(workload_of(input_length=None, output_length=200, bins=bins), "decode"), batches)
        for bins in (whole, halves)
    )
    composed = {"realised_input_length_mean", "kv_cache_bytes"}  # of whole requests, which are rounded
    for name in one.keys() - composed:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-9, err_msg=name)


def test_decoding_holds_requests_by_probability_times_output_length():
    source = MixedLengths(bins=(bin_of(1000, 100, 0.5), bin_of(3000, 300, 0.5)), hit_rate=0.0, token_budget=8192)
    # shares 0.5 x 100 : 0.5 x 300 = 1 : 3; contexts 1000 + 50 and 3000 + 150, plus the new token
    sums = source.decodes(np.array([8.0]), 1)
    assert sums.keys.tolist() == [8 * (0.25 * 1050 + 0.75 * 3150) + 8]
    # E[c^2]: 0.25 (1e6 + 1e5 + 1e4/3) + 0.75 (9e6 + 9e5 + 9e4/3) = 0.25 x 1103333.33 + 0.75 x 9930000
    square = 0.25 * (1000**2 + 1000 * 100 + 100**2 / 3) + 0.75 * (3000**2 + 3000 * 300 + 300**2 / 3)
    mean = 0.25 * 1050 + 0.75 * 3150
    assert source.context_variance == pytest.approx(square - mean**2)


def test_the_spread_of_decode_steps_is_that_of_random_batches():
    bins = (bin_of(500, 200, 0.5), bin_of(20000, 800, 0.5))
    workload = workload_of(input_length=None, output_length=500, bins=bins)
    columns = evaluated(scenario(workload, "decode"), [64])
    p50, p90, p99 = (columns[f"decode_step_{name}_ms"][0] for name in ("p50", "p90", "p99"))
    assert p50 == columns["decode_step_ms"][0]
    assert p50 < p90 < p99
    # Random batches in steady state: bin by share, age uniform; the step is linear in keys over this range.
    random = np.random.default_rng(1)
    shares = np.array([0.5 * 200, 0.5 * 800]) / 500
    chosen = random.choice(2, size=(4000, 64), p=shares)
    inputs, outputs = np.array([500.0, 20000.0]), np.array([200.0, 800.0])
    keys = (inputs[chosen] + outputs[chosen] * random.random(chosen.shape) + 1).sum(axis=1)
    expected = np.quantile(keys, 0.9) - np.median(keys)
    source = MixedLengths(bins=workload.bins, hit_rate=0.0, token_budget=8192)
    spread = 1.2815515655446004 * np.sqrt(64 * source.context_variance)
    assert spread == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize("phase", ["prefill", "aggregated"])
def test_a_batch_among_thousands_is_the_batch_alone(phase):
    bins = (bin_of(100, 50, 0.6), bin_of(900, 50, 0.3), bin_of(9000, 50, 0.1))
    case = scenario(workload_of(input_length=None, output_length=50, bins=bins), phase)
    every = evaluated(case, range(1, 2501))  # some half a million steps: priced in blocks
    for batch in (1, 700, 2500):
        for name, values in evaluated(case, [batch]).items():
            np.testing.assert_allclose(every[name][batch - 1], values[0], rtol=1e-12, err_msg=f"{name} {batch}")


def test_the_composition_is_told_for_what_is_stored():
    workload = workload_of(input_length=None, output_length=100, bins=(bin_of(1000, 100, 0.7), bin_of(9000, 100, 0.3)))
    batch, index, samples = composition_of(scenario(workload, "prefill"), np.array([1, 3]))
    # 1 x (.7 .3): the largest remainder is the first; 3 x (.7 .3) = 2.1, 0.9: floors 2 and 0, the rest to the second
    assert list(zip(batch.tolist(), index.tolist(), samples.tolist(), strict=True)) == [(1, 0, 1), (3, 0, 2), (3, 1, 1)]
    assert composition_of(scenario(workload_of(input_length=10, output_length=10), "prefill"), np.array([1])) is None


def test_the_peak_charge_uses_full_lengths_and_the_mean_charge_the_steady_state():
    bins = (bin_of(1280, 1280, 0.5), bin_of(12800, 1280, 0.5))
    workload = workload_of(input_length=None, output_length=1280, bins=bins)
    columns = evaluated(scenario(workload, "decode"), [2])
    per_token = 64 * 2 * 1 * 128 * 2  # layers x (k, v) x one KV head of TP 8 x head size x bytes
    # full: 1280 + 1280 and 12800 + 1280 tokens, whole blocks of 128; mean: two requests at 7040 + 640 on average
    assert columns["kv_cache_bytes"][0] == (2560 + 14080) * per_token
    assert columns["kv_cache_mean_bytes"][0] == 2 * (7040 + 640) * per_token


def test_chunked_aggregated_steps_against_one_request_at_a_time():
    bins = (bin_of(2000, 40, 0.75), bin_of(20000, 40, 0.25))
    workload = workload_of(input_length=None, output_length=40, bins=bins, max_batched_tokens=4096)
    case = scenario(workload, "aggregated")
    sets, batch = operators(case.plan, "physical"), 8
    columns = evaluated(case, [batch])
    source = batch_source(case)
    cost = cost_model(case.device, "physical")
    decode_s = columns["decode_step_ms"][0] / 1000
    wanted = 39
    clock, done, ends, waiting = 0.0, 0, [], []
    for stage in source.waves(np.array([batch])):
        prefill = stage.steps[0]
        alone = step_seconds(sets["prefill"], cost, prefill).total[0]
        decodes = source.decodes(np.array([float(done)]), 1)
        shared = mixed_step_seconds(sets["prefill"], sets["decode"], cost, prefill, decodes).total[0]
        clock += shared if done else alone
        # everyone already decoding gains a token in this step; who has enough leaves
        waiting = [(first, left - 1) for first, left in waiting]
        ends += [(first, clock) for first, left in waiting if left == 0]
        waiting = [(first, left) for first, left in waiting if left > 0]
        waiting += [(clock, wanted)] * int(stage.requests[0])
        done += int(stage.requests[0])
    ends += [(first, clock + left * decode_s) for first, left in waiting]
    assert columns["ttft_ms"][0] == pytest.approx(1000 * np.mean([first for first, _ in ends]))
    assert columns["e2e_ms"][0] == pytest.approx(1000 * np.mean([end for _, end in ends]))
    assert columns["makespan_ms"][0] == pytest.approx(1000 * clock)
