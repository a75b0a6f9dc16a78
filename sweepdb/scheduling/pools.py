"""Models on one pool: needs from loads and simulation, solved by HiGHS, simulated."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from store.errors import InputError
from store.location import StoreLocation, parse_url
from sweepdb.planning.ranking import number_of
from sweepdb.scheduling.candidates import candidates_of
from sweepdb.scheduling.day_schedule import USUAL, Candidate
from sweepdb.scheduling.pool_program import Allotted, Choice, Pool, allotted
from sweepdb.scheduling.pool_schedule import Pooled, PoolSchedule
from sweepdb.scheduling.scheduled import AskedDay, check_counts, day_of, shares_of

if TYPE_CHECKING:
    from evaluator.arithmetic import FloatArray, Integers
    from evaluator.inputs import Day

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
    from evaluator.arrivals import Scaling, TimeLimits

    kinds = {} if isinstance(pool, int) else {_known_device(name): count for name, count in pool.items()}
    for count in [pool] if isinstance(pool, int) else pool.values():
        check_counts(start_up=start_up, seed=seed, pool=count, minimum=minimum)
    if kinds and device is not None:
        raise InputError("`pool` names its devices already", hint="leave out `device`")
    if not traces:
        raise InputError("no trace is given", hint="`trace=MODEL=FILE` for each model")
    scope = _given(sweep=sweep, device=device, attainment=attainment, ttft_limit=ttft_limit, tpot_limit=tpot_limit)
    scaling, limits = Scaling(start_up=0, cool_down=0), TimeLimits(ttft_ms=ttft_limit, tpot_ms=tpot_limit)
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


def _minutes_of_hours(days: Iterable[Day]) -> Integers:
    longest = max(day.rates_per_s.size for day in days)
    return np.diff(np.append(np.arange(0, longest, _HOUR), longest))


def _known_device(name: str) -> str:
    """As rows name it; a store's own stays."""
    from evaluator.inputs import resolve

    try:
        return resolve(name)
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
    def day(self) -> Day:
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
        from evaluator.arrivals import peaks

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
            peak_rates=tuple(self._whole(peaks(rates)).tolist()),
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
