"""Which engine can launch a plan as one server, held to literal cases and to the counts of three instance sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sweepdb
from evaluator.inputs.devices.device_profiles import list_devices, load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.launchable import LAUNCHERS, launchable_by, rule_of, smaller_servers
from evaluator.inputs.models import load_model
from evaluator.inputs.plan_search import PlanSearch, choices_of_sizes, plan_choices
from store.errors import InputError

DENSE = load_model("Qwen/Qwen3-32B")[1]
MOE = load_model("Qwen/Qwen3-30B-A3B")[1]
DEEPSEEK = load_model("deepseek-ai/DeepSeek-V3")[1]
ALL = tuple(LAUNCHERS)


@pytest.mark.parametrize(
    ("model", "plan", "engines"),
    [
        # vLLM: --tensor-parallel-size 4, with and without --enable-expert-parallel; TensorRT-LLM: 4 x 1 and 1 x 4 = 4.
        (MOE, Plan(tp=4, ep=4), ("vllm", "sglang", "trtllm")),
        (MOE, Plan(tp=4, moe_tp=4), ("vllm", "sglang", "trtllm")),
        # Attention replicated on every device: --data-parallel-size 4; SGLang's --tp-size 4 --dp-size 4; attention DP.
        (MOE, Plan(dp=4, ep=4), ("vllm", "sglang", "trtllm")),
        (MOE, Plan(dp=4, moe_tp=4), ("vllm", "sglang", "trtllm")),
        # Attention split by 2 in 2 replicas: TensorRT-LLM's attention is split by all or by none.
        (MOE, Plan(tp=2, dp=2, ep=4), ("vllm", "sglang")),
        # Experts in 2 groups of slices: vLLM has no flag for moe_tp.
        (MOE, Plan(tp=4, ep=2, moe_tp=2), ("sglang", "trtllm")),
        (MOE, Plan(tp=2, dp=2, ep=2, moe_tp=2), ("sglang",)),
        # Experts in full in each half: no engine's server, whether attention is split over both halves or not.
        (MOE, Plan(tp=4, ep=2, moe_dp=2), ()),
        (MOE, Plan(dp=4, ep=2, moe_dp=2), ()),
        (MOE, Plan(dp=4, moe_dp=4), ()),
        # Two stages of 4 devices; with replicas in them, only vLLM documents it.
        (MOE, Plan(tp=4, pp=2, ep=4), ("vllm", "sglang", "trtllm")),
        (MOE, Plan(tp=2, dp=2, pp=2, ep=4), ("vllm",)),
        (MOE, Plan(dp=4, pp=2, ep=4), ("vllm",)),
        # A dense model's replicas: --data-parallel-size and --dp-size; trtllm-serve starts one.
        (DENSE, Plan(tp=8), ("vllm", "sglang", "trtllm")),
        (DENSE, Plan(tp=4, dp=2), ("vllm", "sglang")),
        (DENSE, Plan(tp=4, pp=2), ("vllm", "sglang", "trtllm")),
        # Dense layers before the experts do not make a model dense.
        (DEEPSEEK, Plan(dp=16, ep=8, moe_dp=2), ()),
        (DEEPSEEK, Plan(dp=16, ep=16), ("vllm", "sglang", "trtllm")),
    ],
    ids=str,
)
def test_each_rule_by_hand(model, plan, engines):
    assert launchable_by(model, plan) == engines


@pytest.mark.parametrize(
    ("name", "plan", "engines"),
    [
        # 1,536 columns of an expert: 8 slices of 192 are one and a half blocks of 128, 4 slices of 384 three; whole
        # experts have 12. Users met it in vLLM (issue 17569) and SGLang (Qwen3 issue 1485).
        ("Qwen/Qwen3-235B-A22B-FP8", Plan(tp=8, moe_tp=8), ("trtllm",)),
        ("Qwen/Qwen3-235B-A22B-FP8", Plan(tp=8, ep=2, moe_tp=4), ("sglang", "trtllm")),
        ("Qwen/Qwen3-235B-A22B-FP8", Plan(tp=8, ep=8), ("vllm", "sglang", "trtllm")),
        ("Qwen/Qwen3-235B-A22B", Plan(tp=8, moe_tp=8), ("vllm", "sglang", "trtllm")),
        # 768 / 4 = 192; 2,048 / 16 = 128. Dense: 25,600 / 8 = 3,200 are 25 blocks, 25,600 / 16 = 1,600 twelve and a half.
        ("Qwen/Qwen3-30B-A3B-FP8", Plan(tp=4, moe_tp=4), ("trtllm",)),
        ("deepseek-ai/DeepSeek-R1", Plan(tp=16, moe_tp=16), ("vllm", "sglang", "trtllm")),
        ("Qwen/Qwen3-32B-FP8", Plan(tp=8), ("vllm", "sglang", "trtllm")),
        ("Qwen/Qwen3-32B-FP8", Plan(tp=16), ("trtllm",)),
    ],
)
def test_engines_refuse_slices_that_cut_blocks_of_weights(name, plan, engines):
    model = load_model(name)[1]
    published = Precision(linear=model.native_linear, experts=model.native_experts)
    assert launchable_by(model, plan, published) == engines
    if "vllm" not in engines and plan.moe_tp in {1, plan.tp}:
        found = plan_choices(model, plan.tp, PlanSearch(rule="launchable", engine="vllm"), published)
        assert found
        assert plan not in {choice.plan for choice in found}


@pytest.mark.parametrize("device", list_devices())
def test_tensorrt_llm_runs_on_devices_of_nvidia_alone(device):
    profile = load_device(device)
    engines = ALL if profile.vendor in {"NVIDIA", "TEST_VENDOR"} else ("vllm", "sglang")
    assert launchable_by(DENSE, Plan(), cuda=profile.cuda) == engines
    asked = {"serving_model": "trtllm", "num_devices": 1, "input_length": 9, "output_length": 9, "batch_range": 1}
    if engines != ALL:
        with pytest.raises(InputError, match="TensorRT-LLM has no kernels for"):
            sweepdb.evaluate("Qwen/Qwen3-0.6B", device=device, store="sqlite:///:never:", **asked)


@pytest.mark.parametrize(
    ("devices", "every", "vllm", "sglang", "trtllm"),
    [
        # t = log2(devices): tp in t + 1 sizes; ep x moe_tp x moe_dp in (t + 2 choose 2) splits. vLLM: 2 of them,
        # SGLang: the t + 1 with moe_dp 1, TensorRT-LLM: those for tp = 1 and tp = devices alone.
        (4, 3 * 6, 3 * 2, 3 * 3, 2 * 3),
        (8, 4 * 10, 4 * 2, 4 * 4, 2 * 4),
        (16, 5 * 15, 5 * 2, 5 * 5, 2 * 5),
    ],
)
def test_how_many_plans_of_a_mixture_each_engine_can_launch(devices, every, vllm, sglang, trtllm):
    plans = [choice.plan for choice in plan_choices(MOE, devices, PlanSearch())]
    counted = {name: sum(name in launchable_by(MOE, plan) for plan in plans) for name in LAUNCHERS}
    assert len(plans) == every
    assert counted == {"vllm": vllm, "sglang": sglang, "trtllm": trtllm}
    for name, count in counted.items():
        assert len(plan_choices(MOE, devices, PlanSearch(rule="launchable", engine=name))) == count


def test_the_counts_that_a_search_had_before_and_has_now():
    assert [
        (len(plan_choices(MOE, devices, PlanSearch(rule="launchable", engine="vllm"))),
         len(plan_choices(MOE, devices, PlanSearch(rule="every"))))
        for devices in (4, 8, 16)
    ] == [(6, 18), (8, 40), (10, 75)]  # fmt: skip


def test_sizes_that_no_engine_can_launch_are_taken_all_the_same():
    search = {"tp_sizes": (8,), "ep_sizes": (2,)}
    every = plan_choices(MOE, 8, PlanSearch(**search))
    assert {(choice.plan.ep, choice.plan.moe_tp, choice.plan.moe_dp) for choice in every} == {
        (2, 1, 4), (2, 2, 2), (2, 4, 1),
    }  # fmt: skip
    assert plan_choices(MOE, 8, PlanSearch(rule="launchable", engine="vllm", **search)) == every
    assert plan_choices(MOE, 8, PlanSearch(rule="launchable")) == plan_choices(MOE, 8, PlanSearch())


def test_experts_are_split_over_devices_that_are_no_power_of_two():
    # 384 experts over 12 devices are 32 each; their 2048 columns could not be sliced by 12.
    kimi = load_model("moonshotai/Kimi-K2-Instruct")[1]
    found = {choice.plan for choice in plan_choices(kimi, 12, PlanSearch(rule="launchable", engine="vllm"))}
    assert Plan(tp=4, dp=3, ep=12) in found
    assert {plan.moe_dp for plan in found} == {1}


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("vllm", "vllm"), ("vllm_v0", "vllm"), ("vllm-mine@0a239add", "vllm"), ("sglang", "sglang"),
        ("trtllm_v0", "trtllm"), ("eager", None), ("waves", None), ("seed002", None), ("mine@0a239add", None),
    ],
)  # fmt: skip
def test_the_rule_of_a_serving_model(name, rule):
    assert rule_of(name) == rule


@pytest.mark.parametrize(
    ("plan", "smaller"),
    [
        (Plan(tp=8), ()),
        (Plan(tp=2, dp=4), (Plan(tp=2, dp=2), Plan(tp=2))),
        (Plan(tp=2, dp=2, pp=2), (Plan(tp=2, pp=2),)),
        (Plan(dp=16, ep=8, moe_dp=2), (Plan(dp=8, ep=8),)),
        (Plan(dp=8, ep=1, moe_dp=8), (Plan(dp=4, moe_dp=4), Plan(dp=2, moe_dp=2), Plan())),
        # Attention over all devices, experts in full in each half: one server, which no engine has.
        (Plan(tp=8, ep=4, moe_dp=2), ()),
        (Plan(dp=8, ep=8), ()),
    ],
    ids=str,
)
def test_what_a_plan_repeats(plan, smaller):
    assert smaller_servers(plan) == smaller


def test_a_plan_that_repeats_a_smaller_server_is_looked_at_once():
    found = choices_of_sizes(DENSE, (4, 8, 16), PlanSearch())
    # At 4 devices tp 1, 2, 4 with their replicas; at 8 and 16 only what 4 devices cannot hold.
    assert [(size, choice.plan.tp, choice.plan.dp) for size, choice in found] == [
        (4, 1, 4), (4, 2, 2), (4, 4, 1), (8, 8, 1), (16, 16, 1),
    ]  # fmt: skip
    alone = choices_of_sizes(DENSE, (8,), PlanSearch())
    assert [choice.plan for _, choice in alone] == [choice.plan for choice in plan_choices(DENSE, 8, PlanSearch())]
    mixture = choices_of_sizes(MOE, (4, 8, 16), PlanSearch(rule="launchable", engine="vllm"))
    assert [size for size, _ in mixture] == [4] * 6 + [8] * 8 + [16] * 10


def test_a_named_size_is_illegal_only_where_no_instance_has_it():
    found = choices_of_sizes(DENSE, (2, 4, 8), PlanSearch(tp_sizes=(4, 3)))
    # tp 4 is not told as too large for 2 devices; tp 3 divides none: 3 x 1, 3 x 1 and 3 x 2 devices.
    assert [(size, choice.plan.tp, choice.plan.dp, choice.illegal is None) for size, choice in found] == [
        (2, 3, 1, False), (4, 3, 1, False), (4, 4, 1, True), (8, 3, 2, False),
    ]  # fmt: skip


def copies_by_hand(plan: Plan, small: Plan) -> bool:
    """Whether `plan` is some number of `small` side by side: every size equal but the replicas of both kinds."""
    if (plan.tp, plan.pp, plan.ep, plan.moe_tp) != (small.tp, small.pp, small.ep, small.moe_tp):
        return False
    copies, rest = divmod(plan.num_devices, small.num_devices)
    return rest == 0 and copies > 1 and (plan.dp, plan.moe_dp) == (copies * small.dp, copies * small.moe_dp)


@given(st.sets(st.sampled_from([1, 2, 3, 4, 6, 8, 12, 16]), min_size=1, max_size=4), st.sampled_from(["every", "tp"]))
def test_the_kept_plans_are_those_that_repeat_no_kept_one(sizes, rule):
    search = PlanSearch(rule=rule)
    kept = choices_of_sizes(MOE, tuple(sizes), search)
    plans = [choice.plan for _, choice in kept]
    every = [choice.plan for size in sorted(sizes) for choice in plan_choices(MOE, size, search)]
    assert len(set(plans)) == len(plans)
    for plan in every:
        assert (plan in plans) != any(copies_by_hand(plan, small) for small in plans)
