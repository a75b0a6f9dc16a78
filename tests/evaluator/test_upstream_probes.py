"""The seeds' own program as a reference: its step latencies, serving figures and memory, under its named convention."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from evaluator_cases import QWEN3_30B_A3B, QWEN3_32B, W8A8, both_traces, upstream_device
from restated import rows as restated_rows

from evaluator.evaluate import evaluate_scenario
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.step import step_seconds
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.scenario import Scenario

SPECS = {"Qwen/Qwen3-32B": QWEN3_32B, "Qwen/Qwen3-30B-A3B": QWEN3_30B_A3B}
PHASES = ("aggregated", "decode", "prefill")
STEPS = {"prefill step", "decode step"}


def rows(kinds, model):
    return [row for row in restated_rows("upstream_probes") if row["kind"] in kinds and row["model"] == model]


def plan_of(row):
    return Plan(tp=int(row["tp"]), dp=int(row["dp"]), ep=int(row["ep"]), moe_tp=1, moe_dp=1)


def operators_of(row):
    return both_traces(
        SPECS[row["model"]], plan_of(row), linear=W8A8, compile=row["graph"] == "compiled", convention="upstream"
    )


def forward_seconds(row):
    query, length = float(row["query"]), float(row["length"])
    sums = repeated(request_sums(query, length - query, square=True), float(row["batch"]))
    cost = TheoreticalCost(device=upstream_device(row["device"]), convention="upstream")
    return float(step_seconds(operators_of(row)[row["kind"].removesuffix(" step")], cost, sums).total)


def block_of(row):
    scenario = Scenario(
        model=SPECS[row["model"]],
        device=upstream_device(row["device"]),
        precision=Precision(linear="W8A8_DYNAMIC"),
        plan=plan_of(row),
        workload=Workload(input_length=3500, output_length=1500.0, max_batched_tokens=14000),
        phase=row["kind"],
        convention="upstream",
    )
    return evaluate_scenario(scenario, np.asarray([int(row["batch"])]), operators_of(row))


def assert_close(errors, what, median=0.01, worst=0.03):
    errors = sorted(errors)
    print(f"{what}: {len(errors)} rows, median {statistics.median(errors):.3%}, worst {errors[-1]:.3%}")
    assert statistics.median(errors) <= median
    assert errors[-1] <= worst


@pytest.mark.parametrize("graph", ["compiled", "eager"])
def test_dense_forward_steps_agree(graph):
    chosen = [row for row in rows(STEPS, "Qwen/Qwen3-32B") if row["graph"] == graph]
    errors = [abs(forward_seconds(row) / (float(row["step_ms"]) / 1e3) - 1) for row in chosen]
    # Far inside the 1 % and 3 % asked for: what is left are the index tables of attention.
    assert_close(errors, f"dense forward, {graph}", median=0.0005, worst=0.001)


def test_expert_forward_steps_are_reported():
    chosen = rows(STEPS, "Qwen/Qwen3-30B-A3B")
    errors = [abs(forward_seconds(row) / (float(row["step_ms"]) / 1e3) - 1) for row in chosen]
    assert_close(errors, "MoE eager forward, total")


@pytest.mark.parametrize("kind", PHASES)
def test_serving_figures_of_dense_rows_agree(kind):
    errors = {"ttft": [], "tpot": [], "tokens_per_s": [], "weights": []}
    for row in rows({kind}, "Qwen/Qwen3-32B"):
        block = block_of(row)
        concurrency = int(block.concurrency[0])
        assert concurrency == int(row["concurrency"])
        rate = {
            "aggregated": 1000 * concurrency * 1500 / block.e2e_ms[0],
            "decode": 1000 * concurrency / block.tpot_inclusive_ms[0],
            "prefill": 1000 * concurrency * 3500 / block.makespan_ms[0],
        }[kind]
        errors["tokens_per_s"].append(abs(rate / float(row["tokens_per_s"]) - 1))
        errors["weights"].append(abs(block.weight_bytes[0] / 2**30 / float(row["weights_gib"]) - 1))
        for name, value in (("ttft", block.ttft_ms[0]), ("tpot", block.tpot_inclusive_ms[0])):
            if row[f"{name}_ms"]:
                errors[name].append(abs(value / float(row[f"{name}_ms"]) - 1))
    for name, values in errors.items():
        if values:
            assert_close(values, f"{kind} {name}", worst=0.01 if name == "weights" else 0.03)


@pytest.mark.parametrize("kind", ["decode", "prefill"])
def test_kv_cache_agrees_within_a_block(kind):
    for row in [*rows({kind}, "Qwen/Qwen3-32B"), *rows({kind}, "Qwen/Qwen3-30B-A3B")]:
        model, tp = SPECS[row["model"]], int(row["tp"])
        group = model.layers[0]
        block_bytes = 128 * group.count * 2 * max(1, group.attention.kv_heads // tp) * 128 * 2
        rounding = 0.0005 * 2**30  # three decimals of GiB are printed
        got = block_of(row).kv_cache_mean_bytes[0]
        assert abs(got - float(row["kv_gib"]) * 2**30) <= block_bytes + rounding, row
