"""The engine fit: known numbers are found again, outliers do not decide, and numbers nobody measured stay."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from evaluator.inputs.engines.engine_profiles import EngineProfile, unfitted_engine, with_numbers
from evaluator.ledger.fitting.engine_fit import FITTED, fit_engine, log_errors
from evaluator.serving.engine.closed_loop import ClosedLoop, decode_steps_s, simulate
from evaluator.serving.engine.step_tables import StepTable

START = unfitted_engine("sglang")
TRUTH = with_numbers(
    START,
    {
        "prefill_factor": 1.3, "decode_factor": 0.85, "step_ms": 2.5, "step_per_decode_ms": 0.03,
        "step_per_prompt_ms": 3.0, "prompt_step_ms": 4.0, "request_ms": 90.0,
    },
)  # fmt: skip
NAMES = tuple(name for name in FITTED if name not in {"replica_wait_steps", "layer_ms", "latent_layer_ms"})


@dataclass(frozen=True, kw_only=True)
class LoopPoint:
    """Both latencies of a closed loop over a table of step times."""

    table: StepTable
    loop: ClosedLoop
    ttft_s: float
    tpot_exclusive_s: float
    weight: float = 1.0

    def log_errors(self, engine: EngineProfile) -> tuple[float, float]:
        times = simulate(self.table, engine, self.loop)
        return math.log(times.ttft_s / self.ttft_s), math.log(times.tpot_exclusive_s / self.tpot_exclusive_s)


def points(truth=TRUTH) -> list[LoopPoint]:
    made = []
    for length in (500, 2000, 6000):
        table = StepTable(
            spacing=128, linear=2e-5 * 128 * np.arange(80), input_length=length,
            attention=4e-6 * length * np.linspace(0.0, 1.0, 9) ** 1.5, decode_linear=1.2e-2 + 2e-5 * np.arange(130),
            decode_own=2e-8 * length * np.arange(130),
        )  # fmt: skip
        for users in (1, 2, 8, 32, 128):
            loop = ClosedLoop(users=users, output_length=200)
            times = simulate(table, truth, loop)
            made.append(
                LoopPoint(
                    table=table, loop=loop, ttft_s=times.ttft_s, tpot_exclusive_s=times.tpot_exclusive_s, weight=20.0
                )
            )
    return made


def test_numbers_are_found_again() -> None:
    found = fit_engine(points(), START, names=NAMES).profile
    errors = np.abs(log_errors(points(), found))
    assert errors.mean() < 0.01
    assert errors.max() < 0.03
    assert found.prefill_factor == pytest.approx(1.3, abs=0.02)
    # The weights of one model are read in the same time in every step: they cannot be told from the host's time.
    for one in points():
        steps, truly = (decode_steps_s(one.table, engine) for engine in (found, TRUTH))
        assert steps[one.loop.users] == pytest.approx(truly[one.loop.users], rel=0.04)
    assert found.request_ms == pytest.approx(90.0, abs=5.0)
    assert fit_engine(points(), START, names=NAMES).profile == found


def test_one_wrong_point_does_not_decide() -> None:
    measured = points()
    measured[7] = replace(measured[7], ttft_s=5 * measured[7].ttft_s)
    found = fit_engine(measured, START, names=NAMES).profile
    others = [one for place, one in enumerate(measured) if place != 7]
    assert np.median(np.abs(log_errors(others, found))) < 0.02


def test_numbers_that_are_not_asked_for_or_say_nothing_stay() -> None:
    found = fit_engine(points(), START, names=("request_ms", "replica_wait_steps")).profile
    # One replica: nothing waits for others, and no point can tell.
    assert found == with_numbers(START, {"request_ms": found.request_ms})


def test_numbers_stay_inside_their_bounds() -> None:
    impossible = [
        replace(one, ttft_s=0.2 * one.ttft_s, tpot_exclusive_s=0.2 * one.tpot_exclusive_s) for one in points()
    ]
    found = fit_engine(impossible, START, names=NAMES).profile
    for name in NAMES:
        low, high = FITTED[name][:2]
        assert low <= getattr(found, name) <= high
    assert found.prefill_factor == FITTED["prefill_factor"][0]
