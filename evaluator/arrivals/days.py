"""A day played through: requests at its rates, dealt to the replicas that serve in their minute.

Not here: how many replicas that are (evaluator.arrivals.scaling)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.arrivals.asked import in_order
from evaluator.arrivals.loads import LoadPlayer, PlaySettings, unplayable
from evaluator.arrivals.scaling import HOUR
from evaluator.arrivals.streams import ArrivalProcess, uniform
from evaluator.graph.operators import OperatorSet
from evaluator.inputs.workloads.day_rates import Day
from evaluator.pricing.cost_model import CostModel
from evaluator.scenario import Scenario
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from store.errors import InputError

_MINUTE_S = 60.0
_DEALT = 5  # stream of random numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    """The longest times of a request that counts as served in time."""

    ttft_ms: float
    tpot_ms: float


class DayPlayer:
    """The requests of a day for one deployment, played with one number of replicas after the other."""

    def __init__(
        self,
        scenario: Scenario,
        operators: Mapping[str, OperatorSet],
        cost: CostModel,
        day: Day,
        seed: int,
    ) -> None:
        model = serving_model_of(scenario)
        engine = model.engine(scenario)
        run = Run(scenario=scenario, operators=operators, source=model.source(scenario), cost=cost,
                  batch_sizes=np.asarray([1], dtype=np.int64))  # fmt: skip
        if (refused := unplayable(run, engine)) is not None or engine is None:
            raise refused or InputError("no engine")
        log, count = day.log, day.requests
        process = ArrivalProcess(kind="poisson", requests=count, seed=seed)
        if log is not None:
            process = replace(process, kind="trace", trace_sha256=log.sha256)
        self._player = LoadPlayer(run, engine, PlaySettings(process=process), log)
        asked = self._player.asked
        times = day_times(asked.arrive_s, day.rates_per_s) if log is None else log.times
        self._asked = replace(asked, arrive_s=times)
        self._minute = np.minimum(times // _MINUTE_S, day.rates_per_s.size - 1).astype(np.int64)
        self._share = 1.0 - uniform(seed, _DEALT, count)  # in [0, 1)

    @property
    def requests(self) -> int:
        return self._asked.count

    def attained(self, serving: Integers, limits: TimeLimits) -> FloatArray:
        """The share of each hour's requests within the limits; NaN where none came. `serving` is by minute."""
        replica = np.floor(self._share * serving[self._minute]).astype(np.int64)
        within = np.zeros(self._asked.count, dtype=np.bool_)
        by_replica = np.argsort(replica, kind="stable")
        for mine in np.split(by_replica, np.cumsum(np.bincount(replica))[:-1]):
            if mine.size:
                within[mine] = self._within(mine, limits)
        hour = self._minute // HOUR
        came = np.bincount(hour, minlength=-(-serving.size // HOUR))
        fine = np.bincount(hour, weights=within, minlength=came.size)
        return np.where(came > 0, fine / np.maximum(came, 1), np.nan)

    def _within(self, mine: Integers, limits: TimeLimits) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        asked = in_order(self._asked, mine)
        times = self._player.times(asked, self._player.played(self._player.rules, asked), 0)
        in_time = times.ttft + self._player.load_outside_ms <= limits.ttft_ms
        return np.asarray(in_time & (times.tpot <= limits.tpot_ms))


def day_times(unit_s: FloatArray, rates_per_s: FloatArray) -> FloatArray:
    """Times at one request a second, stretched so that each minute gets its rate and the day all of them."""
    came = np.concatenate(([0.0], np.cumsum(_MINUTE_S * rates_per_s)))
    places = unit_s * (came[-1] / (unit_s[-1] * (1.0 + 1e-9)))
    minute = np.searchsorted(came, places, side="right") - 1  # never one without requests
    return np.asarray(_MINUTE_S * minute + (places - came[minute]) / rates_per_s[minute])
