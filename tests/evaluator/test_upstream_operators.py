"""Operator by operator against the seeds' own tables: linears by shape, attention, collectives, quantisation."""

from __future__ import annotations

import collections

import numpy as np
import pytest
from evaluator_cases import ATTENTION_KINDS, QWEN3_30B_A3B, QWEN3_32B, W8A8, captured, upstream_device
from restated import rows

from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.launch import Plan
from evaluator.pricing.occurrence import expert_loads, operator_seconds
from evaluator.pricing.theoretical import TheoreticalCost

SPECS = {"Qwen/Qwen3-32B": QWEN3_32B, "Qwen/Qwen3-30B-A3B": QWEN3_30B_A3B}
STEP = ("model", "tp", "ep", "graph", "phase", "batch")
STEPS = sorted({tuple(row[name] for name in STEP) for row in rows("upstream_operators")})


def table(step):
    """Seconds by linear shape (m, k, n) and by kind, and the total."""
    seconds = {}
    for row in rows("upstream_operators"):
        if tuple(row[name] for name in STEP) == step:
            shape = tuple(int(row[name]) for name in "mkn") if row["kind"] == "linear" else ()
            seconds[(row["kind"], *shape) if shape else row["kind"]] = float(row["seconds"])
    return seconds, seconds.pop("whole step")


def ours(step):
    model, tp, ep, graph, phase, batch = step
    plan = Plan(tp=int(tp), dp=8 // int(tp), ep=int(ep))
    operators = captured(
        SPECS[model], plan, phase, linear=W8A8, compile=graph == "compiled", convention="upstream"
    ).operators
    query, context = (1.0, 4250.0) if phase == "decode" else (3500.0, 0.0)
    sums = repeated(request_sums(query, context, square=True), np.asarray(float(batch)))
    cost = TheoreticalCost(device=upstream_device("TEST_DEVICE"), convention="upstream")
    seconds, total = collections.Counter(), 0.0
    for operator in operators:
        time = float(operator_seconds(operator, cost, sums).total()) * operator.count
        total += time
        if operator.gemm is not None:
            tokens = operator.gemm.m.at(sums)
            if operator.per_expert:
                tokens = max(
                    load.tokens
                    for load in expert_loads(operator.experts, operator.experts.tokens.at(sums), "upstream")
                    if load.touched
                )
            seconds["linear", round(float(tokens)), operator.gemm.k, operator.gemm.n] += time
        elif operator.kind in ATTENTION_KINDS:
            seconds["attention"] += time
        else:
            seconds[operator.kind] += time
    return seconds, total


@pytest.mark.parametrize("step", STEPS, ids=" ".join)
def test_attention_linears_and_collectives_agree(step):
    expected, total = table(step)
    got, our_total = ours(step)
    assert len(expected) >= 7
    worst = 0.0
    for key, seconds in expected.items():
        worst = max(worst, abs(got[key] / seconds - 1))
        assert got[key] == pytest.approx(seconds, rel=0.01), key
    print(f"{' '.join(step)}: {len(expected)} kinds and shapes, worst {worst:.3%}; total {our_total / total - 1:+.3%}")
