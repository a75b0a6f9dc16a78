"""End to end on this machine: time kernels with torch, fit a profile, predict a real transformer's steps, then run them.

The transformer has random weights; its steps are timed with the threads the kernels were timed with."""

import math
import statistics
import sys
from pathlib import Path

import pytest

from evaluator.graph.sums import repeated, request_sums
from evaluator.pricing.calibrated import calibrated_cost
from evaluator.pricing.step import step_seconds

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))


def new_and_context(trace, length):
    """New tokens and cached ones of a sequence."""
    return (length, 0) if trace == "prefill" else (1, length)


@pytest.mark.long  # compares with a clock: other work on the machine shows
def test_predicted_steps_of_a_real_transformer_land_within_thirty_percent():
    import toy_decoder

    from evaluator.calibration.bench import threads
    from evaluator.calibration.measure import measure_kernels, measured_profile

    told = []
    measured = measure_kernels(
        "cpu", budget_s=45.0, progress=lambda share, kind: told.append((share, kind)), cpu_threads=1
    )
    assert told[-1][0] <= 1.0
    assert {kind for _, kind in told} == {"gemm", "attn_prefill", "attn_decode", "elementwise"}
    profile, calibration = measured_profile(measured, "this_machine")
    assert calibration.source.startswith("cpu kernels timed with torch")
    cost = calibrated_cost(profile)
    shape, grids = toy_decoder.SIZES["cpu"]
    points = [(trace, batch, length) for trace, grid in grids.items() for batch, length in grid]
    predicted, seen = {}, dict.fromkeys(points, math.inf)
    for trace, batch, length in points:
        sums = repeated(request_sums(*new_and_context(trace, length)), batch)
        operators = toy_decoder.operators(shape, trace)
        predicted[trace, batch, length] = float(step_seconds(operators, cost, sums).total)
    with threads(1), torch.inference_mode():
        for trace, batch, length in points * 3:  # in rounds: other work on the machine comes in bursts
            seconds = toy_decoder.measured_seconds(shape, batch, *new_and_context(trace, length), "cpu")
            seen[trace, batch, length] = min(seen[trace, batch, length], seconds)
    errors = {point: round(predicted[point] / seen[point] - 1, 3) for point in points}
    for trace in grids:
        assert statistics.median(abs(error) for point, error in errors.items() if point[0] == trace) < 0.30, errors
