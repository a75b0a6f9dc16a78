"""A stated load of the busiest device of experts: what it scales, what it leaves, and how it is said."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest_cli import sweepdb as command
from evaluator_cases import LLAMA_31_8B, QWEN3_30B_A3B, TEST_DEVICE, captured
from hypothesis import given
from hypothesis import strategies as st

from evaluator.evaluate import assumptions_of, capture_requests, cost_model, cost_of, evaluate_scenario
from evaluator.graph.capture import capture_operators
from evaluator.graph.sums import repeated, request_sums
from evaluator.identity import RecordBuilder, served_as
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan, busiest_load
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.occurrence import operator_seconds
from evaluator.scenario import Scenario
from store.errors import InputError

WIDE = Plan(dp=8, ep=8)


def served(**changes):
    return Scenario(
        **{"model": QWEN3_30B_A3B, "device": TEST_DEVICE, "precision": Precision(linear="FP8"), "plan": WIDE,
           "workload": Workload(input_length=2000, output_length=200.0), "phase": "decode", **changes}
    )  # fmt: skip


def operator(kind, plan=WIDE):
    return next(one for one in captured(QWEN3_30B_A3B, plan, "prefill", compile=True).operators if one.kind == kind)


@given(load=st.floats(1.0, 8.0), tokens=st.integers(256, 4096))
def test_experts_and_what_is_sent_to_them_take_the_time_of_so_many_tokens(load, tokens):
    usual, loaded = cost_model(TEST_DEVICE, "physical"), cost_model(TEST_DEVICE, "physical", f"load_{load!r}")
    sums, more = (request_sums(float(tokens) * factor, 0.0) for factor in (1.0, load))
    for kind in ("moe_grouped_gemm", "all_to_all"):
        expected = operator_seconds(operator(kind), usual, more).total()
        assert operator_seconds(operator(kind), loaded, sums).total() == pytest.approx(expected, rel=1e-9)
    gate = operator("gemm")
    assert operator_seconds(gate, loaded, sums).total() == operator_seconds(gate, usual, sums).total()


def test_slices_of_experts_on_every_device_are_loaded_alike():
    slices = operator("moe_grouped_gemm", Plan(tp=8, moe_tp=8))
    sums = repeated(request_sums(512.0, 0.0), 1.0)
    usual, loaded = (cost_model(TEST_DEVICE, "physical", routing) for routing in ("balanced", "load_2"))
    assert operator_seconds(slices, loaded, sums).total() == operator_seconds(slices, usual, sums).total()


@pytest.mark.parametrize("family", ["theoretical", "calibrated"])
def test_steps_take_longer_and_rows_say_by_how_much(family):
    device = load_device("h200_sxm", family=family)
    loads = [served(device=device, routing=routing) for routing in ("balanced", "load_1.5", "load_3")]
    times = []
    for one in loads:
        sets = {trace: capture_operators(request) for trace, request in capture_requests(one).items()}
        times.append(float(evaluate_scenario(one, np.asarray([64]), sets).tpot_exclusive_ms[0]))
    assert times[0] < times[1] < times[2] < 3 * times[0]
    assert served_as(loads[1]).routing == "load_1.5"
    sets = {trace: capture_operators(request) for trace, request in capture_requests(loads[1]).items()}
    assert "the busiest device of experts gets 1.5 times the mean's tokens" in assumptions_of(loads[1], sets)
    assert len({RecordBuilder().scenario("x", one).key for one in loads}) == 3


def test_a_stated_load_is_of_the_server_with_its_copies():
    copies = replace(WIDE, redundant_experts=8)
    assert cost_of(served(plan=copies, routing="load_1.1")).load == 1.1
    assert cost_of(served(plan=copies, routing="balanced")).load == 1.0


def test_models_without_experts_have_none():
    assert served_as(served(model=LLAMA_31_8B, plan=Plan(tp=8), routing="load_2")).routing is None


@pytest.mark.parametrize("text", ["load_", "load_0.9", "load_nan", "load_65", "uneven", "load_two"])
def test_what_is_no_load_is_one_sentence(text, tmp_path):
    with pytest.raises(InputError, match="is unknown"):
        busiest_load(text)
    done = command(
        f"evaluate Qwen/Qwen3-30B-A3B --device h100_sxm --num-devices 8 --input-length 200 --output-length 20 --routing {text}",
        f"sqlite:///{tmp_path}/store.sqlite",
    )
    assert done.code == 2
    assert f"--routing {text} is unknown" in done.err
