"""Number formats by name: the seeds' actions, the formats engines serve in, and what stands in for a missing unit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from evaluator_cases import QWEN3_30B_A3B, TEST_DEVICE, captured

from evaluator.evaluate import assumptions_of, capture_requests
from evaluator.inputs.formats import ATTENTION_NAMES, LINEAR_NAMES, Precision, check_precision, linear_format
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.scenario import Scenario
from store.errors import InputError

SEED_ACTIONS = {
    "DISABLED", "W8A16_STATIC", "W8A8_STATIC", "W4A8_STATIC", "W8A16_DYNAMIC", "W8A8_DYNAMIC", "W4A8_DYNAMIC", "FP8", "MXFP4",
}  # fmt: skip


def test_every_action_of_the_seeds_is_a_name_and_so_are_the_formats_of_engines():
    assert SEED_ACTIONS | {
        "BF16",
        "FP8_BLOCK",
        "NVFP4",
        "MXFP8",
        "W4A16",
        "W4A16_G32",
        "MXFP4_W4A16",
        "NVFP4_W4A16",
    } == set(LINEAR_NAMES)
    assert set(ATTENTION_NAMES) == {"DISABLED", "INT8", "FP8"}


@pytest.mark.parametrize(
    "name, compute, weight_bits, activation_bits, scale_bits",
    [
        ("DISABLED", "bf16", 16, 16, 0),
        ("W8A16_STATIC", "bf16", 8, 16, 0),
        ("W8A8_DYNAMIC", "int8", 8, 8, 0),
        ("W4A8_DYNAMIC", "int8", 4, 8, 0),
        ("FP8", "fp8", 8, 8, 0),
        ("FP8_BLOCK", "fp8", 8, 8, 32 / 16384),  # one fp32 for 128 x 128 weights
        ("NVFP4", "fp4", 4, 4, 0.5),  # one e4m3 for 16 weights
        ("MXFP8", "fp8", 8, 8, 0.25),  # a byte for 32 weights
        ("W4A16", "bf16", 4, 16, 0.125),  # one fp16 for 128 weights
        ("mxfp4", "fp4", 4, 4, 0.25),  # one e8m0 for 32 weights
    ],
)
def test_what_a_format_stores_and_computes_in(name, compute, weight_bits, activation_bits, scale_bits):
    form = linear_format(name)
    assert (form.compute, form.weight_bits, form.activation_bits) == (compute, weight_bits, activation_bits)
    assert form.scale_bits_per_weight == scale_bits


def test_only_dynamic_actions_scale_on_the_fly():
    assert {name for name in SEED_ACTIONS if linear_format(name).dynamic} == {
        "W8A8_DYNAMIC", "W4A8_DYNAMIC", "FP8", "MXFP4",
    }  # fmt: skip


def test_upstream_runs_fp8_and_w8a16_as_w8a8():
    for name in ("FP8", "W8A16_STATIC", "W8A16_DYNAMIC"):
        theirs = linear_format(name, convention="upstream")
        assert replace(theirs, name="") == replace(linear_format("W8A8_DYNAMIC"), name="")
        assert theirs != linear_format(name)


def test_the_group_size_decides_the_scales_of_mxfp4_alone():
    assert linear_format("MXFP4", mxfp4_group_size=16).scale_bits_per_weight == 0.5
    assert linear_format("NVFP4", mxfp4_group_size=16) == linear_format("NVFP4")
    assert check_precision(Precision(linear="FP8", mxfp4_group_size=64)).mxfp4_group_size == 32
    assert check_precision(Precision(experts="MXFP4", mxfp4_group_size=64)).mxfp4_group_size == 64


def test_checked_names_are_canonical():
    assert check_precision(Precision(linear="disabled", attention="fp8")) == Precision(
        linear="BF16", experts="BF16", attention="FP8"
    )


@pytest.mark.parametrize(
    "precision, complaint, hint",
    [
        (Precision(linear="W8A9"), "unknown linear quantization 'W8A9'", "W8A8_DYNAMIC"),
        (Precision(experts="NVFP8"), "unknown linear quantization 'NVFP8'", "NVFP4"),
        (Precision(attention="FP4"), "unknown attention quantization 'FP4'", "FP8"),
        (Precision(linear="MXFP4", mxfp4_group_size=0), "`mxfp4_group_size` must lie between 1 and 8192, not 0", None),
    ],
)
def test_an_unknown_format_lists_the_nearest(precision, complaint, hint):
    with pytest.raises(InputError, match=complaint) as caught:
        check_precision(precision)
    assert hint is None or hint in caught.value.hint


def scenario(precision: Precision, convention="physical") -> Scenario:
    bare = replace(TEST_DEVICE, matrix_flops_per_s=(("fp16", 353.9e12), ("int8", 707.8e12)))
    return Scenario(
        model=QWEN3_30B_A3B, device=bare, precision=precision, plan=Plan(), phase="decode", convention=convention,
        workload=Workload(input_length=100, output_length=10.0),
    )  # fmt: skip


def said(case: Scenario) -> tuple[str, ...]:
    request = capture_requests(case)["decode"]
    sets = captured(request.model, request.plan, "decode", request.linear, request.experts, convention=case.convention)
    return assumptions_of(case, {"decode": sets})


def test_experts_may_differ_from_linears():
    request = capture_requests(scenario(Precision(linear="FP8", experts="NVFP4")))["decode"]
    assert (request.linear.name, request.experts.name) == ("FP8", "NVFP4")


def test_a_row_says_what_stood_in_for_a_unit_the_device_lacks():
    assert said(scenario(Precision(linear="W8A8_DYNAMIC"))) == ()
    assert said(scenario(Precision(linear="BF16", experts="FP8"))) == (
        "TEST_DEVICE has no fp8 unit: products run in fp16",
    )
    beyond, dropped = said(scenario(Precision(linear="BF16", experts="MXFP4"), "upstream"))
    assert beyond.startswith("not compared with upstream: ")
    assert dropped == "TEST_DEVICE has no fp4 unit: its compute time is dropped, as upstream does"
