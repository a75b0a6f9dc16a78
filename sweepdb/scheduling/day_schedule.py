"""A day's schedule: each candidate's replicas by hour, what they take, and how many requests are within the limits.

Not here: finding it (sweepdb.scheduling.scheduled)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queries.asking import Framed
from store.location import StoreLocation

if TYPE_CHECKING:
    from evaluator.arrivals import Scaled


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
    moved: tuple[int, ...] | None = None  # replicas of each hour beyond those of its goodput; None: was not simulated

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

    candidates: tuple[Candidate, ...]
    rates_per_s: tuple[float, ...]  # of each minute
    peak_rates: tuple[float, ...]  # of each hour
    attained: dict[str, tuple[float | None, ...]]  # of the first candidate, by hour; None where nothing came
    attainment: float
    requests: int
    spare: int
    store: StoreLocation

    @property
    def added(self) -> int:
        """Replica-hours that the simulation asked for beyond what goodput says."""
        return sum(max(0, one) for one in self.candidates[0].moved or ())

    @property
    def removed(self) -> int:
        """Replica-hours of those that goodput asks for, and the simulation does not need."""
        return -sum(min(0, one) for one in self.candidates[0].moved or ())

    @property
    def kinds(self) -> tuple[str, ...]:
        """The ways to scale, of which the last are simulated for the first candidate alone."""
        return tuple(self.attained)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Candidate and hour, then replicas and shares of each way to scale."""
        return ("rank", "device", "plan", "scenario", "hour", "peak_rate", *(f"{kind}_replicas" for kind in self.kinds),
                *(f"{kind}_attained" for kind in self.kinds))  # fmt: skip

    @property
    def totals_columns(self) -> tuple[str, ...]:
        """Columns of `totals`."""
        return ("rank", "device", "plan", "num_devices", "simulated", *(f"{kind}_device_hours" for kind in self.kinds),
                *(f"{kind}_usd" for kind in self.kinds))  # fmt: skip

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:  # type: ignore[override]
        """Each candidate hour by hour."""
        return tuple(self._rows())

    def _rows(self) -> Iterator[tuple[object, ...]]:
        for rank, one in enumerate(self.candidates, start=1):
            replicas = [one.scaled[kind].of_hours() if kind in one.scaled else None for kind in self.kinds]
            for hour, peak in enumerate(self.peak_rates):
                counts = (None if many is None else int(many[hour]) for many in replicas)
                shares = (self.attained[kind][hour] if rank == 1 else None for kind in self.kinds)
                yield (rank, one.device, one.plan, one.scenario, hour, peak, *counts, *shares)

    def totals(self) -> Iterator[tuple[object, ...]]:
        """Device-hours and dollars of each candidate, by way to scale."""
        for rank, one in enumerate(self.candidates, start=1):
            hours = (one.device_hours(kind) if kind in one.scaled else None for kind in self.kinds)
            usd = (one.usd(kind) if kind in one.scaled else None for kind in self.kinds)
            yield (rank, one.device, one.plan, one.num_devices, one.moved is not None, *hours, *usd)

    def sentences(self) -> Iterator[str]:
        """The replicas to run, what they save, and how well each way keeps the limits."""
        best = self.candidates[0]
        counts = best.scaled["scheduled"].of_hours()
        static, hours = best.device_hours("static"), best.device_hours("scheduled")
        least, most = int(counts.min()), int(counts.max())
        yield (
            f"Run {replica_range(least, most)} of {best.plan} on {best.device} by hour:"
            f" {hours:,.1f} device-hours, {100 * (1 - hours / static):.0f} % below the {static:,.1f} of {most} all day."
        )
        if (usd := best.usd("scheduled")) is not None:
            yield f"That costs {usd:,.2f} USD; all day, {best.usd('static'):,.2f} USD."
        lost = f", {self.spare} of them lost all day" if self.spare else ""
        yield f"{self.requests:,} requests were simulated against those replicas{lost}."
        for kind in self.kinds:
            shares = [one for one in self.attained[kind] if one is not None]
            missed = sum(one < self.attainment for one in shares)
            yield (
                f"{kind.capitalize()}: in the worst hour {100 * math.floor(1000 * min(shares)) / 1000:.1f} % are within"
                f" the limits; {missed} of {len(shares)} hours miss {100 * self.attainment:g} %."
            )
        told = {"more": self.added, "fewer": self.removed}
        if any(told.values()):
            moved = " and ".join(f"{hours} {word}" for word, hours in told.items() if hours)
            yield f"Replica-hours that the simulation asks for beside those of the stored goodput: {moved}."

    def __repr__(self) -> str:
        """The first sentence."""
        return f"<Schedule: {next(self.sentences())}>"


def replica_range(least: int, most: int) -> str:
    """`1 replica`, `2 to 3 replicas`."""
    return f"{most if least == most else f'{least} to {most}'} {'replica' if most == 1 else 'replicas'}"
