"""Measure this machine, fit it, and hold both its own fit and the shipped coefficients against what was measured.

    python tests/benchmark/measured_device.py cuda 240 OUT [h200_sxm]

writes the kernel tables and the profile to OUT and prints JSON lines. Needs torch and numpy; no store, no DuckDB."""

# ruff: noqa: E402  the paths come first

import json
import statistics
import sys
import time
from dataclasses import replace
from pathlib import Path

import torch

sys.path[:0] = [str(Path(__file__).parents[2]), str(Path(__file__).parents[1] / "evaluator")]

import toy_decoder

from evaluator.calibration.device_fit import accuracy_of
from evaluator.calibration.forms import FORMS
from evaluator.calibration.forms.base import figures_of
from evaluator.calibration.kernels import kernel_sets
from evaluator.calibration.measure import measure_kernels, measured_profile
from evaluator.calibration.tables import write_tables
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.devices.calibration_record import calibration_from_json
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.pricing.calibrated import calibrated_cost
from evaluator.pricing.step import step_seconds
from tools.calibrations import as_text


def say(name, **values):
    print(json.dumps({"name": name, **values}), flush=True)


def against_shipped(measured, device):
    """The shipped coefficients on kernels measured here: nothing of them was fitted on this machine."""
    profile = load_device(device, family="calibrated")
    calibration, figures = calibration_from_json(profile.calibration), figures_of(profile)
    for rows in kernel_sets(measured.tables, figures, quantising=False):
        name = rows.name if rows.name in calibration.kernels else rows.name.partition(".")[0]
        if name in calibration.kernels:
            predicted = FORMS[rows.form].seconds(calibration.kernels[name], rows.inputs, figures)
            error = accuracy_of(predicted, rows.latency_s)
            say(
                f"shipped {device} on {rows.name}",
                rows=error.rows,
                median_ape=error.median_ape,
                mean_ape=error.mean_ape,
                bias=error.bias,
            )


def steps(profile, kind, model, grids):
    cost = calibrated_cost(profile)
    for trace, grid in grids.items():
        traced, errors = toy_decoder.operators(model, trace), []
        for batch, length in grid:
            new, context = (length, 0) if trace == "prefill" else (1, length)
            predicted = float(step_seconds(traced, cost, repeated(request_sums(new, context), batch)).total)
            seen = toy_decoder.measured_seconds(model, batch, new, context, kind)
            errors.append(abs(predicted / seen - 1))
            say(
                f"{trace} step",
                batch=batch,
                length=length,
                predicted_ms=round(predicted * 1e3, 4),
                measured_ms=round(seen * 1e3, 4),
            )
        say(f"{trace} steps", median_ape=round(100 * statistics.median(errors), 1), rows=len(errors))


def main(kind, budget_s, out, device=None):
    start = time.perf_counter()
    with torch.inference_mode():
        measured = measure_kernels(kind, budget_s)
    say(
        "measured",
        seconds=round(time.perf_counter() - start, 1),
        device=measured.device_name,
        kernels={t.kind: int(t.latency_s.size) for t in measured.tables},
        peaks=dict(measured.matrix_flops_per_s),
        memory_bytes_per_s=measured.memory_bytes_per_s,
    )
    write_tables(measured.tables, Path(out))
    known = load_device(device, family="theoretical") if device else None
    profile, calibration = measured_profile(measured, "this_machine", known)
    (Path(out) / "calibration.yaml").write_text(as_text(replace(calibration, device="this_machine")), encoding="utf-8")
    for name, error in calibration.accuracy.items():
        say(
            f"own fit of {name}", rows=error.rows, median_ape=error.median_ape, mean_ape=error.mean_ape, bias=error.bias
        )
    if device:
        against_shipped(measured, device)
    with torch.inference_mode():
        steps(profile, kind, *toy_decoder.SIZES[kind])


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), *sys.argv[3:5])
