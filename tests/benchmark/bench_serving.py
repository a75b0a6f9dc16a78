"""What a point of an engine's closed loop costs on one core: alone, and as part of a whole batch range of a plan.

Run: python tests/benchmark/bench_serving.py. Prints one JSON line a figure, processor time in ms, the best of three runs. `first`
plays the schedule; `again` is another plan, device or engine fit under the same lengths, which finds it played."""

from __future__ import annotations

import statistics
import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from evaluator_cases import QWEN3_32B, W8A8, both_traces
from figures import least_s, say

from evaluator.evaluate import batch_source, cost_model
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import EngineProfile, engine_profile
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.scenario import Scenario
from evaluator.serving.engine.closed_loop import ClosedLoop, simulate
from evaluator.serving.engine.closed_run import closed_loop_times
from evaluator.serving.engine.request_kinds import RequestKind
from evaluator.serving.engine.schedule import schedule_of
from evaluator.serving.engine.step_tables import TableExtents, step_table
from evaluator.serving.interface import Run

ENGINES = ("vllm", "sglang", "trtllm")
LENGTHS = ((1000, 1000), (3500, 1500), (8000, 1000), (1024, 128))
USERS = (1, 8, 32, 64, 128, 256, 512, 1024)
AIM = "<= 1"  # a point


def run_of(lengths: tuple[int, int], engine: EngineProfile, sizes: np.ndarray) -> Run:
    device, plan = load_device("h100_sxm"), Plan(tp=4)
    scenario = Scenario(
        model=QWEN3_32B,
        device=device,
        precision=Precision(linear="W8A8_DYNAMIC"),
        plan=plan,
        workload=Workload(
            input_length=lengths[0], output_length=float(lengths[1]), max_batched_tokens=engine.token_budget
        ),
        phase="aggregated",
        serving_model=engine.name,
    )
    return Run(
        scenario=scenario,
        operators=both_traces(QWEN3_32B, plan, linear=W8A8),
        source=batch_source(scenario),
        cost=cost_model(device, "physical"),
        batch_sizes=sizes,
    )


def first(action) -> None:
    schedule_of.cache_clear()
    action()


def points() -> None:
    """One concurrency at a time: all ten requests of every user."""
    for shortest, users in product((1.0, 0.8), USERS):
        played, priced = [], []
        for lengths, name in product(LENGTHS, ENGINES):
            engine = engine_profile(name)
            run = run_of(lengths, engine, np.arange(1, 2))
            extents = TableExtents(
                kinds=(RequestKind(new_tokens=lengths[0], output_length=lengths[1]),),
                sequences=users,
                tokens=engine.token_budget + users,
            )
            table = step_table(run.steps, run.cost, extents)
            loop = ClosedLoop(users=users, output_length=lengths[1], shortest=shortest)
            played.append(1000 * least_s(lambda t=table, e=engine, p=loop: first(lambda: simulate(t, e, p))))
            priced.append(1000 * least_s(lambda t=table, e=engine, p=loop: simulate(t, e, p)))
        what = f"closed loop of {users} users, lengths {'fixed' if shortest == 1.0 else 'drawn from 0.8-1'}"
        more = {"aim": AIM, "largest": round(max(played), 3), "cases": len(played)}
        say(f"{what}, first", statistics.median(played), "ms", **more)
        say(f"{what}, again", statistics.median(priced), "ms", aim=AIM, largest=round(max(priced), 3))


def ranges() -> None:
    """Every batch size of a plan, interpolation and kernel tables included."""
    for most in (256, 1024):
        sizes, played, again = np.arange(1, most + 1), [], []
        for lengths, name in product(LENGTHS, ENGINES):
            engine = engine_profile(name)
            run = run_of(lengths, engine, sizes)
            played.append(1000 * least_s(lambda r=run, e=engine: first(lambda: closed_loop_times(r, e)), 1) / most)
            again.append(1000 * least_s(lambda r=run, e=engine: closed_loop_times(r, e)) / most)
        more = {"aim": AIM, "largest": round(max(played), 3), "points": most, "cases": len(played)}
        say(f"a point of batch sizes 1-{most}, first plan", statistics.median(played), "ms", **more)
        say(f"a point of batch sizes 1-{most}, other plans", statistics.median(again), "ms", aim=AIM)


if __name__ == "__main__":
    points()
    ranges()
