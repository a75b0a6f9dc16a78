"""A day simulated, with requests dealt to each minute's replicas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.arrivals.asked import in_order
from evaluator.arrivals.day.scaling import HOUR, MOST_FOLLOWING, Follower, QueueTarget, Scaled, Scaling
from evaluator.arrivals.histograms import edges_ms
from evaluator.arrivals.loads import LoadPlayer, PlaySettings, unplayable
from evaluator.arrivals.play_rules import AskedRequests, PlayedRequests
from evaluator.arrivals.playing import Stretches, play
from evaluator.arrivals.streams import ArrivalProcess, uniform, unit_times
from evaluator.graph.operators import OperatorSet
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.inputs.workloads.day_rates import Day
from evaluator.pricing.cost_model import CostModel
from evaluator.pricing.memory import transfer_bytes
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from evaluator.serving.occupancy import kv_cache_bits
from evaluator.serving.pairs import moving_bytes_per_s, transfer_ms
from store.errors import InputError

_MINUTE_S = 60.0
_DEALT, _BINNED, _ADMITTED, _DEALT_ON = 5, 6, 7, 8  # streams of random numbers


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLimits:
    ttft_ms: float
    tpot_ms: float


@dataclass(frozen=True, slots=True, eq=False)
class DayTimes:
    """NaN where a request was turned away."""

    ttft_ms: FloatArray
    tpot_ms: FloatArray
    end_s: FloatArray


class DayPlayer:
    """One deployment, under one number of replicas after the other."""

    def __init__(
        self,
        scenario: Scenario,
        operators: Mapping[str, OperatorSet],
        cost: CostModel,
        day: Day,
        seed: int,
    ) -> None:
        model = serving_model_of(scenario)
        engine = serving_engine(scenario)
        run = Run(scenario=scenario, operators=operators, source=model.source(scenario), cost=cost,
                  batch_sizes=np.asarray([1], dtype=np.int64))  # fmt: skip
        if (refused := unplayable(run, engine)) is not None or engine is None:
            raise refused or InputError("no engine")
        log, count = drawn_log(day, seed), day.requests
        process = ArrivalProcess(kind="poisson", requests=count, seed=seed)
        if log is not None:
            process = replace(process, kind="trace", trace_sha256=log.sha256)
        self._player = LoadPlayer(run, engine, PlaySettings(process=process), log)
        asked = self._player.asked
        times = day_times(asked.arrive_s, day.rates_per_s) if log is None else log.times
        self._asked = replace(asked, arrive_s=times)
        self._minutes = day.rates_per_s.size
        self._minute = np.minimum(times // _MINUTE_S, day.rates_per_s.size - 1).astype(np.int64)
        self._seed = seed
        self._share = 1.0 - uniform(seed, _DEALT, count)  # in [0, 1)

    @property
    def requests(self) -> int:
        return self._asked.count

    @property
    def prompts(self) -> Integers:
        return self._asked.new_tokens + self._asked.cached

    def attained(self, serving: Integers, limits: TimeLimits, admitted: FloatArray | None = None) -> FloatArray:
        """NaN where no request came. `serving` is by minute.

        `admitted` is the share of each hour's requests let in."""
        return self.shares(self.times(serving, admitted=admitted), limits)

    def shares(self, times: DayTimes, limits: TimeLimits) -> FloatArray:
        within = (times.ttft_ms <= limits.ttft_ms) & (times.tpot_ms <= limits.tpot_ms)
        hour = self._minute // HOUR
        came = np.bincount(hour, minlength=-(-self._minutes // HOUR))
        fine = np.bincount(hour, weights=within, minlength=came.size)
        return np.where(came > 0, fine / np.maximum(came, 1), np.nan)

    def times(
        self, serving: Integers, *, come_s: FloatArray | None = None, admitted: FloatArray | None = None
    ) -> DayTimes:
        """By the replicas of the minute in which a request comes, here at `come_s`."""
        asked, minute, share = self._asked, self._minute, self._share
        if come_s is not None:
            minute = np.minimum(come_s // _MINUTE_S, self._minutes - 1).astype(np.int64)
            asked, share = replace(asked, arrive_s=come_s), 1.0 - uniform(self._seed, _DEALT_ON, asked.count)
        replica = np.floor(share * serving[minute]).astype(np.int64)
        order = np.argsort(replica, kind="stable") if come_s is None else np.lexsort((come_s, replica))
        if admitted is not None:
            drawn = uniform(self._seed, _ADMITTED, asked.count) <= admitted[minute // HOUR]
            replica, order = replica[drawn], order[drawn[order]]
        found = DayTimes(*(np.full(asked.count, np.nan) for _ in range(3)))
        for mine in np.split(order, np.cumsum(np.bincount(replica))[:-1] if replica.size else []):
            if mine.size:
                of_replica = in_order(asked, mine)
                self._keep(found, mine, of_replica, self._player.played(self._player.rules, of_replica))
        return found

    def _keep(self, found: DayTimes, mine: Integers, asked: AskedRequests, played: PlayedRequests) -> None:
        times = self._player.times(asked, played, 0)
        found.ttft_ms[mine] = times.ttft + self._player.load_outside_ms
        found.tpot_ms[mine], found.end_s[mine] = times.tpot, played.end_s

    def followed(
        self, target: QueueTarget, scaling: Scaling, first: int, limits: TimeLimits
    ) -> tuple[Scaled, FloatArray]:
        """A planner that counts requests, from `first` replicas on."""
        if self._player.before.alone_s.any():
            raise InputError("a planner that counts requests is not simulated where requests wait for keys or images")
        planner, most = Follower(target, scaling, first), scaling.maximum or MOST_FOLLOWING

        def serving(minute: int, waiting: int, there: int) -> int:
            ready = planner.ready(minute, waiting if target.counted == "queue" else there)
            return max(1, ready - scaling.spare)

        came = np.cumsum(np.bincount(self._minute, minlength=self._minutes))
        stretches = Stretches(seconds=_MINUTE_S, came=came, share=self._share, most=most, serving=serving)
        rules, prices = self._player.rules, self._player.prices
        played = play(rules, prices, self._asked, 1e-3 * edges_ms(), stretches=stretches)
        found = DayTimes(*(np.empty(self._asked.count) for _ in range(3)))
        self._keep(found, np.arange(self._asked.count), self._asked, played)
        return planner.scaled, self.shares(found, limits)

    @property
    def receiving_ms(self) -> float:
        return self._player.load_outside_ms


def drawn_log(day: Day, seed: int) -> TracedArrivals | None:
    """The day's log, or one drawn from its length bins."""
    if day.bins is None:
        return day.log
    bins, count = day.bins, day.requests
    times = day_times(unit_times(ArrivalProcess(kind="poisson", requests=count, seed=seed)), day.rates_per_s)
    # Two bins of 3 and 1 a second: of draws up to 0.75 of a minute the first, above the second.
    ends = np.cumsum(bins.rate_per_s)
    minute = np.minimum(times // _MINUTE_S, day.rates_per_s.size - 1).astype(np.int64)
    first = np.searchsorted(bins.minute, minute)
    begun = np.where(first > 0, ends[first - 1], 0.0)
    place = begun + uniform(seed, _BINNED, count) * day.rates_per_s[minute]
    last = np.searchsorted(bins.minute, minute, side="right") - 1
    drawn = np.clip(np.searchsorted(ends, place), first, last)  # sums round apart
    inputs, outputs = bins.input_length[drawn], bins.output_length[drawn]
    return TracedArrivals(times=times, input_lengths=inputs, output_lengths=outputs, sha256=bins.sha256)


def day_times(unit_s: FloatArray, rates_per_s: FloatArray) -> FloatArray:
    """Stretched, so that each minute gets its rate."""
    came = np.concatenate(([0.0], np.cumsum(_MINUTE_S * rates_per_s)))
    places = unit_s * (came[-1] / (unit_s[-1] * (1.0 + 1e-9)))
    minute = np.searchsorted(came, places, side="right") - 1  # never one without requests
    return np.asarray(_MINUTE_S * minute + (places - came[minute]) / rates_per_s[minute])


class PairPlayer:
    def __init__(self, prefill: DayPlayer, decode: DayPlayer, sending: Scenario) -> None:
        self.prefill, self.decode = prefill, decode
        self._beside_ms = decode.receiving_ms + moving_ms(sending, prefill.prompts)
        self._played: tuple[bytes, DayTimes] | None = None  # prompts on the last prefill instances

    @property
    def requests(self) -> int:
        return self.prefill.requests

    def attained(self, prefill: Integers, decode: Integers, limits: TimeLimits) -> FloatArray:
        """By hour of arrival; instances by minute.

        TTFT adds moving the keys and receiving them. TPOT counts from there, with the wait in the decode queue."""
        prompts = self._prompt_times(prefill)
        answers = self.decode.times(decode, come_s=prompts.end_s + 1e-3 * self._beside_ms)
        return self.prefill.shares(replace(answers, ttft_ms=prompts.ttft_ms + self._beside_ms), limits)

    def _prompt_times(self, prefill: Integers) -> DayTimes:
        """Independent of decode instances, so simulated once for many numbers of them."""
        place = np.ascontiguousarray(prefill).tobytes()
        if self._played is None or self._played[0] != place:
            self._played = (place, self.prefill.times(prefill))
        return self._played[1]


def moving_ms(sending: Scenario, prompts: Integers) -> FloatArray:
    """Over the outermost links of the instance."""
    link, plan, bits = sending.device.links[0], sending.plan, kv_cache_bits(sending.precision)
    lengths, place = np.unique(prompts, return_inverse=True)
    rate = moving_bytes_per_s(link.bandwidth_bytes_per_s * link.efficiency)
    moved = [transfer_ms(transfer_bytes(sending.model, bits, one), plan.tp * plan.pp, rate) for one in lengths.tolist()]
    return np.asarray(moved)[place]
