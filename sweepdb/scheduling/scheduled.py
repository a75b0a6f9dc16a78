"""`schedule`: replicas by hour for a day's rate, from stored loads; the winner is played through.

Not here: the schedule itself (evaluator.arrivals.day.scaling), and playing (evaluator.arrivals.day.days)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from queries.asking import question_of
from store.errors import InputError
from store.location import StoreLocation, parse_url
from sweepdb.planning.ranking import number_of
from sweepdb.scheduling.day_schedule import Candidate, DaySchedule
from sweepdb.sessions import open_session

if TYPE_CHECKING:
    from evaluator.arithmetic import FloatArray, Integers
    from evaluator.arrivals import DayPlayer, QueueTarget, Scaled, Scaling, TimeLimits
    from evaluator.inputs import Day

_SIMULATED, _MOST_SIMULATED = 3, 8  # candidates: the first ones, and until one of them stays first
_MOST_CANDIDATES = 1_000
_UNITS_S = {"s": 1.0, "ms": 1e-3}


def schedule(
    trace: str | os.PathLike[str],
    *,
    ttft_limit: float,
    tpot_limit: float,
    attainment: float = 0.95,
    sweep: str | None = None,
    model: str | None = None,
    device: str | None = None,
    start_up: int = 5,
    cool_down: int = 10,
    minimum: int = 1,
    maximum: int | None = None,
    spare: int = 0,
    reactive: str | None = None,
    trace_unit: str = "s",
    seed: int = 1,
    store: str | None = None,
) -> DaySchedule:
    """Replicas by hour for a CSV of `minute,rate` or a log of requests: the fewest device-hours within limits.

    Candidates are stored instances with loads that do both prefill and decode. Lengths are those of the log, else of
    their workload. `reactive="queue=5"` adds a planner that aims at 5 waiting requests to a replica, `"ongoing=40"` one
    at 40 that wait or run."""
    from evaluator.arrivals import Scaling, TimeLimits

    check_counts(start_up=start_up, cool_down=cool_down, minimum=minimum, maximum=maximum, spare=spare, seed=seed)
    scaling = Scaling(start_up=start_up, cool_down=cool_down, minimum=minimum, maximum=maximum, spare=spare)
    target = None if reactive is None else _target(reactive)
    day = day_of(trace, trace_unit)
    limits = TimeLimits(ttft_ms=ttft_limit, tpot_ms=tpot_limit)
    scope = {"sweep": sweep, "model": model, "device": device, "attainment": attainment, "ttft_limit": ttft_limit,
             "tpot_limit": tpot_limit}  # fmt: skip
    found = candidates_of(
        {name: value for name, value in scope.items() if value is not None}, day.rates_per_s, scaling, store
    )
    return AskedDay(day, scaling, limits, attainment, seed, target).answered(found, parse_url(store))


def day_of(trace: str | os.PathLike[str], trace_unit: str) -> Day:
    """The day of a file, whose log counts time in this unit."""
    from evaluator.inputs import read_day

    if trace_unit not in _UNITS_S:
        raise InputError(f"`trace_unit={trace_unit}` is not one of {', '.join(_UNITS_S)}")
    return read_day(Path(trace), log_seconds=_UNITS_S[trace_unit])


def check_counts(**given: int | None) -> None:
    """Refuse what is no count of minutes or of replicas."""
    for keyword, value in given.items():
        least = 1 if keyword in {"maximum", "pool"} or (keyword == "minimum" and "pool" not in given) else 0
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10_080
        ):
            raise InputError(f"`{keyword}` must be a whole number from {least} to 10,080, not {value!r}")
    minimum, maximum = given["minimum"], given.get("maximum")
    if minimum is not None and maximum is not None and maximum < minimum:
        raise InputError(f"`maximum={maximum}` is below `minimum={minimum}`", hint="raise it, or lower the minimum")


def _target(reactive: str) -> QueueTarget:
    """`queue=5`, `ongoing=40`: what a planner counts, and how many of them it aims at to a replica."""
    from evaluator.arrivals import QueueTarget

    counted, _, number = reactive.partition("=")
    try:
        per_replica = float(number)
    except ValueError:
        per_replica = math.nan
    if 0 < per_replica < math.inf:
        if counted == "queue":
            return QueueTarget(counted="queue", per_replica=per_replica)
        if counted == "ongoing":
            return QueueTarget(counted="ongoing", per_replica=per_replica)
    raise InputError(
        f"`reactive={reactive[:100]}` is no count of requests to a replica",
        hint="`reactive=queue=5` for those that wait, `reactive=ongoing=40` for those that wait or run",
    )


def candidates_of(
    scope: dict[str, object], rates: FloatArray, scaling: Scaling, store: str | None
) -> list[Candidate]:  # fmt: skip
    """Stored instances that keep the limits, with the replicas that carry these rates; the cheapest first."""
    asked = question_of("capacity", {**scope, "rate": float(rates.max()), "top": _MOST_CANDIDATES})
    with open_session(store) as session:
        answer = session.ask(asked)
    rows = [row for row in answer.dicts() if row["mode"] == "aggregated"]
    if not rows:
        raise InputError(
            "no stored instance keeps the limits at any rate",
            hint="longer limits, or store loads: sweepdb evaluate ... `arrivals=poisson`",
        )
    if len({row["question_group"] for row in rows}) > 1:
        raise InputError("the store holds several models or workloads", hint="name one: `sweep`, `model` or `device`")
    found = [_candidate(row, rates, scaling) for row in rows]
    most = scaling.maximum
    carrying = [one for one in found if most is None or one.scaled["static"].ready.max() <= most]
    if not carrying:
        least = min(int(one.scaled["static"].ready.max()) for one in found)
        raise InputError(
            f"`maximum={most}` replicas are too few: the busiest hour needs {least}", hint="raise `maximum`"
        )
    return sorted(carrying, key=_order(carrying))


def _order(candidates: Sequence[Candidate]) -> Callable[[Candidate], tuple[float, float, str]]:
    by_money = all(one.usd_per_device_hour is not None for one in candidates)

    def key(one: Candidate) -> tuple[float, float, str]:
        hours = one.device_hours("scheduled")
        return (number_of(one.usd("scheduled")) if by_money else hours, hours, one.scenario)

    return key


def _candidate(row: dict[str, object], rates: FloatArray, scaling: Scaling) -> Candidate:
    from evaluator.arrivals import peaks

    bought = number_of(row["devices_with_margin"], number_of(row["devices"]))
    price = row["usd_per_hour"]
    goodput = number_of(row["goodput_per_instance"])
    return Candidate(
        device=str(row["device"]),
        plan=str(row["plan"]),
        scenario=str(row["scenario"]),
        num_devices=int(number_of(row["num_devices"])),
        goodput=goodput,
        usd_per_device_hour=None if price is None else number_of(price) / bought,
        scaled=_scaled(rates, goodput, scaling, scaling.needed(peaks(rates), goodput)),
    )


def _scaled(rates: FloatArray, goodput: float, scaling: Scaling, needed: Integers) -> dict[str, Scaled]:
    from evaluator.arrivals import reactive, scheduled, static

    return {
        "static": static(needed, scaling, rates.size),
        "scheduled": scheduled(needed, scaling, rates.size),
        "reactive": reactive(rates, goodput, scaling),
    }


@dataclass(frozen=True, slots=True)
class AskedDay:
    """A day that is asked about: its requests, and what is wanted of replicas."""

    day: Day
    scaling: Scaling
    limits: TimeLimits
    attainment: float
    seed: int
    target: QueueTarget | None = None

    def answered(self, candidates: Sequence[Candidate], location: StoreLocation) -> DaySchedule:
        """The first candidates simulated, and others for as long as one of them comes first."""
        order, found, done = _order(candidates), list(candidates), dict[str, Candidate]()
        while len(done) < _MOST_SIMULATED:
            waiting = [one for one in found[: 1 if len(done) >= _SIMULATED else _SIMULATED] if one.scenario not in done]
            if not waiting:
                break
            place = found.index(waiting[0])
            try:
                found[place] = done[waiting[0].scenario] = self.simulated(waiting[0], location)
            except InputError:
                if len(found) == 1:
                    raise
                del found[place]
            found.sort(key=order)
        found.sort(key=lambda one: (one.scenario not in done, order(one)))
        return self._told(found, location)

    def _told(self, candidates: Sequence[Candidate], location: StoreLocation) -> DaySchedule:
        from evaluator.arrivals import peaks

        best = candidates[0]
        player = self.player(best, location)
        attained = {kind: self._attained(player, one) for kind, one in best.scaled.items()}
        if (target := self.target) is not None:
            started = int(best.scaled["reactive"].ready[0])
            followed, attained[target.counted] = player.followed(target, self.scaling, started, self.limits)
            best = replace(best, scaled={**best.scaled, target.counted: followed})
        return DaySchedule(
            candidates=(best, *candidates[1:]),
            rates_per_s=tuple(self.day.rates_per_s.tolist()),
            peak_rates=tuple(peaks(self.day.rates_per_s).tolist()),
            attained={kind: shares_of(one) for kind, one in attained.items()},
            attainment=self.attainment,
            requests=player.requests,
            spare=self.scaling.spare,
            store=location,
        )

    def player(self, one: Candidate, location: StoreLocation) -> DayPlayer:
        """The day's requests for a candidate."""
        from evaluator.arrivals import DayPlayer
        from evaluator.evaluate import cost_of
        from sweepdb.restoring import scenario_with_operators

        scenario, operators = scenario_with_operators(location, one.scenario)
        return DayPlayer(scenario, operators, cost_of(scenario), self.day, self.seed)

    def _attained(self, player: DayPlayer, scaled: Scaled) -> FloatArray:
        return player.attained(np.maximum(1, scaled.ready - self.scaling.spare), self.limits)

    def simulated(self, one: Candidate, location: StoreLocation) -> Candidate:
        """The candidate with the fewest replicas whose hours keep the limits in a simulated day."""
        from evaluator.arrivals import LimitsUnmetError, fewest_by_hour, peaks, scheduled

        rates, scaling, player = self.day.rates_per_s, self.scaling, self.player(one, location)

        def missed(needed: Integers) -> NDArray[np.bool_]:
            return self._attained(player, scheduled(needed, scaling, rates.size)) < self.attainment

        first = scaling.needed(peaks(rates), one.goodput)
        try:
            needed = fewest_by_hour(missed, first, max(scaling.minimum, 1 + scaling.spare))
        except LimitsUnmetError as error:
            raise InputError(
                f"no number of replicas of {one.plan} keeps the limits in hour {error.hour}",
                hint="longer limits, or a lower `attainment`",
            ) from error
        self._check_room(int(needed.max()))
        moved = tuple((needed - first).tolist())
        return replace(one, scaled=_scaled(rates, one.goodput, scaling, needed), moved=moved)

    def _check_room(self, most: int) -> None:
        if self.scaling.maximum is not None and most > self.scaling.maximum:
            raise InputError(
                f"`maximum={self.scaling.maximum}` replicas are too few in a simulated day: {most} are needed",
                hint="raise `maximum`",
            )


def shares_of(attained: FloatArray) -> tuple[float | None, ...]:
    """Shares, None where no request came."""
    return tuple(None if math.isnan(one) else one for one in attained.tolist())
