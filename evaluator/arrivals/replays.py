"""A log of requests replayed: its own times of arrival, prompts and answers, against the scheduler of a scenario.

Not here: ladders of rates (evaluator.arrivals.loads)."""

from __future__ import annotations

import numpy as np

from evaluator.arrivals.asked import at_rate
from evaluator.arrivals.loads import LoadPlayer, PlaySettings, RequestTimesMs
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.serving.interface import Run


def replayed_times(run: Run, engine: EngineProfile, settings: PlaySettings, trace: TracedArrivals) -> RequestTimesMs:
    """The times of every request of a log, in its order, what no step takes among them."""
    player = LoadPlayer(run, engine, settings, trace)
    seconds = float(trace.times[-1] - trace.times[0])
    asked = at_rate(player.asked, (trace.times.size - 1) / seconds)
    played = player.played(player.rules, asked)
    outside = player.load_outside_ms
    ttft = 1e3 * (played.first_s - asked.arrive_s) + outside
    e2e = 1e3 * (played.end_s - asked.arrive_s) + outside
    gained = trace.output_lengths - 1
    return RequestTimesMs(ttft=ttft, tpot=np.where(gained > 0, (e2e - ttft) / np.maximum(gained, 1), 0.0), e2e=e2e)
