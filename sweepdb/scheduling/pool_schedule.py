"""A pool's day: replicas by hour, lost requests, attainment."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from queries.asking import Framed
from store.location import StoreLocation
from sweepdb.scheduling.day_schedule import Candidate, replica_range


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
            f"{len(self.models)} models run on {devices}: {self.device_hours:,.1f} device-hours;"
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
        runs = f"{one.model} runs {replica_range(min(one.replicas), max(one.replicas))} of {run.plan}{on}"
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
