"""A day's schedule: each candidate's replicas by hour, what they take, and how many requests are within the limits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from evaluator import arrivals
from queries.asking import Framed
from store.location import StoreLocation
from store.schema import short_plan


class Usual(NamedTuple):
    """Minutes, replicas, and attainment."""

    attainment: float = 0.95
    start_up: int = 5
    cool_down: int = 10
    minimum: int = 1
    spare: int = 0
    trace_unit: str = "s"
    seed: int = 1


USUAL = Usual()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidate:
    """A deployment whose replicas carry the day: how many serve, by the way they are scaled.

    Where serving is disaggregated, it is the prefill instance, with the decode instance beside it."""

    device: str
    plan: str
    scenario: str
    num_devices: int
    goodput: float  # requests/s of a replica within the limits
    usd_per_device_hour: float | None
    scaled: dict[str, arrivals.Scaled]
    moved: tuple[int, ...] | None = None  # replicas of each hour beyond those of its goodput; None: was not simulated
    decode: Candidate | None = None

    @property
    def sides(self) -> tuple[Candidate, ...]:
        return (self,) if self.decode is None else (self, self.decode)

    @property
    def roles(self) -> tuple[str, ...]:
        return ("aggregated",) if self.decode is None else ("prefill", "decode")

    @property
    def place(self) -> str:
        """The scenarios of its sides: no other candidate has them."""
        return " ".join(one.scenario for one in self.sides)

    def device_hours(self, kind: str) -> float:
        return sum(one.num_devices * one.scaled[kind].paid_minutes for one in self.sides) / 60

    def usd(self, kind: str) -> float | None:
        price = self.usd_per_device_hour
        return None if price is None else price * self.device_hours(kind)

    def runs(self, kind: str) -> str:
        """The replicas of each side by hour, in words."""
        found = []
        for role, one in zip(self.roles, self.sides, strict=True):
            counts = one.scaled[kind].of_hours()
            named = "" if self.decode is None else f"{role} "
            found.append(f"{replica_range(int(counts.min()), int(counts.max()), named)} of {short_plan(one.plan)}")
        return " and ".join(found)


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
        return sum(max(0, one) for one in self._moved)

    @property
    def removed(self) -> int:
        """Replica-hours of those that goodput asks for, and the simulation does not need."""
        return -sum(min(0, one) for one in self._moved)

    @property
    def _moved(self) -> list[int]:
        return [hours for one in self.candidates[0].sides for hours in one.moved or ()]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self.attained)

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        """Candidate and hour, then replicas and shares of each way to scale."""
        return ("rank", "role", "device", "plan", "scenario", "hour", "peak_rate",
                *(f"{kind}_replicas" for kind in self.kinds), *(f"{kind}_attained" for kind in self.kinds))  # fmt: skip

    @property
    def totals_columns(self) -> tuple[str, ...]:
        return ("rank", "device", "plan", "num_devices", "simulated", *(f"{kind}_device_hours" for kind in self.kinds),
                *(f"{kind}_usd" for kind in self.kinds))  # fmt: skip

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:  # type: ignore[override]
        return tuple(self._rows())

    def _rows(self) -> Iterator[tuple[object, ...]]:
        for rank, candidate in enumerate(self.candidates, start=1):
            for role, one in zip(candidate.roles, candidate.sides, strict=True):
                replicas = [one.scaled[kind].of_hours() if kind in one.scaled else None for kind in self.kinds]
                for hour, peak in enumerate(self.peak_rates):
                    counts = (None if many is None else int(many[hour]) for many in replicas)
                    shares = (self.attained[kind][hour] if rank == 1 else None for kind in self.kinds)
                    yield (rank, role, one.device, one.plan, one.scenario, hour, peak, *counts, *shares)

    def totals(self) -> Iterator[tuple[object, ...]]:
        """Device-hours and dollars of each candidate, by way to scale."""
        for rank, one in enumerate(self.candidates, start=1):
            hours = (one.device_hours(kind) if kind in one.scaled else None for kind in self.kinds)
            usd = (one.usd(kind) if kind in one.scaled else None for kind in self.kinds)
            plans = " + ".join(short_plan(side.plan) for side in one.sides)
            devices = " + ".join(str(side.num_devices) for side in one.sides) if one.decode else one.num_devices
            yield (rank, one.device, plans, devices, one.moved is not None, *hours, *usd)

    def sentences(self) -> Iterator[str]:
        """The replicas to run, what they save, and how well each way keeps the limits."""
        best = self.candidates[0]
        static, hours = best.device_hours("static"), best.device_hours("scheduled")
        runs = f"{best.runs('scheduled')} on {best.device}"
        if hours < static:
            most = " and ".join(str(int(one.scaled["static"].ready[0])) for one in best.sides)
            saved = f"{100 * (1 - hours / static):.0f} % below the {static:,.1f} of {most} all day"
            yield f"Run {runs} by hour: {hours:,.1f} device-hours, {saved}."
        else:
            yield f"Run {runs} all day: {hours:,.1f} device-hours; fewer in some hours would save none."
        if (usd := best.usd("scheduled")) is not None:
            yield f"That costs {usd:,.2f} USD; all day, {best.usd('static'):,.2f} USD."
        side = " on each side" if best.decode else ""
        lost = f", {self.spare} of them lost all day{side}" if self.spare else ""
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
        return f"<Schedule: {next(self.sentences())}>"


def replica_range(least: int, most: int, named: str = "") -> str:
    return f"{most if least == most else f'{least} to {most}'} {named}{'replica' if most == 1 else 'replicas'}"
