"""The operators of a step add up to the stored step, whatever the phase, plan and workload."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from evaluator_cases import DEEPSEEK_V3, GPT_OSS_20B, QWEN3_30B_A3B, QWEN3_32B, TEST_DEVICE, W8A8, both_traces

from evaluator.evaluate import evaluate_scenario
from evaluator.explain import explain_step
from evaluator.graph.operators import COLLECTIVE_KINDS
from evaluator.inputs.engines.engine_profiles import unfitted_engine, with_numbers
from evaluator.inputs.formats import BF16, Precision
from evaluator.inputs.launch import Client, Plan
from evaluator.inputs.workloads.workload import LengthBin, Workload
from evaluator.pricing.cost_model import KINDS
from evaluator.scenario import Scenario
from store.errors import InputError

CASES = {
    "dense": (QWEN3_32B, Plan(tp=8), {}, Workload(input_length=3500, output_length=1500.0)),
    "pipeline": (QWEN3_32B, Plan(tp=2, pp=4), {}, Workload(input_length=3500, output_length=1500.0)),
    "chunked": (QWEN3_32B, Plan(tp=8), {}, Workload(input_length=20000, output_length=100.0)),
    "experts eager": (
        QWEN3_30B_A3B,
        Plan(dp=8, ep=8),
        {"compile": False},
        Workload(input_length=900, output_length=9.0),
    ),
    "mixed lengths": (
        QWEN3_32B,
        Plan(tp=8),
        {},
        Workload(
            input_length=None,
            output_length=250.0,
            bins=tuple(
                LengthBin(
                    input_length=length, output_length=output, weight=0.5, min_input_length=0, max_input_length=30000
                )
                for length, output in ((700.0, 400.0), (20000.0, 100.0))
            ),
        ),
    ),
    "windows": (GPT_OSS_20B, Plan(tp=2, ep=2), {}, Workload(input_length=3500, output_length=1500.0)),
    "drafts": (
        DEEPSEEK_V3,
        Plan(tp=8, dp=2, ep=16),
        {},
        Workload(input_length=3500, output_length=1500.0, mtp_tokens=3, mtp_acceptance=(0.9, 0.6, 0.4)),
    ),
}


@pytest.mark.parametrize(
    ("model", "plan", "kinds"),
    [
        # Every rank holds all tokens: 48 layers add up attention and, once more, experts. Nothing is sent to experts.
        (QWEN3_30B_A3B, Plan(tp=4, ep=4), {"all_reduce": 96, "all_gather": 1}),
        # 12 layers with a window and 12 without: 24 sums of attention and 24 of experts.
        (GPT_OSS_20B, Plan(tp=4, ep=4), {"all_reduce": 48, "all_gather": 1}),
        # Attention apart on each device: rows go to their experts and come back in each of 48 layers.
        (QWEN3_30B_A3B, Plan(dp=4, ep=4), {"all_to_all": 96}),
    ],
    ids=["experts", "two groups", "replicas"],
)
def test_a_step_of_an_engine_exchanges_what_the_engine_does(model, plan, kinds):
    scenario = Scenario(
        model=model, device=TEST_DEVICE, precision=Precision(), plan=plan, phase="decode", serving_model="vllm",
        workload=Workload(input_length=3500, output_length=1500.0), client=Client(shortest=1.0),
        engine=with_numbers(unfitted_engine("vllm"), {"step_ms": 0.0, "step_per_decode_ms": 0.0, "decode_factor": 1.0}),
    )  # fmt: skip
    operators = both_traces(model, plan, linear=BF16)
    found = collections.Counter()
    for row in explain_step(scenario, 33, operators, "decode"):
        found[row.kind] += int(row.count) * (row.kind in COLLECTIVE_KINDS)
    assert +found == kinds
    # Without the host, a token of a decode instance takes its step; tables know a step to a percent.
    block = evaluate_scenario(scenario, np.asarray([33]), operators)
    assert block.tpot_exclusive_ms == pytest.approx(block.decode_step_ms, rel=0.01)


@pytest.mark.parametrize("convention", ["physical", "upstream"])
@pytest.mark.parametrize("phase", ["prefill", "decode", "aggregated"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_operators_add_up_to_the_stored_step(name, phase, convention):
    model, plan, options, workload = CASES[name]
    operators = both_traces(model, plan, linear=W8A8, convention=convention, **options)
    scenario = Scenario(
        model=model,
        device=TEST_DEVICE,
        precision=Precision(linear="W8A8_DYNAMIC"),
        plan=plan,
        workload=workload,
        phase=phase,
        convention=convention,
        serving_cost_ms=3.0,
    )
    block = evaluate_scenario(scenario, np.asarray([7, 33]), operators)
    for step in ("prefill", "decode"):
        stored = getattr(block, f"{step}_step_ms")[1]
        if np.isnan(stored):
            with pytest.raises(InputError, match=f"has no {step} step"):
                explain_step(scenario, 33, operators, step)
            continue
        rows = explain_step(scenario, 33, operators, step)
        assert sum(row.time_ms for row in rows) == pytest.approx(stored, rel=1e-6)
        assert sum(row.share for row in rows) == pytest.approx(1.0, rel=1e-9)
        for kind in KINDS:
            part = sum(getattr(row, f"{kind}_ms") for row in rows)
            assert part == pytest.approx(getattr(block, f"{step}_step_{kind}_ms")[1], rel=1e-6, abs=1e-9)


def test_rows_name_their_work():
    model, plan, options, workload = CASES["dense"]
    operators = both_traces(model, plan, linear=W8A8, convention="upstream", **options)
    scenario = Scenario(
        model=model,
        device=TEST_DEVICE,
        precision=Precision(linear="W8A8_DYNAMIC"),
        plan=plan,
        workload=workload,
        phase="decode",
        convention="upstream",
    )
    rows = {row.label: row for row in explain_step(scenario, 16, operators, "decode")}
    gate_up = rows["layers.mlp.gate_up_proj"]
    # 64 layers x 2 x 16 tokens x 5120 x 6400; bytes: 16 x 5120 + 5120 x 6400 + 2 x 16 x 6400 = 33,054,720 a layer
    assert gate_up.matrix_flops == 64 * 2 * 16 * 5120 * 6400
    assert gate_up.moved_bytes == 64 * (33_054_720 + 12)  # and 12 bytes of scale and offset
    assert gate_up.bound == "memory"
    # 33,054,720 / (0.96 x 2^40) = 31.316 us, and 5 us of static cost: 36.316 us as upstream prints, 64 times
    assert gate_up.time_ms == pytest.approx(64 * 36.316e-3, rel=1e-4)
    assert rows["layers.attention_all_reduce"].bound == "communication"
