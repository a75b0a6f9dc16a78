"""Models on one pool: needs from loads and simulation, solved by HiGHS, simulated; its day in the answer."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evaluator import arrivals, inputs
from queries.asking import Framed
from store.errors import InputError
from store.location import StoreLocation, parse_url
from store.schema import short_plan
from store.texts import counted
from sweepdb.planning.ranking import number_of
from sweepdb.scheduling.day_schedule import USUAL, Candidate, replica_range
from sweepdb.scheduling.pool_program import Allotted, Choice, Pool, allotted
from sweepdb.scheduling.scheduled import AskedDay, candidates_of, check_counts, day_of, shares_of

if TYPE_CHECKING:
    from evaluator.arithmetic import FloatArray, Integers


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pooled:
    """Shares are of all requests, lost ones too."""

    model: str
    deployment: Candidate
    requests: int
    peak_rates: tuple[float, ...]
    needed: tuple[int, ...]
    replicas: tuple[int, ...]
    lost: tuple[float, ...]  # requests that are turned away
    device_hours: float  # start-up among them
    attained: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PoolSchedule(Framed):
    """Models and devices by hour."""

    columns = ("model", "device", "plan", "scenario", "hour", "peak_rate", "needed_replicas", "replicas", "devices",
               "lost_requests", "attained")  # fmt: skip
    models: tuple[Pooled, ...]
    pool: Mapping[str, int]  # devices by kind
    attainment: float
    proven: bool  # whether no other answer loses or takes less
    store: StoreLocation

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:  # type: ignore[override]
        return tuple(self._rows())

    def _rows(self) -> Iterator[tuple[object, ...]]:
        for one in self.models:
            run = one.deployment
            by_hour = zip(one.peak_rates, one.needed, one.replicas, one.lost, one.attained, strict=True)
            for hour, (peak, needed, replicas, lost, attained) in enumerate(by_hour):
                counts = (needed, replicas, replicas * run.num_devices)
                yield (one.model, run.device, run.plan, run.scenario, hour, peak, *counts, round(lost, 1), attained)

    @property
    def device_hours(self) -> float:
        return sum(one.device_hours for one in self.models)

    @property
    def usd(self) -> float | None:
        """Of the day; None without all prices."""
        paid = [(one.device_hours, one.deployment.usd_per_device_hour) for one in self.models]
        return None if any(price is None for _, price in paid) else sum(hours * (price or 0.0) for hours, price in paid)

    @property
    def device_hours_apart(self) -> float:
        """If each model kept its busiest hour's need all day."""
        return sum(
            one.deployment.num_devices * max(one.needed) * len(one.needed) for one in self.models
        )  # fmt: skip

    def sentences(self) -> Iterator[str]:
        """Devices in use, lost requests, attainment."""
        devices = " and ".join(f"{count} {kind}" for kind, count in self.pool.items())
        yield (
            f"{counted(len(self.models), 'model')} on {devices}: {self.device_hours:,.1f} device-hours;"
            f" what each model's busiest hour needs, all day, would be {self.device_hours_apart:,.1f}."
        )
        if self.usd is not None:
            yield f"That costs {self.usd:,.2f} USD."
        lost, came = sum(sum(one.lost) for one in self.models), sum(one.requests for one in self.models)
        if lost >= 1:
            hours = len({hour for one in self.models for hour, many in enumerate(one.lost) if many >= 1})
            too_small = f"{hours} {'hour' if hours == 1 else 'hours'}"
            yield (
                f"The pool is too small in {too_small}: {lost:,.0f} of {came:,} requests are turned away there, as few"
                " as can be."
            )
        yield f"{came:,} requests were simulated against those replicas."
        yield from map(self._model_sentence, self.models)
        if not self.proven:
            yield "HiGHS stopped after a minute: there may be a better answer."

    def _model_sentence(self, one: Pooled) -> str:
        shares = [share for share, lost in zip(one.attained, one.lost, strict=True) if share is not None and lost < 1]
        run = one.deployment
        on = f" on {run.device}" if len(self.pool) > 1 else ""
        runs = f"{one.model} runs {replica_range(min(one.replicas), max(one.replicas))} of {short_plan(run.plan)}{on}"
        if not shares:
            return f"{runs}, and turns requests away in every hour."
        missed = sum(share < self.attainment for share in shares)
        worst = 100 * math.floor(1000 * min(shares)) / 1000
        return (
            f"{runs}: where none is turned away, {worst:.1f} % are within the limits in the worst hour;"
            f" {missed} of {len(shares)} hours miss {100 * self.attainment:g} %."
        )

    def __repr__(self) -> str:
        return f"<PoolSchedule: {next(self.sentences())}>"


