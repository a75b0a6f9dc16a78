"""Measured points for a fit: their replica, simulated under any engine's numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.evaluate import batch_source, cost_of
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.ledger.deployments import Deployment
from evaluator.ledger.predicting import LookUp, asked_of, operators_of, values_of
from evaluator.scenario import Scenario, required_engine
from evaluator.serving.engine.closed_loop import decode_steps_s
from evaluator.serving.engine.closed_run import ServedTimes, prompts_alone, served
from evaluator.serving.interface import Run
from store.schema import Phase

LATENCIES = ("ttft_ms", "tpot_exclusive_ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayedProbe:
    """At exactly one batch size, without interpolation."""

    replica: ServedTimes
    phase: Phase

    def value(self, column: str, batch_size: int) -> float:
        play = {"prefill": self._prompts, "decode": self._tokens, "aggregated": self._requests}[self.phase]
        return 1000.0 * play(batch_size)[column]

    def _prompts(self, size: int) -> Mapping[str, float]:
        alone = prompts_alone(self.replica, np.asarray([size]))
        return {"ttft_ms": float(alone.mean[0]), "makespan_ms": float(alone.makespan[0])}

    def _tokens(self, size: int) -> Mapping[str, float]:
        return {"tpot_exclusive_ms": decode_steps_s(self.replica.table, self.replica.engine)[size]}

    def _requests(self, size: int) -> Mapping[str, float]:
        times = self.replica.closed(size)
        whole = times.e2e_s(self.replica.loop.output_length)
        return {"ttft_ms": times.ttft_s, "tpot_exclusive_ms": times.tpot_exclusive_s, "e2e_ms": whole}


@dataclass(frozen=True, slots=True, kw_only=True)
class FitPoint:
    """A `weight` below 1 lets points of a large group count less."""

    deployment: Deployment
    replica: ServedTimes
    phase: Phase
    batch_size: int
    measured: Mapping[str, float]  # by metric
    weight: float = 1.0
    drifts: bool = False  # as far as the engine says: nobody stated who asked

    def log_errors(self, engine: EngineProfile) -> tuple[float, ...]:
        """Of each metric, under the point's own client and token budget."""
        mine, loop = self.replica.engine, self.replica.loop
        asked = replace(engine, token_budget=mine.token_budget, client=mine.client)
        if self.drifts:
            asked = replace(asked, client=replace(mine.client, shortest=engine.client.shortest))
            loop = replace(loop, shortest=engine.client.shortest)
        probe = PlayedProbe(replica=replace(self.replica, engine=asked, loop=loop), phase=self.phase)
        found = values_of(self.deployment, "known", probe, self.batch_size)
        return tuple(math.log(found[metric] / value) for metric, value in self.measured.items())


def fit_points(
    measured: Sequence[tuple[Deployment, Mapping[str, float]]],
    engine: EngineProfile,
    captured: LookUp | None = None,
    *,
    weight: float = 1.0,
) -> list[FitPoint]:
    """In order; scenarios that differ in concurrency alone share tables."""
    asked = [asked_of(deployment, "known", engine=engine) for deployment, _ in measured]
    most: dict[Scenario, int] = {}
    for one in asked:
        most[one.scenario] = max(most.get(one.scenario, 1), one.batch_size)
    replicas = {scenario: _replica(scenario, size, captured) for scenario, size in most.items()}
    return [
        FitPoint(
            deployment=deployment,
            replica=replicas[one.scenario],
            phase=one.scenario.phase,
            batch_size=one.batch_size,
            measured=metrics,
            weight=weight,
        )
        for (deployment, metrics), one in zip(measured, asked, strict=True)
    ]


def _replica(scenario: Scenario, size: int, captured: LookUp | None) -> ServedTimes:
    run = Run(
        scenario=scenario,
        operators=operators_of(scenario, captured),
        source=batch_source(scenario),
        cost=cost_of(scenario),
        batch_sizes=np.asarray([size]),
    )
    return served(run, required_engine(scenario), size)
