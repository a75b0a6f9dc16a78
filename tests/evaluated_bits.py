"""Prints the exact bits of the numbers of a few scenarios of every kind: tests run it on several processors' arithmetic.

Run as a program: `python tests/evaluated_bits.py` writes one JSON object, case -> column -> hexadecimal numbers."""

from __future__ import annotations

import json
import sys

import numpy as np
from evaluator_cases import DEEPSEEK_V3, GPT_OSS_20B, QWEN3_30B_A3B, QWEN3_32B, TEST_DEVICE, W8A8, captured

from evaluator.evaluate import evaluate_scenario
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision, linear_format
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import LengthBin, Workload
from evaluator.scenario import Scenario

PHASES = ("prefill", "decode", "aggregated")
SIZES = np.asarray([1, 3, 17, 64, 300])
FIXED = Workload(input_length=3500, output_length=1500.0, max_batched_tokens=14000)
CHUNKED = Workload(input_length=20000, output_length=300.0, prefix_cache_hit_rate=0.3)
DRAFTS = Workload(input_length=900, output_length=60.0, mtp_tokens=2, mtp_acceptance=(0.9, 0.6))
BINS = tuple(
    LengthBin(
        input_length=length, output_length=output, weight=weight, min_input_length=length - 90, max_input_length=length
    )
    for length, output, weight in ((311, 93, 0.37), (1777, 211, 0.41), (5003, 449, 0.15), (9511, 1201, 0.07))
)
MIXED = Workload(
    input_length=None,
    output_length=sum(item.output_length * item.weight for item in BINS),
    bins=BINS,
    prefix_cache_hit_rate=0.17,
)
DENSE = (QWEN3_32B, Plan(tp=8))
EXPERTS = (QWEN3_30B_A3B, Plan(dp=8, ep=8))
CASES = {
    "waves, fixed": (DENSE, FIXED, "TEST_DEVICE", "waves"),
    "waves, lengths of a distribution": (DENSE, MIXED, "TEST_DEVICE", "waves"),
    "waves, long prompts in chunks": (DENSE, CHUNKED, "TEST_DEVICE", "waves"),
    "waves, pipeline": ((QWEN3_32B, Plan(tp=2, pp=4)), FIXED, "TEST_DEVICE", "waves"),
    "waves, experts": (EXPERTS, FIXED, "TEST_DEVICE", "waves"),
    "waves, latent attention, drafts": ((DEEPSEEK_V3, Plan(tp=8, dp=2, ep=16)), DRAFTS, "TEST_DEVICE", "waves"),
    "waves, windows, distribution": ((GPT_OSS_20B, Plan(tp=2, ep=2)), MIXED, "TEST_DEVICE", "waves"),
    "batches whole, distribution": (DENSE, MIXED, "TEST_DEVICE", "seed002"),
    "engine, theoretical": (DENSE, FIXED, "TEST_DEVICE", "vllm"),
    "engine, distribution": (DENSE, MIXED, "TEST_DEVICE", "trtllm"),
    "engine, calibrated": (DENSE, FIXED, "h100_sxm", "sglang"),
    "calibrated, fixed": (DENSE, FIXED, "h100_sxm", "waves"),
    "calibrated, chunks": (DENSE, CHUNKED, "b200_sxm", "waves"),
    "calibrated, distribution": (DENSE, MIXED, "a100_sxm", "waves"),
    "calibrated, experts": (EXPERTS, MIXED, "h200_sxm", "waves"),
    "calibrated, latent attention": ((DEEPSEEK_V3, Plan(tp=8, dp=2, ep=16)), DRAFTS, "h200_sxm", "waves"),
}


def bits() -> dict[str, dict[str, list[str]]]:
    return {f"{name}, {phase}": columns_of(name, phase, SIZES) for name in CASES for phase in PHASES}


def columns_of(name: str, phase: str, sizes) -> dict[str, list[str]]:
    columns = _block(*CASES[name][0], *CASES[name][1:], phase, sizes).columns()
    return {column: [float(value).hex() for value in values] for column, values in columns.items()}


def _block(model, plan, workload, device, serving, phase, sizes):  # noqa: PLR0917  a row of CASES
    theoretical = device == "TEST_DEVICE"
    scenario = Scenario(
        model=model,
        device=TEST_DEVICE if theoretical else load_device(device),
        precision=Precision(linear="W8A8_DYNAMIC" if theoretical else "BF16"),
        plan=plan,
        workload=workload,
        phase=phase,
        serving_model=serving,
    )
    linear = W8A8 if theoretical else linear_format("BF16", mxfp4_group_size=32, convention="physical")
    operators = {trace: captured(model, plan, trace, linear=linear) for trace in ("prefill", "decode")}
    return evaluate_scenario(scenario, sizes, operators)


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bits()))
