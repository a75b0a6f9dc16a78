"""Legal plans: by rule, by explicit sizes, and the reasons of the illegal ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.inputs.launch import Plan
from evaluator.inputs.models import load_model
from evaluator.inputs.plan_search import PlanSearch, illegality, plan_choices
from store.errors import InputError

DENSE = load_model("Qwen/Qwen3-32B")[1]
MOE = load_model("Qwen/Qwen3-30B-A3B")[1]


def legal(model, devices, **search):
    return [choice.plan for choice in plan_choices(model, devices, PlanSearch(**search)) if choice.illegal is None]


def test_every_legal_plan_of_a_dense_model():
    assert legal(DENSE, 8) == [Plan(tp=1, dp=8), Plan(tp=2, dp=4), Plan(tp=4, dp=2), Plan(tp=8, dp=1)]


def test_every_legal_plan_of_a_mixture_of_experts():
    plans = legal(MOE, 4)
    # tp in 1, 2, 4; ep x moe_tp x moe_dp = 4 in powers of two: (2 + 2 choose 2) = 6 splits each
    assert len(plans) == 3 * 6
    assert all(plan.ep * plan.moe_tp * plan.moe_dp == plan.tp * plan.dp == 4 for plan in plans)


def test_s23_tp_search_fixes_the_other_dimensions():
    assert legal(DENSE, 8, rule="tp") == legal(DENSE, 8)
    assert legal(MOE, 8, rule="tp") == [Plan(tp=tp, dp=8 // tp, ep=8, moe_tp=1, moe_dp=1) for tp in (1, 2, 4, 8)]
    # only ep is searched: tp = num_devices
    assert legal(MOE, 8, rule="tp", ep_sizes=(1, 2, 4, 8)) == [
        Plan(tp=8, dp=1, ep=ep, moe_tp=8 // ep) for ep in (1, 2, 4, 8)
    ]
    assert legal(MOE, 8, rule="tp", tp_sizes=(2,), ep_sizes=(4,), moe_dp_sizes=(2,)) == [
        Plan(tp=2, dp=4, ep=4, moe_tp=1, moe_dp=2)
    ]


def test_sizes_without_a_value_are_powers_of_two():
    assert legal(DENSE, 8, rule="tp", tp_sizes=()) == legal(DENSE, 8, rule="tp", tp_sizes=(1, 2, 4, 8))


def test_pipeline_stages_are_searched_only_when_asked():
    assert {plan.pp for plan in legal(DENSE, 8)} == {1}
    assert {plan.pp for plan in legal(DENSE, 8, pp_sizes=())} == {1, 2, 4, 8}


def test_sizes_that_were_not_asked_for_are_never_told_as_illegal():
    choices = plan_choices(DENSE, 8, PlanSearch(pp_sizes=(1, 2, 4)))
    assert all(choice.illegal is None for choice in choices)
    assert {(choice.plan.tp, choice.plan.pp) for choice in choices} == {
        (1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (2, 2), (4, 2), (1, 4), (2, 4),
    }  # fmt: skip


@pytest.mark.parametrize(
    "model, devices, search, reason",
    [
        (DENSE, 8, {"tp_sizes": (3,)}, "tp 3 x pp 1 x dp 2 is 6, not 8 devices"),
        (DENSE, 6, {"tp_sizes": (6,)}, "tp 6 does not divide the 64 query heads"),
        (DENSE, 8, {"tp_sizes": (16,)}, "tp 16 x pp 1 x dp 1 is 16, not 8 devices"),
        (DENSE, 128, {"pp_sizes": (128,)}, "pp 128 is more than the 64 layers"),
        (MOE, 12, {"ep_sizes": (12,), "rule": "tp", "tp_sizes": (4,)}, "ep 12 does not divide the 128 experts"),
        (MOE, 8, {"rule": "tp", "ep_sizes": (16,)}, "ep 16 x moe_tp 1 x moe_dp 1 is not tp 8 x dp 1 = 8"),
        (MOE, 32, {"moe_tp_sizes": (32,)}, None),
    ],
)
def test_an_explicit_illegal_plan_is_kept_with_its_reason(model, devices, search, reason):
    illegal = [choice.illegal for choice in plan_choices(model, devices, PlanSearch(**search)) if choice.illegal]
    assert (reason in illegal) if reason else True
    if reason is None:
        assert legal(model, devices, **search)


def test_impossible_sizes_are_errors():
    with pytest.raises(InputError, match="`tp_sizes` must be at least 1, not 0"):
        plan_choices(DENSE, 8, PlanSearch(tp_sizes=(0,)))
    with pytest.raises(InputError, match="`num_devices` must be at least 1"):
        plan_choices(DENSE, 0, PlanSearch())


@given(st.sampled_from([DENSE, MOE]), st.integers(1, 64), st.sampled_from(["every", "tp"]))
def test_whatever_is_offered_is_legal_and_uses_every_device(model, devices, rule):
    for choice in plan_choices(model, devices, PlanSearch(rule=rule)):
        assert choice.illegal is None
        assert choice.plan.num_devices == devices
        assert illegality(model, choice.plan, devices) is None
