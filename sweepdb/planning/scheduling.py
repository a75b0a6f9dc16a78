"""`schedule`: replicas by hour for a day's rate, from stored loads; the winner is played through.

Not here: the schedule itself (evaluator.arrivals.scaling), and playing (evaluator.arrivals.days)."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from queries.asking import Framed, question_of
from store.errors import InputError
from store.location import StoreLocation, parse_url
from sweepdb.planning.ranking import number_of
from sweepdb.sessions import open_session

if TYPE_CHECKING:
    from evaluator.arithmetic import FloatArray, Integers
    from evaluator.arrivals import DayPlayer, Scaled, Scaling, TimeLimits
    from evaluator.inputs import Day

_PLAYS = 24  # at most, each with a replica more in the hours that missed the limits
_MOST_CANDIDATES = 1_000
_UNITS_S = {"s": 1.0, "ms": 1e-3}
_KINDS = ("static", "scheduled", "reactive")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A deployment whose replicas carry the day: how many serve, by the way they are scaled."""

    device: str
    plan: str
    scenario: str
    num_devices: int
    goodput: float  # requests/s of a replica within the limits
    usd_per_device_hour: float | None
    scaled: dict[str, Scaled]

    def device_hours(self, kind: str) -> float:
        """Of the whole day, start-up among them."""
        return self.num_devices * self.scaled[kind].paid_minutes / 60

    def usd(self, kind: str) -> float | None:
        """Of the whole day; None without a price."""
        price = self.usd_per_device_hour
        return None if price is None else price * self.device_hours(kind)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DaySchedule(Framed):
    """Replicas by hour of every candidate, the one that takes least first; of that one the shares within the limits."""

    columns = ("rank", "device", "plan", "scenario", "hour", "peak_rate", *(f"{kind}_replicas" for kind in _KINDS),
               *(f"{kind}_attained" for kind in _KINDS))  # fmt: skip
    candidates: tuple[Candidate, ...]
    peak_rates: tuple[float, ...]  # of each hour
    attained: dict[str, tuple[float | None, ...]]  # of the first candidate, by hour; None where nothing came
    attainment: float
    requests: int
    spare: int
    added: int  # replicas, over all hours, that plays asked for beyond goodput
    store: StoreLocation

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:  # type: ignore[override]
        """Each candidate hour by hour."""
        return tuple(self._rows())

    def _rows(self) -> Iterator[tuple[object, ...]]:
        for rank, one in enumerate(self.candidates, start=1):
            replicas = [one.scaled[kind].of_hours() for kind in _KINDS]
            for hour, peak in enumerate(self.peak_rates):
                shares = (self.attained[kind][hour] if rank == 1 else None for kind in _KINDS)
                yield (rank, one.device, one.plan, one.scenario, hour, peak, *(int(n[hour]) for n in replicas), *shares)

    def totals(self) -> Iterator[tuple[object, ...]]:
        """Rank, device, plan, devices of a replica, then device-hours and dollars of each way to scale."""
        for rank, one in enumerate(self.candidates, start=1):
            hours = (one.device_hours(kind) for kind in _KINDS)
            yield (rank, one.device, one.plan, one.num_devices, *hours, *(one.usd(kind) for kind in _KINDS))

    def sentences(self) -> Iterator[str]:
        """The replicas to run, what they save, and how well each way keeps the limits."""
        best = self.candidates[0]
        counts = best.scaled["scheduled"].of_hours()
        static, hours = best.device_hours("static"), best.device_hours("scheduled")
        least, most = int(counts.min()), int(counts.max())
        yield (
            f"Run {_replicas(least, most)} of {best.plan} on {best.device} by hour:"
            f" {hours:,.1f} device-hours, {100 * (1 - hours / static):.0f} % below the {static:,.1f} of {most} all day."
        )
        if (usd := best.usd("scheduled")) is not None:
            yield f"That costs {usd:,.2f} USD; all day, {best.usd('static'):,.2f} USD."
        lost = f", {self.spare} of them lost all day" if self.spare else ""
        yield f"{self.requests:,} requests were simulated against those replicas{lost}."
        for kind in _KINDS:
            shares = [one for one in self.attained[kind] if one is not None]
            missed = sum(one < self.attainment for one in shares)
            yield (
                f"{kind.capitalize()}: in the worst hour {100 * math.floor(1000 * min(shares)) / 1000:.1f} % are within"
                f" the limits; {missed} of {len(shares)} hours miss {100 * self.attainment:g} %."
            )
        if self.added:
            yield f"Simulation asked for {self.added} replica-hours beyond what the stored goodput says."

    def __repr__(self) -> str:
        return f"<Schedule: {next(self.sentences())}>"


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
    trace_unit: str = "s",
    seed: int = 1,
    store: str | None = None,
) -> DaySchedule:
    """Replicas by hour for a CSV of `minute,rate` or a log of requests: the fewest device-hours within limits.

    Candidates are stored instances with loads that do both prefill and decode. Lengths are those of the log, else of
    their workload."""
    from evaluator.arrivals import Scaling, TimeLimits
    from evaluator.inputs import read_day

    _check(start_up=start_up, cool_down=cool_down, minimum=minimum, maximum=maximum, spare=spare, seed=seed)
    scaling = Scaling(start_up=start_up, cool_down=cool_down, minimum=minimum, maximum=maximum, spare=spare)
    if trace_unit not in _UNITS_S:
        raise InputError(f"`trace_unit={trace_unit}` is not one of {', '.join(_UNITS_S)}")
    day = read_day(Path(trace), log_seconds=_UNITS_S[trace_unit])
    limits = TimeLimits(ttft_ms=ttft_limit, tpot_ms=tpot_limit)
    scope = {"sweep": sweep, "model": model, "device": device, "attainment": attainment, "ttft_limit": ttft_limit,
             "tpot_limit": tpot_limit}  # fmt: skip
    found = _candidates(
        {name: value for name, value in scope.items() if value is not None}, day.rates_per_s, scaling, store
    )
    return _Asked(day, scaling, limits, attainment, seed).answered(found, parse_url(store))


