"""`schedule`: replicas by hour for a day's rate, from stored loads; the winner is simulated.

Candidates are stored deployments that could carry the day, with the replicas they need."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evaluator import arrivals, inputs
from queries.asking import question_of
from queries.connect import connect
from store.errors import InputError
from store.location import StoreLocation, parse_url
from store.schema import short_plan
from sweepdb.planning.ranking import Row, number_of
from sweepdb.scheduling.day_schedule import USUAL, Candidate, DaySchedule
from sweepdb.sessions import open_session

if TYPE_CHECKING:
    from evaluator.arithmetic import FloatArray, Integers
    from evaluator.scenario import Scenario


_MOST = 10_000
# Days whose rate is so much higher: instances of a side are counted in whole numbers, which then say its goodput.
_MANY = 1_000
_SIZES = """
    SELECT DISTINCT scenario, num_devices FROM scenario
    WHERE list_contains($keys::VARCHAR[], scenario) ORDER BY scenario
"""


def candidates_of(
    scope: Mapping[str, object], rates: FloatArray, scaling: arrivals.Scaling, store: str | None, *, apart: bool = True
) -> list[Candidate]:
    """Within limits, the cheapest first.

    `apart` adds pairs of one device."""
    rows = _rows(scope, _MANY * float(rates.max()), store)
    found = [one for row in rows for one in _candidate(row, rates, scaling) if apart or one.decode is None]
    if not found:
        raise InputError(
            "no stored instance keeps the limits at any rate",
            hint="longer limits, or store loads: sweepdb evaluate ... `arrivals=poisson`",
        )
    most = scaling.maximum
    carrying = [one for one in found if most is None or _busiest(one) <= most]
    if not carrying:
        raise InputError(
            f"`maximum={most}` replicas are too few: the busiest hour needs {min(map(_busiest, found))}",
            hint="raise `maximum`",
        )
    return sorted(carrying, key=by_cost(carrying))


def _rows(scope: Mapping[str, object], rate: float, store: str | None) -> Sequence[Row]:
    with open_session(store) as session:
        rows = session.ask(question_of("capacity", {**scope, "rate": rate, "top": _MOST})).dicts()
    rows = [row for row in rows if row["prefill_device"] in {None, row["device"]}]
    if len({row["question_group"] for row in rows}) > 1:
        raise InputError("the store holds several models or workloads", hint="name one: `sweep`, `model` or `device`")
    apart = [str(row[f"{side}_scenario"]) for row in rows if row["mode"] == "pd" for side in ("prefill", "decode")]
    if not apart:
        return rows
    with connect(parse_url(store).url) as connection:
        sizes = dict(connection.execute(_SIZES, {"keys": sorted(set(apart))}).fetchall())
    return [
        {**row, **{f"{side}_devices": sizes.get(str(row[f"{side}_scenario"])) for side in ("prefill", "decode")}}
        for row in rows
    ]


def _busiest(one: Candidate) -> int:
    return max(int(side.scaled["static"].ready.max()) for side in one.sides)


def by_cost(candidates: Sequence[Candidate]) -> Callable[[Candidate], tuple[float, float, str]]:
    """By price where all have one, else device-hours."""
    by_money = all(one.usd_per_device_hour is not None for one in candidates)

    def key(one: Candidate) -> tuple[float, float, str]:
        hours = one.device_hours("scheduled")
        return (number_of(one.usd("scheduled")) if by_money else hours, hours, one.place)

    return key


def _candidate(row: Row, rates: FloatArray, scaling: arrivals.Scaling) -> Iterator[Candidate]:
    bought, price = number_of(row["devices_with_margin"], number_of(row["devices"])), row["usd_per_hour"]

    def side(before: str, num_devices: object, goodput: float, decode: Candidate | None = None) -> Candidate:
        return Candidate(
            device=str(row["device"]),
            plan=str(row[f"{before}plan"]),
            scenario=str(row[f"{before}scenario"]),
            num_devices=int(number_of(num_devices)),
            goodput=goodput,
            usd_per_device_hour=None if price is None else number_of(price) / bought,
            scaled=scaled_by(rates, goodput, scaling, scaling.needed(arrivals.peaks(rates), goodput)),
            decode=decode,
        )

    if row["mode"] == "aggregated":
        yield side("", row["num_devices"], number_of(row["goodput_per_instance"]))
        return
    # 70 a second take 3 instances, 70,000 take 2,396: one carries 29.2.
    of_one = {name: number_of(row["rate"]) / number_of(row[f"{name}_instances"]) for name in ("prefill", "decode")}
    decode = side("decode_", row["decode_devices"], of_one["decode"])
    yield side("prefill_", row["prefill_devices"], of_one["prefill"], decode)


def scaled_by(
    rates: FloatArray, goodput: float, scaling: arrivals.Scaling, needed: Integers
) -> dict[str, arrivals.Scaled]:
    return {
        "static": arrivals.static(needed, scaling, rates.size),
        "scheduled": arrivals.scheduled(needed, scaling, rates.size),
        "reactive": arrivals.reactive(rates, goodput, scaling),
    }


_SIMULATED, _MOST_SIMULATED = 3, 8  # candidates: the first ones, and until one of them stays first
_MORE_PREFILL = 2  # instances beyond the fewest, as these may save more decode instances
_UNITS_S = {"s": 1.0, "ms": 1e-3}


def schedule(
    trace: str | os.PathLike[str],
    *,
    ttft_limit: float,
    tpot_limit: float,
    attainment: float = USUAL.attainment,
    sweep: str | None = None,
    model: str | None = None,
    device: str | None = None,
    start_up: int = USUAL.start_up,
    cool_down: int = USUAL.cool_down,
    minimum: int = USUAL.minimum,
    maximum: int | None = None,
    spare: int = USUAL.spare,
    reactive: str | None = None,
    trace_unit: str = USUAL.trace_unit,
    seed: int = USUAL.seed,
    store: str | None = None,
) -> DaySchedule:
    """Replicas by hour for a CSV of `minute,rate` or a log of requests: the fewest device-hours within limits.

    Candidates are stored instances with loads, aggregated or disaggregated, whose pools are scaled separately. Lengths
    are those of the log, else of their workload. `reactive="queue=5"` adds a planner that aims at 5 waiting requests to
    a replica, `"ongoing=40"` one at 40 that wait or run; both scale instances that do prefill and decode."""
    check_counts(start_up=start_up, cool_down=cool_down, minimum=minimum, maximum=maximum, spare=spare, seed=seed)
    scaling = arrivals.Scaling(start_up=start_up, cool_down=cool_down, minimum=minimum, maximum=maximum, spare=spare)
    target = None if reactive is None else _target(reactive)
    day = day_of(trace, trace_unit)
    limits = arrivals.TimeLimits(ttft_ms=ttft_limit, tpot_ms=tpot_limit)
    scope = {"sweep": sweep, "model": model, "device": device, "attainment": attainment, "ttft_limit": ttft_limit,
             "tpot_limit": tpot_limit}  # fmt: skip
    found = candidates_of(
        {name: value for name, value in scope.items() if value is not None}, day.rates_per_s, scaling, store,
        apart=target is None,
    )  # fmt: skip
    return AskedDay(day, scaling, limits, attainment, seed, target).answered(found, parse_url(store))


def day_of(trace: str | os.PathLike[str], trace_unit: str) -> inputs.Day:
    if trace_unit not in _UNITS_S:
        raise InputError(f"`trace_unit={trace_unit}` is not one of {', '.join(_UNITS_S)}")
    return inputs.read_day(Path(trace), log_seconds=_UNITS_S[trace_unit])


def check_counts(**given: int | None) -> None:
    for keyword, value in given.items():
        least = 1 if keyword in {"maximum", "pool"} or (keyword == "minimum" and "pool" not in given) else 0
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10_080
        ):
            raise InputError(f"`{keyword}` must be a whole number from {least} to 10,080, not {value!r}")
    minimum, maximum = given["minimum"], given.get("maximum")
    if minimum is not None and maximum is not None and maximum < minimum:
        raise InputError(f"`maximum={maximum}` is below `minimum={minimum}`", hint="raise it, or lower the minimum")


def _target(reactive: str) -> arrivals.QueueTarget:
    """`queue=5`, `ongoing=40`: what a planner counts, and how many of them it aims at to a replica."""
    counted, _, number = reactive.partition("=")
    try:
        per_replica = float(number)
    except ValueError:
        per_replica = math.nan
    if 0 < per_replica < math.inf:
        if counted == "queue":
            return arrivals.QueueTarget(counted="queue", per_replica=per_replica)
        if counted == "ongoing":
            return arrivals.QueueTarget(counted="ongoing", per_replica=per_replica)
    raise InputError(
        f"`reactive={reactive[:100]}` is no count of requests to a replica",
        hint="`reactive=queue=5` for those that wait, `reactive=ongoing=40` for those that wait or run",
    )


@dataclass(frozen=True, slots=True)
class AskedDay:
    """A day that is asked about: its requests, and what is wanted of replicas."""

    day: inputs.Day
    scaling: arrivals.Scaling
    limits: arrivals.TimeLimits
    attainment: float
    seed: int
    target: arrivals.QueueTarget | None = None

    def answered(self, candidates: Sequence[Candidate], location: StoreLocation) -> DaySchedule:
        """The first candidates simulated, and others for as long as one of them comes first."""
        order, found, done = by_cost(candidates), list(candidates), dict[str, Candidate]()
        while len(done) < _MOST_SIMULATED:
            waiting = [one for one in found[: 1 if len(done) >= _SIMULATED else _SIMULATED] if one.place not in done]
            if not waiting:
                break
            place = found.index(waiting[0])
            try:
                found[place] = done[waiting[0].place] = self.simulated(waiting[0], location)
            except InputError:
                if len(found) == 1:
                    raise
                del found[place]
            found.sort(key=order)
        found.sort(key=lambda one: (one.place not in done, order(one)))
        return self._told(found, location)

    def _told(self, candidates: Sequence[Candidate], location: StoreLocation) -> DaySchedule:
        best = candidates[0]
        day = self.simulation(best, location)
        attained = {kind: day.attained(*(one.scaled[kind] for one in best.sides)) for kind in best.scaled}
        if (target := self.target) is not None:
            started = int(best.scaled["reactive"].ready[0])
            player = self.player(best, location)
            followed, attained[target.counted] = player.followed(target, self.scaling, started, self.limits)
            best = replace(best, scaled={**best.scaled, target.counted: followed})
        return DaySchedule(
            candidates=(best, *candidates[1:]),
            rates_per_s=tuple(self.day.rates_per_s.tolist()),
            peak_rates=tuple(arrivals.peaks(self.day.rates_per_s).tolist()),
            attained={kind: shares_of(one) for kind, one in attained.items()},
            attainment=self.attainment,
            requests=day.requests,
            spare=self.scaling.spare,
            store=location,
        )

    def player(self, one: Candidate, location: StoreLocation) -> arrivals.DayPlayer:
        return self._player(one, location)[0]

    def _player(self, one: Candidate, location: StoreLocation) -> tuple[arrivals.DayPlayer, Scenario]:
        from evaluator.evaluate import cost_of
        from sweepdb.restoring import scenario_with_operators

        scenario, operators = scenario_with_operators(location, one.scenario)
        return arrivals.DayPlayer(scenario, operators, cost_of(scenario), self.day, self.seed), scenario

    def simulation(self, one: Candidate, location: StoreLocation) -> _Simulation:
        player, scenario = self._player(one, location)
        if one.decode is None:
            return _Simulation(self, player.attained, player.requests)
        pair = arrivals.PairPlayer(player, self.player(one.decode, location), scenario)
        return _Simulation(self, pair.attained, player.requests)

    def simulated(self, one: Candidate, location: StoreLocation) -> Candidate:
        rates, scaling = self.day.rates_per_s, self.scaling
        first = [scaling.needed(arrivals.peaks(rates), side.goodput) for side in one.sides]
        try:
            needed = self._fewest(one, self.simulation(one, location), first)
        except arrivals.LimitsUnmetError as error:
            plans = " and ".join(short_plan(side.plan) for side in one.sides)
            raise InputError(
                f"no number of replicas of {plans} keeps the limits in hour {error.hour}",
                hint="longer limits, or a lower `attainment`",
            ) from error
        self._check_room(max(int(side.max()) for side in needed))
        done: list[Candidate] = [
            replace(
                side, scaled=scaled_by(rates, side.goodput, scaling, after), moved=tuple((after - before).tolist())
            )
            for side, before, after in zip(one.sides, first, needed, strict=True)
        ]  # fmt: skip
        return done[0] if one.decode is None else replace(done[0], decode=done[1])

    def _fewest(self, one: Candidate, day: _Simulation, first: Sequence[Integers]) -> tuple[Integers, ...]:
        """Of prefill instances the fewest that any decode instances help, and a few more where these save decode."""
        least = max(self.scaling.minimum, 1 + self.scaling.spare)
        if one.decode is None:
            return (arrivals.fewest_by_hour(day.missed, first[0], least),)
        ample = 2 * first[1] + 2
        prefill = arrivals.fewest_by_hour(lambda prompts: day.missed(prompts, ample), first[0], least)
        decode = arrivals.fewest_by_hour(lambda answers: day.missed(prefill, answers), first[1], least)
        best, sizes = (prefill, decode), (one.num_devices, one.decode.num_devices)
        for more in range(1, _MORE_PREFILL + 1):
            prompts = prefill + more
            answers = arrivals.fewest_by_hour(partial(day.missed, prompts), decode, least)
            cheaper = sizes[0] * prompts + sizes[1] * answers < sizes[0] * best[0] + sizes[1] * best[1]
            if not cheaper.any():
                break
            mixed = np.where(cheaper, prompts, best[0])
            best = (
                mixed,
                arrivals.fewest_by_hour(partial(day.missed, mixed), np.where(cheaper, answers, best[1]), least),
            )
        return best

    def _check_room(self, most: int) -> None:
        if self.scaling.maximum is not None and most > self.scaling.maximum:
            raise InputError(
                f"`maximum={self.scaling.maximum}` replicas are too few in a simulated day: {most} are needed",
                hint="raise `maximum`",
            )


@dataclass(frozen=True, slots=True)
class _Simulation:
    """A day's requests on the replicas of one side, or of two."""

    asked: AskedDay
    play: Callable[..., FloatArray]  # replicas of each side by minute, and limits
    requests: int

    def attained(self, *sides: arrivals.Scaled) -> FloatArray:
        """The share of each hour's requests within the limits, with the spare replicas lost."""
        spare = self.asked.scaling.spare
        return self.play(*(np.maximum(1, one.ready - spare) for one in sides), self.asked.limits)

    def missed(self, *needed: Integers) -> NDArray[np.bool_]:
        """Hours that miss the attainment with the replicas of a schedule."""
        asked = self.asked
        minutes = asked.day.rates_per_s.size
        return self.attained(*(arrivals.scheduled(one, asked.scaling, minutes) for one in needed)) < asked.attainment


def shares_of(attained: FloatArray) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(one) else one for one in attained.tolist())
