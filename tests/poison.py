"""Scenarios that cannot be evaluated although nothing is wrong with what was asked: by themselves, and side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from evaluator.scenario import Scenario
from evaluator.serving.waves.side_by_side import SideBySide
from evaluator.together import side_evaluation

REASON = "ZeroDivisionError: a figure of zero"


@contextmanager
def poisoned_where(wrong: Callable[[Scenario], bool]) -> Iterator[None]:
    """Evaluating a scenario of which this is true divides by zero, and so does evaluating others beside it."""
    alone, run_of = side_evaluation.evaluate_scenario, side_evaluation.evaluate_run

    def refuse(scenarios):
        if any(map(wrong, scenarios)):
            raise ZeroDivisionError("a figure of zero")

    def one(scenario, sizes, operators):
        refuse([scenario])
        return alone(scenario, sizes, operators)

    def many(run):
        source = run.source
        workloads = source.workloads if isinstance(source, SideBySide) else (run.scenario.workload,)
        refuse(replace(run.scenario, workload=workload) for workload in workloads)
        return run_of(run)

    side_evaluation.evaluate_scenario, side_evaluation.evaluate_run = one, many
    try:
        yield
    finally:
        side_evaluation.evaluate_scenario, side_evaluation.evaluate_run = alone, run_of