def _check(**given: int | None) -> None:
    for keyword, value in given.items():
        least = 1 if keyword in {"minimum", "maximum"} else 0
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or not least <= value <= 10_080
        ):
            raise InputError(f"`{keyword}` must be a whole number from {least} to 10,080, not {value!r}")
    minimum, maximum = given["minimum"], given["maximum"]
    if minimum is not None and maximum is not None and maximum < minimum:
        raise InputError(f"`maximum={maximum}` is below `minimum={minimum}`", hint="raise it, or lower the minimum")


def _candidates(
    scope: dict[str, object], rates: FloatArray, scaling: Scaling, store: str | None
) -> list[Candidate]:  # fmt: skip
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
        scaled=_scaled(rates, goodput, scaling),
    )


def _scaled(rates: FloatArray, goodput: float, scaling: Scaling, more: Integers | None = None) -> dict[str, Scaled]:
    from evaluator.arrivals import peaks, reactive, scheduled, static

    needed = scaling.needed(peaks(rates), goodput)
    return {
        "static": static(needed if more is None else needed + more, scaling, rates.size),
        "scheduled": scheduled(needed if more is None else needed + more, scaling, rates.size),
        "reactive": reactive(rates, goodput, scaling),
    }


@dataclass(frozen=True, slots=True)
class _Asked:
    """A day that is asked about."""

    day: Day
    scaling: Scaling
    limits: TimeLimits
    attainment: float
    seed: int

    def answered(self, candidates: Sequence[Candidate], location: StoreLocation) -> DaySchedule:
        """The first candidate simulated, with replicas where its hours miss the limits, until it still comes first."""
        found, added = list(candidates), dict[str, int]()
        player, of = None, ""
        while player is None or found[0].scenario != of:
            best, of = found[0], found[0].scenario
            player = self._player(best, location)
            if of in added:
                break
            try:
                more = self._added(player, best)
            except InputError:
                if len(found) == 1:
                    raise
                del found[0]
                continue
            added[of] = int(more.sum())
            found[0] = replace(best, scaled=_scaled(self.day.rates_per_s, best.goodput, self.scaling, more))
            found.sort(key=_order(found))
        return self._told(found, player, added[of], location)

    def _told(
        self, candidates: Sequence[Candidate], player: DayPlayer, added: int, location: StoreLocation
    ) -> DaySchedule:
        from evaluator.arrivals import peaks

        scaled = candidates[0].scaled
        return DaySchedule(
            candidates=tuple(candidates),
            peak_rates=tuple(peaks(self.day.rates_per_s).tolist()),
            attained={kind: _shares(self._attained(player, scaled[kind])) for kind in _KINDS},
            attainment=self.attainment,
            requests=player.requests,
            spare=self.scaling.spare,
            added=added,
            store=location,
        )

    def _player(self, one: Candidate, location: StoreLocation) -> DayPlayer:
        from evaluator.arrivals import DayPlayer
        from evaluator.evaluate import cost_of
        from sweepdb.restoring import scenario_with_operators

        scenario, operators = scenario_with_operators(location, one.scenario)
        return DayPlayer(scenario, operators, cost_of(scenario), self.day, self.seed)

    def _attained(self, player: DayPlayer, scaled: Scaled) -> FloatArray:
        return player.attained(np.maximum(1, scaled.ready - self.scaling.spare), self.limits)

    def _added(self, player: DayPlayer, one: Candidate) -> Integers:
        """Replicas beyond goodput, by hour."""
        more = np.zeros(-(-self.day.rates_per_s.size // 60), dtype=np.int64)
        for _ in range(_PLAYS):
            scaled = _scaled(self.day.rates_per_s, one.goodput, self.scaling, more)
            missed = self._attained(player, scaled["scheduled"]) < self.attainment
            if not missed.any():
                return more
            more[missed] += 1
            self._check_room(one, more)
        raise InputError(
            f"no number of replicas of {one.plan} keeps the limits in hour {int(np.flatnonzero(missed)[0])}",
            hint="longer limits, or a lower `attainment`",
        )

    def _check_room(self, one: Candidate, more: Integers) -> None:
        most = int(_scaled(self.day.rates_per_s, one.goodput, self.scaling, more)["static"].ready.max())
        if self.scaling.maximum is not None and most > self.scaling.maximum:
            raise InputError(
                f"`maximum={self.scaling.maximum}` replicas are too few in a simulated day: {most} are needed",
                hint="raise `maximum`",
            )


def _replicas(least: int, most: int) -> str:
    return f"{most if least == most else f'{least} to {most}'} {'replica' if most == 1 else 'replicas'}"


def _shares(attained: FloatArray) -> tuple[float | None, ...]:
    return tuple(None if math.isnan(one) else one for one in attained.tolist())