_CHOICES = 6  # deployments of a model that the program chooses among
_HOUR = 60


def schedule_pool(
    traces: Mapping[str, str | os.PathLike[str]],
    *,
    pool: int | Mapping[str, int],
    ttft_limit: float,
    tpot_limit: float,
    attainment: float = USUAL.attainment,
    sweep: str | None = None,
    device: str | None = None,
    start_up: int = USUAL.start_up,
    minimum: int = USUAL.minimum,
    trace_unit: str = USUAL.trace_unit,
    seed: int = USUAL.seed,
    store: str | None = None,
) -> PoolSchedule:
    """Replicas of several models by hour on a pool of devices: fewest requests lost, then the cheapest, by prices where
    all devices have one, else by device-hours.

    `traces` has each model's day, and `pool` the devices, by kind where there are several. A model runs one deployment
    all day; with `minimum=0` none where no requests come. Needs HiGHS (`pip install sweepdb[pool]`)."""
    kinds = {} if isinstance(pool, int) else {_known_device(name): count for name, count in pool.items()}
    for count in [pool] if isinstance(pool, int) else pool.values():
        check_counts(start_up=start_up, seed=seed, pool=count, minimum=minimum)
    if kinds and device is not None:
        raise InputError("`pool` names its devices already", hint="leave out `device`")
    if not traces:
        raise InputError("no trace is given", hint="`trace=MODEL=FILE` for each model")
    scope = _given(sweep=sweep, device=device, attainment=attainment, ttft_limit=ttft_limit, tpot_limit=tpot_limit)
    scaling, limits = (
        arrivals.Scaling(start_up=0, cool_down=0),
        arrivals.TimeLimits(ttft_ms=ttft_limit, tpot_ms=tpot_limit),
    )
    days = {model: day_of(trace, trace_unit) for model, trace in traces.items()}
    hours = max(-(-day.rates_per_s.size // _HOUR) for day in days.values())
    models = [
        _Model(
            name=model,
            asked=AskedDay(day, scaling, limits, attainment, seed),
            hours=hours,
            candidates=_fitting(
                candidates_of({**scope, "model": model}, day.rates_per_s, scaling, store, apart=False), kinds or pool
            ),
            minimum=minimum,
        )
        for model, day in days.items()
    ]
    devices = kinds or {_only_device(models): pool if isinstance(pool, int) else 0}
    minutes, location = _minutes_of_hours(days.values()), parse_url(store)
    found = _solved(models, Pool(devices=devices, minutes=minutes, start_up=start_up, minimum=minimum), location)
    return PoolSchedule(
        models=tuple(one.told(found, place, location, minutes, start_up) for place, one in enumerate(models)),
        pool=devices,
        attainment=attainment,
        proven=found.proven,
        store=location,
    )


def _given(**scope: object) -> dict[str, object]:
    return {name: value for name, value in scope.items() if value is not None}


def _minutes_of_hours(days: Iterable[inputs.Day]) -> Integers:
    longest = max(day.rates_per_s.size for day in days)
    return np.diff(np.append(np.arange(0, longest, _HOUR), longest))


def _known_device(name: str) -> str:
    """As rows name it; a store's own stays."""
    try:
        return inputs.resolve(name)
    except InputError:
        return name


def _fitting(candidates: list[Candidate], pool: int | Mapping[str, int]) -> list[Candidate]:
    room = {one.device: pool if isinstance(pool, int) else pool.get(one.device, 0) for one in candidates}
    if not any(room.values()):
        raise InputError(
            f"no stored loads are of {' or '.join({} if isinstance(pool, int) else pool)}",
            hint=f"`pool` of {', '.join(sorted(room))}",
        )
    fitting = [one for one in candidates if one.num_devices <= room[one.device]]
    if not fitting:
        least = min(one.num_devices for one in candidates if room[one.device])
        most = max(room.values())
        raise InputError(f"`pool={most}` devices are too few: one replica takes {least}", hint="raise `pool`")
    taken = Counter[str]()
    kept = []
    for one in fitting:
        taken[one.device] += 1
        kept += [one] if taken[one.device] <= _CHOICES else []
    return kept


def _only_device(models: list[_Model]) -> str:
    devices = sorted({one.device for model in models for one in model.candidates})
    if len(devices) > 1:
        raise InputError(
            f"the stored loads are of {', '.join(devices)}",
            hint=f"name one by `device`, or how many there are of each: `pool={devices[0]}=8,{devices[1]}=16`",
        )
    return devices[0]


@dataclass(slots=True, kw_only=True, eq=False)
class _Model:
    """With its day, and what is known so far."""

    name: str
    asked: AskedDay
    hours: int
    candidates: list[Candidate]
    minimum: int
    simulated: set[str] = field(default_factory=set)

    @property
    def day(self) -> inputs.Day:
        return self.asked.day

    @property
    def requests(self) -> FloatArray:
        rates = self.day.rates_per_s
        return np.asarray(self._whole(60 * np.add.reduceat(rates, np.arange(0, rates.size, _HOUR))))

    def choices(self, *, by_money: bool) -> list[Choice]:
        return [
            Choice(
                device=one.device,
                num_devices=one.num_devices,
                needed=self.needed(one),
                cost=number_of(one.usd_per_device_hour) if by_money else 1.0,
            )
            for one in self.candidates
        ]

    def needed(self, one: Candidate) -> Integers:
        counts = self._whole(one.scaled["scheduled"].of_hours())
        return np.where(self.requests > 0, counts, self.minimum)

    def _whole(self, values: NDArray[Any]) -> NDArray[Any]:
        return np.pad(values, (0, self.hours - values.size))

    def simulate(self, place: int, location: StoreLocation) -> None:
        """Simulated needs replace goodput's; drops a candidate that cannot do."""
        one = self.candidates[place]
        try:
            self.candidates[place] = self.asked.simulated(one, location)
            self.simulated.add(one.scenario)
        except InputError:
            if len(self.candidates) == 1:
                raise
            del self.candidates[place]

    def told(self, found: Allotted, place: int, location: StoreLocation, minutes: Integers, start_up: int) -> Pooled:
        one, replicas, lost = self.candidates[found.chosen[place]], found.replicas[place], found.lost[place]
        rates = self.day.rates_per_s
        started = np.maximum(0, np.diff(replicas, prepend=0))
        admitted = 1.0 - lost / np.maximum(self.requests, 1e-9)
        serving = np.repeat(np.maximum(1, replicas), _HOUR)[: rates.size]
        player = self.asked.player(one, location)
        hours = -(-rates.size // _HOUR)
        attained = shares_of(player.attained(serving, self.asked.limits, admitted))
        return Pooled(
            model=self.name,
            deployment=one,
            requests=player.requests,
            peak_rates=tuple(self._whole(arrivals.peaks(rates)).tolist()),
            needed=tuple(self.needed(one).tolist()),
            replicas=tuple(replicas.tolist()),
            lost=tuple(lost.tolist()),
            device_hours=one.num_devices * float(minutes @ replicas + start_up * started.sum()) / 60,
            attained=(*attained, *(None for _ in range(self.hours - hours))),
        )


def _solved(models: list[_Model], pool: Pool, location: StoreLocation) -> Allotted:
    """Again while it chooses an unsimulated deployment."""
    priced = all(one.usd_per_device_hour is not None for model in models for one in model.candidates)
    by_money = priced and len(pool.devices) > 1
    while True:
        found = allotted([(one.choices(by_money=by_money), one.requests) for one in models], pool)
        if found is None:
            there = " and ".join(map(str, pool.devices.values()))
            least = sum(pool.minimum * min(each.num_devices for each in one.candidates) for one in models)
            raise InputError(
                f"`pool={there}` devices are too few: {pool.minimum} replica of each model takes {least}",
                hint="raise `pool`, or `minimum=0`",
            )
        unknown = [
            (one, place)
            for one, place in zip(models, found.chosen, strict=True)
            if one.candidates[place].scenario not in one.simulated
        ]
        if not unknown:
            return found
        for one, place in unknown:
            one.simulate(place, location)
