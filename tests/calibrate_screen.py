"""Makes the first screen of docs/howto/validate-against-measurements.md anew: fits points of a made-up server and writes what is printed.

    PYTHONPATH=.:tests python tests/calibrate_screen.py

Run by `make docs`; the server is the one of tests/cli/test_calibrate_serving.py."""

from __future__ import annotations

import csv
import itertools
import re
import tempfile
import textwrap
from pathlib import Path

import numpy as np
from conftest_cli import sweepdb

from evaluator.inputs.engines.engine_profiles import EngineProfile, unfitted_engine, with_numbers
from evaluator.ledger.deployments import deployment_of
from evaluator.ledger.fitting.fit_points import LATENCIES, fit_points
from evaluator.ledger.readers import read_measurements

PAGE = Path(__file__).parents[1] / "docs/howto/validate-against-measurements.md"
SCREEN = re.compile(r"(?<=   ```\n)   +median_ape_.*?(?=   ```)", re.DOTALL)
LABEL = re.compile(r"(?<=vllm-calibrated@)[0-9a-f]{8}")
# A server unlike the shipped profile: a slow host in front of slow prompts.
TRUTH = with_numbers(
    unfitted_engine("vllm"),
    {
        "prefill_factor": 1.35, "decode_factor": 0.9, "step_ms": 3.5, "step_per_decode_ms": 0.03,
        "step_per_prompt_ms": 4.0, "request_ms": 60.0,
    },
)  # fmt: skip
HEAD = ["model", "device", "engine", "precision", "tp", "input_length", "output_length", "concurrency"]
GRID = tuple(itertools.product(((500, 100), (1000, 400), (3000, 200), (6000, 300)), (1, 3, 8, 24, 64)))


def written(path, truth: EngineProfile, *, grid=GRID, more: str = ""):
    rows = [["Qwen/Qwen3-0.6B", "h100_sxm", "vllm", "bf16", 1, *lengths, users] for lengths, users in grid]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*HEAD, "ttft_ms"], *([*row, 1000] for row in rows)])
    deployments = [deployment_of(one) for one in read_measurements(path).records]
    # The log errors of a point measured at 1 ms are the logarithms of what is predicted.
    played = fit_points([(one, dict.fromkeys(LATENCIES, 1.0)) for one in deployments], truth)
    times = [np.exp(one.log_errors(truth)).tolist() for one in played]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*HEAD, "ttft_ms", "tpot_exclusive_ms"])
        writer.writerows([*row, *latencies] for row, latencies in zip(rows, times, strict=True))
        file.write(more)
    return path


def answered(folder: Path):
    points = written(folder / "mine.csv", TRUTH)
    asked = f"calibrate --serving vllm --measurements {points} --profile {folder}/vllm-calibrated.yaml"
    return sweepdb(asked, f"sqlite:///{folder}/store.sqlite")


def screen_of(page: str) -> str:
    return textwrap.dedent(SCREEN.findall(page)[0])


def made_anew(page: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        outcome = answered(Path(folder))
    label = LABEL.findall(outcome.err)[0]
    shown = textwrap.indent(outcome.out.rstrip("\n") + "\n", "   ")
    return LABEL.sub(label, SCREEN.sub(lambda _: shown, page))


if __name__ == "__main__":
    PAGE.write_text(made_anew(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
