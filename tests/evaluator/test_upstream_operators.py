"""Operator by operator against the seeds' own tables: linears by shape, attention, collectives, quantisation."""

from __future__ import annotations

import collections
import re

import numpy as np
import pytest
from evaluator_cases import QWEN3_30B_A3B, QWEN3_32B, W8A8, captured, upstream_device
from shared_data import ROOT, shared_data

from evaluator.cost.theoretical import TheoreticalCost
from evaluator.operators import ATTENTION_KINDS
from evaluator.plan import Plan
from evaluator.routing import expert_loads
from evaluator.step import operator_seconds
from evaluator.sums import repeated, request_sums

SPECS = {"Qwen--Qwen3-32B": QWEN3_32B, "Qwen--Qwen3-30B-A3B": QWEN3_30B_A3B}
UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
LINEAR = {"tensor_cast.static_quant_linear.default", "aten.mm.default"}
NAMES = {
    "tensor_cast.attention.default": "attention",
    "tensor_cast.all_reduce.default": "all_reduce",
    "tensor_cast.all_gather.default": "all_gather",
    "tensor_cast.all_to_all.default": "all_to_all",
    "tensor_cast.dynamic_quantize_symmetric.default": "quantise",
}
TABLES = sorted(path.name for path in (ROOT / "upstream" / "ops").glob("*.txt")) or ["absent"]


def table(name):
    """Seconds by linear shape (m, k, n) and by kind, and the total."""
    seconds, total = collections.Counter(), 0.0
    for line in shared_data("upstream", "ops", name).read_text().splitlines():
        cells = re.split(r"\s{2,}", line.strip())
        match = re.match(r"latency_s=\{'analytic': ([\d.e-]+)\}", line.removeprefix("# "))
        if match:
            total = float(match[1])
        if len(cells) < 5:
            continue
        value = re.fullmatch(r"([\d.]+)(ns|us|ms|s)", cells[-3])
        if value is None:
            continue
        time = float(value[1]) * UNITS[value[2]]
        if cells[0] in LINEAR:
            m, k, _, n = (int(number) for number in re.findall(r"\d+", cells[1])[:4])
            seconds["linear", m, k, n] += time
        elif cells[0] in NAMES:
            seconds[NAMES[cells[0]]] += time
    return seconds, total


def ours(name):
    model, tp, ep, mode, phase, batch = re.match(
        r"(.*)_tp(\d+)_ep(\d+)_n8_(compile|eager)_W8A8_DYNAMIC_(prefill|decode)_b(\d+)_", name
    ).groups()
    plan = Plan(tp=int(tp), dp=8 // int(tp), ep=int(ep))
    operators = captured(
        SPECS[model], plan, phase, linear=W8A8, compile=mode == "compile", convention="upstream"
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


@pytest.mark.parametrize("name", TABLES)
def test_attention_linears_and_collectives_agree(name):
    expected, total = table(name)
    got, our_total = ours(name)
    assert len(expected) >= 7
    worst = 0.0
    for key, seconds in expected.items():
        worst = max(worst, abs(got[key] / seconds - 1))
        assert got[key] == pytest.approx(seconds, rel=0.01), key
    print(f"{name}: {len(expected)} kinds and shapes, worst {worst:.3%}; total {our_total / total - 1:+.3%}")
