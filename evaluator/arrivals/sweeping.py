"""Simulates the loads of a sweep that the store lacks; replays a log at its own times."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field

import numpy as np

from evaluator.arrivals.asked import at_rate
from evaluator.arrivals.load_rows import load_key, load_record, settings_key
from evaluator.arrivals.loads import LoadPlayer, PlaySettings, RequestTimesMs, unplayable
from evaluator.arrivals.pool_loads import PoolPlayer
from evaluator.arrivals.trace_caches import priced_tier, reading_tiers
from evaluator.canonical import IN_NO_KEY
from evaluator.graph.operators import OperatorSet
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.pricing.cost_model import CostModel
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from store.errors import InputError
from store.light_dataclass import dataclass
from store.loads import LoadRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalRequest:
    """None: a ladder below each scenario's saturation."""

    settings: PlaySettings
    rates: tuple[float, ...] | None = None
    keep_requests: bool = field(default=False, metadata={IN_NO_KEY: True})  # beside distributions
    # The digest of its file is in the process.
    trace: TracedArrivals | None = field(default=None, compare=False, metadata={IN_NO_KEY: True})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioLoads:
    """Keys of its loads by rate."""

    player: LoadPlayer | PoolPlayer
    settings: PlaySettings
    common: str
    keys: Mapping[str, float]
    keep_requests: bool = False

    def play(self, known: Collection[str]) -> list[LoadRecord]:
        return [
            load_record(self.player.load(rate, keep_requests=self.keep_requests), self.settings, self.common)
            for key, rate in self.keys.items()
            if key not in known
        ]


def scenario_loads(
    scenario: Scenario, key: str, operators: Mapping[str, OperatorSet], cost: CostModel, asked: ArrivalRequest
) -> ScenarioLoads:
    """Raises where it cannot be simulated."""
    model = serving_model_of(scenario)
    engine = serving_engine(scenario)
    run = Run(
        scenario=scenario,
        operators=operators,
        source=model.source(scenario),
        cost=cost,
        batch_sizes=np.asarray([1], dtype=np.int64),
    )
    refused = unplayable(run, engine)
    if refused is not None or engine is None:
        raise refused or InputError("no engine")
    player: LoadPlayer | PoolPlayer
    if asked.settings.pool is not None and asked.trace is not None:
        player = PoolPlayer(run, engine, asked.settings, asked.settings.pool, asked.trace)
    else:
        player = LoadPlayer(run, engine, asked.settings, asked.trace)
    rooms = asked.settings.caches
    read = None if rooms is None else [priced_tier(scenario, tier) for tier in reading_tiers(scenario, rooms)]
    workload, alone = scenario.workload, asked.settings.pool is None
    common = settings_key(
        key,
        asked.settings,
        images=workload.images is not None,
        shares=asked.trace is not None and alone and workload.kept_share() > 0 and scenario.phase != "decode",
        caches=read,
    )
    rates: Sequence[float] = player.rates(asked.rates)
    return ScenarioLoads(
        player=player,
        settings=asked.settings,
        common=common,
        keys={load_key(common, rate): rate for rate in rates},
        keep_requests=asked.keep_requests,
    )


def replayed_times(run: Run, engine: EngineProfile, settings: PlaySettings, trace: TracedArrivals) -> RequestTimesMs:
    """In the log's order, with times outside steps."""
    player = LoadPlayer(run, engine, settings, trace)
    seconds = float(trace.times[-1] - trace.times[0])
    asked = at_rate(player.asked, (trace.times.size - 1) / seconds)
    played = player.played(player.rules, asked)
    outside = player.load_outside_ms
    ttft = 1e3 * (played.first_s - asked.arrive_s) + outside
    e2e = 1e3 * (played.end_s - asked.arrive_s) + outside
    gained = trace.output_lengths - 1
    return RequestTimesMs(ttft=ttft, tpot=np.where(gained > 0, (e2e - ttft) / np.maximum(gained, 1), 0.0), e2e=e2e)
