"""How fast forward steps are priced: grids of 1,000 batches x 1,000 contexts on one core, with the split by kind.

Run: python tests/benchmark/bench_steps.py. Prints one JSON line a figure; steps a second of processor time, the best of five runs."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from evaluator_cases import DEEPSEEK_V3, QWEN3_30B_A3B, QWEN3_32B, TEST_DEVICE, W8A8, both_traces
from figures import least_s, say

from evaluator.evaluate import evaluate_scenario
from evaluator.graph.capture import CaptureRequest, capture_operators
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.formats import Precision, linear_format
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import list_models, load_model
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.step import step_seconds
from evaluator.pricing.theoretical import TheoreticalCost
from evaluator.scenario import Scenario
from evaluator.together.ranges import batch_range

CASES = {
    "Qwen3-32B TP8": (QWEN3_32B, Plan(tp=8), 20e6, 4e6),
    "Qwen3-30B-A3B EP8": (QWEN3_30B_A3B, Plan(dp=8, ep=8), 20e6, 4e6),
    "DeepSeek-V3 TP8 EP16": (DEEPSEEK_V3, Plan(tp=8, dp=2, ep=16), 15e6, 3e6),
}


def grid(phase: str):
    """Sums of 1,000 batch sizes (rows) by 1,000 lengths (columns)."""
    requests, lengths = np.arange(1.0, 1001.0)[:, None], np.arange(8.0, 8008.0, 8.0)[None, :]
    one = request_sums(1.0, lengths - 1.0) if phase == "decode" else request_sums(lengths, 0.0)
    return repeated(one, requests)


def steps() -> None:
    for name, (model, plan, decode_aim, prefill_aim) in CASES.items():
        for phase, aim in (("decode", decode_aim), ("prefill", prefill_aim)):
            operators, cost, sums = (
                both_traces(model, plan, linear=W8A8)[phase],
                TheoreticalCost(device=TEST_DEVICE),
                grid(phase),
            )
            seconds = least_s(lambda o=operators, c=cost, s=sums: step_seconds(o, c, s))
            say(f"{phase} steps, {name}", 1e6 / seconds, "steps/s", aim=f">= {aim}", points=1_000_000)


def captures() -> None:
    for name, (model, plan, _, _) in CASES.items():
        for compiled in (True, False):
            request = CaptureRequest(
                model=model, plan=plan, linear=W8A8, experts=W8A8, kv_bits=16, trace="prefill", compile=compiled
            )
            mode = "compiled" if compiled else "eager"
            say(f"capture, {name}, {mode}", 1e3 * least_s(lambda r=request: capture_operators(r)), "ms")


def catalogue() -> None:
    """Milliseconds of processor time to trace the slowest shapes that are shipped, of every kind of trace and graph."""
    form, found, seen = linear_format("FP8"), [], set()
    for name in list_models():
        model = load_model(name)[1]
        if (shape := model.unnamed) in seen:
            continue
        seen.add(shape)
        plan = Plan(tp=8, ep=8) if model.routed else Plan(tp=8)
        for compiled, trace in itertools.product((True, False), ("prefill", "decode")):
            request = CaptureRequest(
                model=model, plan=plan, linear=form, experts=form, kv_bits=16, trace=trace, compile=compiled
            )
            mode = "compiled" if compiled else "eager"
            spent = least_s(lambda r=request: capture_operators(r), runs=3)
            found.append((spent, f"{name}, {mode}, {trace}"))
    found.sort(reverse=True)
    for spent, name in found[:3]:
        say(f"capture of {len(found)} in the catalogue, among the slowest: {name}", 1e3 * spent, "ms", aim="<= 100")


def scenarios() -> None:
    for name, (model, plan, _, _) in CASES.items():
        probes, seconds = 0, 0.0
        for phase in ("prefill", "decode", "aggregated"):
            scenario = Scenario(
                model=model,
                device=TEST_DEVICE,
                precision=Precision(linear="W8A8_DYNAMIC"),
                plan=plan,
                workload=Workload(input_length=1000, output_length=200.0),
                phase=phase,
            )
            operators = both_traces(model, plan, linear=W8A8)
            sizes = np.arange(1, batch_range(scenario, operators).last + 1)
            probes += sizes.size
            seconds += least_s(lambda s=scenario, o=operators, n=sizes: (batch_range(s, o), evaluate_scenario(s, n, o)))
        say(f"scenarios of three phases, {name}, 1000/200", probes / seconds, "probes/s", probes=probes)


if __name__ == "__main__":
    steps()
    captures()
    catalogue()
    scenarios()
