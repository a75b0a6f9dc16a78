"""Numbers that are stored must not drift: a fixed grid of them is compared with what this formula version gave.

When a formula changes on purpose, raise FORMULA_VERSION (and CAPTURE_VERSION where operators change), and lay the grid down
again: python tests/evaluator/test_formula_version.py"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # where the cases lie when this is run as a program

from evaluator_cases import (
    DEEPSEEK_V3,
    GPT_OSS_20B,
    MIXTRAL_8X7B,
    OPT_125M,
    QWEN3_30B_A3B,
    QWEN3_32B,
    TEST_DEVICE,
    W8A8,
    both_traces,
)

from evaluator.evaluate import evaluate_scenario
from evaluator.plan import Plan
from evaluator.precision import Precision
from evaluator.scenario import Scenario
from evaluator.version import FORMULA_VERSION
from evaluator.workload import Workload

GOLDEN = Path(__file__).with_name("golden") / "formula_numbers.json"
MODELS = {
    "dense": (QWEN3_32B, Plan(tp=8)),
    "pipeline": (QWEN3_32B, Plan(tp=2, pp=4)),
    "experts": (QWEN3_30B_A3B, Plan(dp=8, ep=8)),
    "expert tensor": (MIXTRAL_8X7B, Plan(tp=2, dp=4, ep=4, moe_tp=2)),
    "latent": (DEEPSEEK_V3, Plan(tp=8, dp=2, ep=16)),
    "windows": (GPT_OSS_20B, Plan(tp=2, ep=2)),
    "plain": (OPT_125M, Plan()),
}
WORKLOADS = {
    "3500/1500": Workload(input_length=3500, output_length=1500.0, max_batched_tokens=14000),
    "20000/300": Workload(input_length=20000, output_length=300.0, prefix_cache_hit_rate=0.25),
    "900/60 drafts": Workload(input_length=900, output_length=60.0, mtp_tokens=2, mtp_acceptance=(0.9, 0.6, 0.4, 0.2)),
}
SIZES = np.asarray([1, 3, 50])


def numbers() -> dict[str, dict[str, list[float | None]]]:
    """Every column of every case, by name."""
    grid = {}
    for name, (model, plan) in MODELS.items():
        for label, workload in WORKLOADS.items():
            if workload.mtp_tokens and not model.mtp_layers:
                continue
            for phase in ("prefill", "decode", "aggregated"):
                for convention in ("physical", "upstream"):
                    for compiled in (True,) if convention == "physical" else (True, False):
                        scenario = Scenario(
                            model=model,
                            device=TEST_DEVICE,
                            precision=Precision(linear="W8A8_DYNAMIC"),
                            plan=plan,
                            workload=workload,
                            phase=phase,
                            convention=convention,
                            serving_cost_ms=1.5,
                        )
                        operators = both_traces(model, plan, linear=W8A8, convention=convention, compile=compiled)
                        block = evaluate_scenario(scenario, SIZES, operators)
                        mode = "compiled" if compiled else "eager"
                        grid[f"{name}, {label}, {phase}, {convention}, {mode}"] = {
                            column: [None if np.isnan(value) else float(f"{value:.11g}") for value in values]
                            for column, values in block.columns().items()
                            if not np.isnan(np.asarray(values, dtype=float)).all()
                        }
    return grid


def test_stored_numbers_change_only_with_the_formula_version():
    golden = json.loads(GOLDEN.read_text())
    assert golden["formula_version"] == FORMULA_VERSION, "lay the grid down again for the new formula version"
    got = numbers()
    assert got.keys() == golden["numbers"].keys()
    changed = [
        (case, column)
        for case, columns in golden["numbers"].items()
        for column, values in columns.items()
        if got[case].get(column) != pytest.approx(values, rel=1e-9)
    ]
    assert not changed, f"raise FORMULA_VERSION: {len(changed)} columns changed, first {changed[0]}"


if __name__ == "__main__":
    GOLDEN.parent.mkdir(exist_ok=True)
    text = json.dumps({"formula_version": FORMULA_VERSION, "numbers": numbers()}, sort_keys=True, separators=(",", ":"))
    text = text.replace("},", "},\n")
    GOLDEN.write_text(text + "\n")
