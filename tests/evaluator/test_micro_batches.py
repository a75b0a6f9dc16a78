"""Two micro-batches of a step: what is hidden, by literal arithmetic, and that nothing else moves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import DEEPSEEK_V3, LLAMA_31_8B, QWEN3_30B_A3B, TEST_DEVICE, captured
from hypothesis import given
from hypothesis import strategies as st

from evaluator.evaluate import cost_model
from evaluator.graph.operators import operators_from_json, operators_to_json
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.launch import Plan
from evaluator.inputs.launchable import launchable_by
from evaluator.inputs.plan_search import PlanSearch, illegality, plan_choices
from evaluator.pricing.micro_batches import LEAST_TOKENS, hidden, layers_of
from evaluator.pricing.occurrence import operator_seconds
from evaluator.pricing.step import step_seconds
from evaluator.pricing.theoretical import TheoreticalCost
from store.errors import InputError

COST = TheoreticalCost(device=TEST_DEVICE)
WHOLE, HALVED = Plan(dp=32, ep=32), Plan(dp=32, ep=32, micro_batches=2)


def sums_of(requests):
    """A decode step of as many requests with 4,096 tokens each."""
    return repeated(request_sums(1.0, 4095.0), np.asarray([float(requests)]))


def test_each_part_of_one_half_runs_beside_a_part_of_the_other():
    times = (np.asarray([6.0]), np.asarray([2.0]), np.asarray([3.0]), np.asarray([4.0]))
    # max(6, 2) + max(3, 2) + max(3, 4) + max(6, 4) = 19 in place of 2 x (6 + 2 + 3 + 4) = 30
    assert 2 * sum(float(one[0]) for one in times) - float(hidden(*times)[0]) == 19.0


def test_operators_of_a_layer_are_each_in_one_part():
    operators = captured(DEEPSEEK_V3, HALVED, "decode", compile=True).operators
    rest, (layer,) = layers_of([(operators, sums_of(128))])
    split = [one for part in layer.by_part() for chosen, _ in part for one in chosen]
    assert sorted([*split, *(one for chosen, _ in rest for one in chosen)], key=str) == sorted(operators, key=str)
    attention, dispatch, experts, gather = ([one for chosen, _ in part for one in chosen] for part in layer.by_part())
    assert {one.kind for one in (*dispatch, *gather)} == {"all_to_all"}
    assert "moe_grouped_gemm" in {one.kind for one in experts}
    assert "mla_decode" in {one.kind for one in attention}
    # The first three layers of the model have no experts: nothing of theirs is halved
    assert any(one.label.startswith("layers0.") for chosen, _ in rest for one in chosen)
    assert [float(sums.tokens[0]) for part in layer.by_part() for _, sums in part] == [64.0] * 4


def test_a_step_takes_what_its_schedule_says():
    sums = sums_of(128)
    operators = captured(DEEPSEEK_V3, HALVED, "decode", compile=True)
    rest, (layer,) = layers_of([(operators.operators, sums)])

    def seconds(part):
        return sum(
            one.count * float(operator_seconds(one, COST, seen).total()[0]) for chosen, seen in part for one in chosen
        )

    attention, dispatch, experts, gather = (seconds(part) for part in layer.by_part())
    expected = seconds(rest) + max(attention, dispatch) + max(experts, dispatch) + max(experts, gather)
    expected += max(attention, gather)
    times = step_seconds(operators, COST, sums)
    assert float(times.total[0]) == pytest.approx(expected, rel=1e-12)
    assert float(times.slowest_stage[0]) == float(times.total[0])
    assert (times.kinds >= 0).all()


@pytest.mark.parametrize("family", ["theoretical", "calibrated"])
def test_where_exchange_is_long_halves_are_faster(family):
    cost = cost_model(load_device("h100_sxm", family=family), "physical")
    whole, halved = (
        float(step_seconds(captured(DEEPSEEK_V3, plan, "prefill", compile=True), cost, request_sums(
            np.asarray([8192.0]), np.asarray([0.0]))).total[0])
        for plan in (WHOLE, HALVED)
    )  # fmt: skip
    assert 0.5 * whole < halved < 0.95 * whole


@given(requests=st.integers(1, 400))
def test_halves_never_take_less_than_half_and_few_tokens_stay_together(requests):
    whole, halved = (
        float(step_seconds(captured(QWEN3_30B_A3B, plan, "decode", compile=True), COST, sums_of(requests)).total[0])
        for plan in (Plan(dp=8, ep=8), Plan(dp=8, ep=8, micro_batches=2))
    )
    if requests < LEAST_TOKENS["decode"]:
        assert halved == whole
    assert halved >= 0.5 * whole


def test_operators_are_those_of_one_batch_and_are_kept_with_their_number():
    one, two = (
        captured(QWEN3_30B_A3B, Plan(dp=8, ep=8, micro_batches=many), "decode", compile=True) for many in (1, 2)
    )
    assert two.operators == one.operators
    assert (one.micro_batches, two.micro_batches) == (1, 2)
    assert operators_from_json(operators_to_json(two)) == two
    assert "micro_batches" not in operators_to_json(one)


def test_plans_and_launchers():
    assert illegality(DEEPSEEK_V3, HALVED, 32) is None
    assert "takes experts over replicas" in illegality(DEEPSEEK_V3, Plan(tp=8, ep=8, micro_batches=2), 8)
    assert "takes experts over replicas" in illegality(LLAMA_31_8B, Plan(dp=8, micro_batches=2), 8)
    assert "one pipeline stage" in illegality(DEEPSEEK_V3, replace(HALVED, dp=16, ep=16, pp=2), 32)
    assert launchable_by(DEEPSEEK_V3, HALVED) == ("vllm", "sglang")
    assert {choice.plan.micro_batches for choice in plan_choices(DEEPSEEK_V3, 32, PlanSearch())} == {1}
    with pytest.raises(InputError, match="must be 1 or 2, not 3"):
        plan_choices(DEEPSEEK_V3, 32, PlanSearch(micro_batches=(3,)))
