"""A stored server's times by load and lengths, for open loops (simulated) and closed ones.

Requests at random moments have earlier first tokens than as many that ask again at once."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.arrivals import ArrivalProcess, ArrivalRequest, PlaySettings, scenario_loads
from evaluator.evaluate import cost_of, evaluate_scenario
from evaluator.graph import OperatorSet
from evaluator.inputs import LengthBin, Workload
from evaluator.scenario import Scenario
from store.location import StoreLocation
from store.schema import Phase
from sweepdb.restoring import scenario_with_operators

Arrivals = Literal["poisson", "users"]
TIMES = ("ttft_ms", "tpot_ms")
TIMES_OF: Mapping[Phase, tuple[str, ...]] = {"aggregated": TIMES, "prefill": TIMES[:1], "decode": TIMES[1:]}
_REQUESTS = 3_000  # that are simulated at each rate
_SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of the saturation throughput
_LOOKED_AT = 48  # loads at which users of other lengths are evaluated
_LEAST_NEW = 0.01  # of a prompt, that no cache holds


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """Mean lengths, and the cached share of prompts."""

    prompt: float
    output: float
    cached_share: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Curve:
    """Rows by load: in flight, or a second.

    A prefill server mostly holds waiting prompts, so slowness would look like load: it is `by_rate`."""

    load: FloatArray
    ttft_ms: FloatArray
    tpot_ms: FloatArray
    by_rate: bool = False

    def at(self, metric: str, load: Any) -> Any:  # noqa: ANN401  a number for a number, many for many
        """On a line; below the first load its own."""
        return np.interp(load, self.load, getattr(self, metric))

    def slope(self, metric: str, load: float) -> float:
        """Percent of time by percent of load."""
        low, high = (self.at(metric, factor * load) for factor in (0.8, 1.25))
        return math.log(high / low) / math.log(1.25 / 0.8)

    def times(self, ttft: FloatArray | float, tpot: FloatArray | float) -> Curve:
        return replace(self, ttft_ms=ttft * self.ttft_ms, tpot_ms=tpot * self.tpot_ms)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Restored:
    """Ready to evaluate and simulate at any lengths."""

    scenario: Scenario
    operators: Mapping[str, OperatorSet]
    lengths: Lengths

    def at(self, seen: Lengths) -> Scenario:
        return replace(self.scenario, workload=_with_lengths(self.scenario.workload, self.lengths, seen))

    def arriving(self, seen: Lengths) -> Curve:
        scenario = self.at(seen)
        by_rate, first_given = scenario.phase == "prefill", scenario.phase != "decode"
        settings = PlaySettings(process=ArrivalProcess(kind="poisson", requests=_REQUESTS))
        asked = ArrivalRequest(settings=settings, rates=())
        player = scenario_loads(scenario, "", self.operators, cost_of(scenario), asked).player
        loads = [player.load(share * player.saturation_per_s) for share in _SHARES]
        return Curve(
            load=np.array([one.rate_per_s if by_rate else one.in_flight for one in loads]),
            ttft_ms=np.array([first_given * (one.ttft_mean_ms + one.outside_ms) for one in loads]),
            tpot_ms=np.array([one.tpot_mean_ms for one in loads]),
            by_rate=by_rate,
        )

    def longer(self, curve: Curve, batches: Sequence[int], seen: Lengths) -> Curve:
        """Closed loop at seen lengths: slower as both are evaluated now."""
        places = np.unique(np.linspace(0, len(batches) - 1, _LOOKED_AT).round().astype(np.int64))
        sizes, loads = np.array(batches, dtype=np.int64)[places], curve.load[places]
        both = (self.scenario, self.at(seen))
        before, after = (evaluate_scenario(one, sizes, self.operators) for one in both)
        ttft = np.interp(curve.load, loads, np.asarray(after.ttft_ms / before.ttft_ms))
        tpot = np.interp(curve.load, loads, np.asarray(after.tpot_exclusive_ms / before.tpot_exclusive_ms))
        return replace(curve, ttft_ms=curve.ttft_ms * ttft, tpot_ms=curve.tpot_ms * tpot)


def restored_server(location: StoreLocation, scenario: str, lengths: Lengths) -> Restored:
    found, operators = scenario_with_operators(location, scenario)
    return Restored(scenario=found, operators=operators, lengths=lengths)


def _with_lengths(workload: Workload, planned: Lengths, seen: Lengths) -> Workload:
    """Longer as seen; distributions keep their shape."""
    prompt, output = seen.prompt / planned.prompt, seen.output / planned.output
    outside = workload.kept_share() - workload.prefix_cache_hit_rate
    kept = min(max(seen.cached_share - outside, 0.0), 1.0 - _LEAST_NEW)
    return replace(
        workload,
        input_length=None if workload.input_length is None else max(1, round(prompt * workload.input_length)),
        output_length=max(1.0, output * workload.output_length),
        prefix_cache_hit_rate=kept,
        bins=tuple(_stretched(one, prompt, output) for one in workload.bins),
        name=None,
    )


def _stretched(one: LengthBin, prompt: float, output: float) -> LengthBin:
    return replace(
        one,
        input_length=max(1.0, prompt * one.input_length),
        min_input_length=max(1, round(prompt * one.min_input_length)),
        max_input_length=max(1, round(prompt * one.max_input_length)),
        output_length=max(1.0, output * one.output_length),
    )
