"""Draws of what every setting would measure, and what it brings there.

Larger is better: requests/s of a budget, or one over the devices (or money) that carry the load.
In each drawn world a start brings its best setting's gain over the best measured one; its worth is the average."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from queries.asking import Limits, PairOptions
from queries.judging import MEASURED, PREDICTED, near_runs
from queries.learning import Posterior, Process
from sweepdb.deciding.pairs import PairsInWorlds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from queries.learning import Disagreement, Prior
    from queries.learning import Setting as Located
    from sweepdb.deciding.settings import Setting
    from sweepdb.deciding.stored import OwnRun, Teaching

    Floats = NDArray[np.float64]


BELIEVED = 0.6  # probability from which on a setting that nobody measured is an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    starts: NDArray[np.int64]  # the server that each is a load of
    worth: NDArray[np.float64]
    measured: NDArray[np.float64]  # what it brought in a run; 0 where that missed a limit, NaN where none was made
    believed: float = BELIEVED

    @property
    def holds(self) -> NDArray[np.float64]:
        found: NDArray[np.float64] = (self.worth > 0.0).mean(axis=0)
        return found

    @property
    def best_measured(self) -> int | None:
        kept = np.nan_to_num(self.measured)
        return int(kept.argmax()) if kept.size and kept.max() > 0.0 else None

    @property
    def chosen(self) -> int | None:
        """The best measured, else the most promising that is believed to hold."""
        if (best := self.best_measured) is not None:
            return best
        return self.promising(np.arange(len(self.worth)))

    def promising(self, worlds: NDArray[np.int64]) -> int | None:
        worth = self.worth[worlds]
        believed = ((worth > 0.0).mean(axis=0) >= self.believed) & np.isnan(self.measured)
        expected = np.where(believed, worth.mean(axis=0), 0.0)
        return int(expected.argmax()) if believed.any() else None

    def first_starts(self, count: int) -> Iterator[tuple[int, float]]:
        """With gains, the best first, each on top of those before."""
        reached = self._reached()
        tried = set[int]()
        for _ in range(count):
            gains = {start: float((np.maximum(reached, best) - reached).mean())
                     for start, best in self._bests() if start not in tried}  # fmt: skip
            if not gains:
                return
            start = max(gains, key=lambda one: (gains[one], -one))
            yield start, gains[start]
            tried.add(start)
            reached = np.maximum(reached, self.of_start(start))

    def ladder(self, start: int, most: int) -> list[int]:
        """Worth a run, the best first."""
        left = [int(place) for place in np.flatnonzero((self.starts == start) & np.isnan(self.measured))]
        reached, found = self._reached(), list[int]()
        while left and len(found) < most:
            gains = [float((np.maximum(reached, self.worth[:, place]) - reached).mean()) for place in left]
            if found and max(gains) <= 0.0:
                break
            found.append(left.pop(int(np.argmax(gains))))
            reached = np.maximum(reached, self.worth[:, found[-1]])
        return found

    def of_start(self, start: int) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.worth[:, (self.starts == start) & np.isnan(self.measured)].max(
            axis=1, initial=0.0
        )
        return found

    def _reached(self) -> NDArray[np.float64]:
        return np.full(len(self.worth), np.nan_to_num(self.measured).max(initial=0.0))

    def _bests(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        for start in np.unique(self.starts[np.isnan(self.measured)]):
            yield int(start), self.of_start(int(start))


METRICS = ("ttft_ms", "tpot_ms")
_DRAWS, _SEED = 1_000, 2026
_GLANCES = 200  # draws by which candidates are found: one that keeps the limits in none of them is none
_FOUR_OF_FIVE = 1.2815515655446004  # standard deviations to either side
_MOST = 250  # settings that are drawn together
_FEW_GLANCES, _MOST_GLANCED = 12, 1_500
_LEAST_RATE = 1e-9  # requests/s of what carries none within the limits
_TIE = 1e-3  # of what more requests/s are worth where the devices are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Limits, and the load to carry."""

    limits: Limits
    pairs: PairOptions
    prices: Mapping[str, float]  # of an hour of each device that has one
    tpot_rule: str
    believed: float  # probability from which on a limit counts as kept
    carried: Mapping[str, float] = field(
        default_factory=dict
    )  # requests/s of an instance when they arrive, by scenario

    def instances(self, one: Setting) -> int:
        """As the budget holds or the load needs."""
        if self.pairs.target_users is not None:
            return math.ceil(self.pairs.target_users / one.concurrency)
        return self.pairs.num_devices // one.server.num_devices if self.pairs.num_devices is not None else 1

    def fits(self, one: Setting) -> bool:
        devices, instances = self.pairs.num_devices, self.instances(one)
        return instances > 0 and (devices is None or instances * one.server.num_devices <= devices)

    def kept(self, ttft: Floats, tpot: Floats, output: Floats) -> NDArray[np.bool_]:
        whole = ttft + (output - 1.0) * tpot
        ruled = whole / output if self.tpot_rule == "inclusive" else tpot
        values = {"ttft": ttft, "tpot": ruled, "e2e": whole, "tokens_per_s_per_user": 1e3 / ruled}
        kept = np.ones(ttft.shape, dtype=bool)
        for one, limit in self.limits.given:
            if (value := values.get(one.name)) is not None:
                kept &= value >= limit if one.least else value <= limit
        return kept

    def rates(self, settings: Sequence[Setting], ttft: Floats, tpot: Floats) -> Floats:
        """The rate that its concurrency asks for, capped by the simulated rate.

        With steps c times as long it carries at most 1 / c of that (queries/loaded.sql)."""
        output = np.array([one.server.output_length for one in settings])
        users = np.array([float(one.concurrency) for one in settings])
        rate: Floats = users * 1e3 / (ttft + (output - 1.0) * tpot)
        if not self.carried or self.pairs.target_qps is None:
            return rate
        arriving = [self.carried.get(one.server.scenario, math.inf) * one.tpot_ms for one in settings]
        found: Floats = np.maximum(np.minimum(rate, np.array(arriving) / tpot), _LEAST_RATE)
        return found

    def worth(self, settings: Sequence[Setting], ttft: Floats, tpot: Floats) -> Floats:
        """0 where it misses a limit or carries too little. Columns are settings."""
        output = np.array([one.server.output_length for one in settings])
        devices = np.array([float(one.server.num_devices) for one in settings])
        rate = self.rates(settings, ttft, tpot)
        kept = self.kept(ttft, tpot, output)
        if self.pairs.target_users is None and self.pairs.target_qps is None:
            found: Floats = np.where(kept, rate * np.array([self.instances(one) for one in settings]), 0.0)
            return found
        instances: Floats = np.broadcast_to(np.array([float(self.instances(one)) for one in settings]), rate.shape)
        if self.pairs.target_qps is not None:
            instances = np.ceil(self.pairs.target_qps / rate - 1e-9)
        used = instances * devices
        if self.pairs.num_devices is not None:
            kept = kept & (used <= self.pairs.num_devices)
        brought: Floats = np.where(kept, (1.0 + _TIE * np.tanh(rate)) / (used * self._money(settings)), 0.0)
        return brought

    def _money(self, settings: Sequence[Setting]) -> Floats:
        """1 a device where one has no price."""
        prices = [self.prices.get(one.server.device) for one in settings]
        return np.array([1.0 if None in prices else price for price in prices], dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class OwnSettings:
    settings: tuple[Setting, ...]
    runs: tuple[OwnRun, ...]
    wanted: Wanted
    teaching: Teaching

    @property
    def prior(self) -> Prior:
        return self.teaching.prior

    @cached_property
    def groups(self) -> dict[Hashable, tuple[NDArray[np.int64], Process]]:
        found: dict[Hashable, list[int]] = defaultdict(list)
        for place, one in enumerate(self.settings):
            found[self.teaching.group_of(one)].append(place)
        return {
            group: (np.array(places), self.teaching.process_of(group, self.settings[places[0]]))
            for group, places in found.items()
        }

    @cached_property
    def _at(self) -> Posterior:
        """Pairs: of prompts and decode steps, each by itself."""
        count = len(self.settings)
        mean, covariance = np.zeros((count, 2)), np.zeros((count, 2, 2))
        near, nearest, run = (np.zeros(count, dtype=np.int64) for _ in range(3))
        for places, process in self.groups.values():
            first, second = (process.at(side) for side in self._located(places))
            mean[places] = np.column_stack([first.mean[:, 0], second.mean[:, 1]])
            covariance[places] = first.covariance
            if self._apart[places[0]]:
                covariance[places] = [
                    np.diag(both) for both in zip(first.covariance[:, 0, 0], second.covariance[:, 1, 1], strict=True)
                ]
            runs = len({run.key for run in process.runs})  # a run of a pair is one of both sides
            near[places], nearest[places] = np.minimum(np.minimum(first.near, second.near), runs), second.nearest
            run[places] = first.measured & second.measured
        return Posterior(mean=mean, covariance=covariance, near=near, nearest=nearest, measured=run.astype(np.bool_))

    @cached_property
    def _apart(self) -> NDArray[np.bool_]:
        return np.array([one.pair is not None for one in self.settings], dtype=np.bool_)

    def _located(self, places: NDArray[np.int64]) -> tuple[list[Located], list[Located]]:
        """Of TTFT and TPOT; pairs have two places."""
        settings = [self.settings[place] for place in places]
        both = [
            (self.teaching.located(one),) * 2 if one.pair is None else self.teaching.sides(one.pair, one.batch_size)
            for one in settings
        ]
        return [first for first, _ in both], [second for _, second in both]

    @cached_property
    def _log_predicted(self) -> Floats:
        return np.log([[getattr(one, name) for name in METRICS] for one in self.settings]).reshape(-1, len(METRICS))

    @cached_property
    def _noise(self) -> Floats:
        """Standard deviations of a run, [setting, (TTFT, TPOT)]."""
        found = np.zeros((len(self.settings), len(METRICS)))
        for places, process in self.groups.values():
            found[places] = process.prior.noise
        return found

    @cached_property
    def _pairs(self) -> PairsInWorlds:
        return PairsInWorlds([one for one in self.settings if one.pair is not None])

    def _times(self, factors: Floats) -> Floats:
        """ms, by log factors [world, setting, (TTFT, TPOT)]."""
        found: Floats = np.exp(self._log_predicted + factors)
        if self._apart.any():
            longer, slower = np.exp(factors[:, self._apart]).transpose(2, 0, 1)
            found[:, self._apart] = np.stack(self._pairs.times(longer, slower), axis=2)
        return found

    @cached_property
    def _expected(self) -> Floats:
        found: Floats = self._times(self._at.mean[None])[0]
        return found

    def expected(self, place: int) -> tuple[float, float]:
        ttft, tpot = self._expected[place]
        return float(ttft), float(tpot)

    @cached_property
    def _bands(self) -> Floats:
        """[end, setting, metric]: each moves its own factor."""
        variance = np.diagonal(self._at.covariance, axis1=1, axis2=2) + np.square(self._noise)
        reach = _FOUR_OF_FIVE * np.sqrt(variance)
        moved = [self._at.mean + sign * reach * axis for axis in np.eye(2) for sign in (-1.0, 0.0, 1.0)]
        ttft, tpot = self._times(np.stack(moved)).reshape(2, 3, -1, 2)
        return np.stack([ttft[:, :, 0], tpot[:, :, 1]], axis=2)

    def bands(self, place: int) -> list[tuple[float, float, float]]:
        """ms by metric: four of five runs lie between first and last."""
        return [(float(low), float(mid), float(high)) for low, mid, high in self._bands[:, place].T]

    def stands(self, place: int) -> str:
        """How a setting stands to the runs of its server."""
        one = self.settings[place]
        if any(run.setting == one for run in self.runs):
            return MEASURED
        _, process = self.groups[self.teaching.group_of(one)]
        runs = len({run.key for run in process.runs})
        return near_runs(int(self._at.near[place]), runs) if runs else PREDICTED

    def disagreements(self) -> list[Disagreement]:
        return [one for _, process in self.groups.values() for one in process.disagreements()]

    def glanced(self, draws: int = _GLANCES) -> Floats:
        """Worth in a few worlds, drawn apart: a covariance of thousands is too large."""
        random = np.random.default_rng(_SEED)
        covariance = self._at.covariance + np.square(self._noise)[:, :, None] * np.eye(2)
        roots = np.linalg.cholesky(covariance + 1e-12 * np.eye(2))
        normal = random.standard_normal((draws, len(self.settings), 2))
        times = self._times(self._at.mean + np.einsum("nab,snb->sna", roots, normal))
        return self.wanted.worth(self.settings, times[:, :, 0], times[:, :, 1])

    def worlds(self) -> Worlds:
        """The same for the same settings and runs."""
        random = np.random.default_rng(_SEED)
        drawn = np.zeros((_DRAWS, len(self.settings), len(METRICS)))
        for places, process in self.groups.values():
            covariance, of = _jointly(process, *self._located(places))
            noise = self._noise[places].T.ravel()  # of each run, where settings share their sides, too
            root = np.linalg.cholesky(covariance[np.ix_(of, of)] + np.diag(noise**2 + 1e-9))
            normal = random.standard_normal((_DRAWS, len(noise)))
            drawn[:, places] = (normal @ root.T).reshape(_DRAWS, len(METRICS), -1).transpose(0, 2, 1)
        times = self._times(self._at.mean + drawn)
        servers = {server: number for number, server in enumerate(dict.fromkeys(one.server for one in self.settings))}
        return Worlds(
            starts=np.array([servers[one.server] for one in self.settings]),
            worth=self.wanted.worth(self.settings, times[:, :, 0], times[:, :, 1]),
            measured=self.measured(),
            believed=self.wanted.believed,
        )

    def of_runs(self, one: Setting) -> dict[str, float]:
        """Medians of own runs; unmeasured metrics are missing."""
        runs = [run.measured for run in self.runs if run.setting == one]
        values = {name: [run[name] for run in runs if name in run] for name in METRICS}
        return {name: median(some) for name, some in values.items() if some}

    def measured(self) -> Floats:
        found = np.full(len(self.settings), np.nan)
        for place, one in enumerate(self.settings):
            own = self.of_runs(one)
            if len(own) == len(METRICS):
                found[place] = self.wanted.worth([one], *(np.array([own[name]]) for name in METRICS))[0]
        return found


def _jointly(process: Process, first: Sequence[Located], second: Sequence[Located]) -> tuple[Floats, NDArray[np.int64]]:
    """With the places of each TTFT, then each TPOT."""
    unique = {one: number for number, one in enumerate(dict.fromkeys((*first, *second)))}
    of = [unique[one] for one in first] + [len(unique) + unique[one] for one in second]
    return process.across(list(unique)), np.array(of, dtype=np.int64)


def candidates(known: OwnSettings) -> OwnSettings:
    """The promising and the measured settings alone.

    Pairs are so many that a few worlds thin them first."""
    if len(known.settings) > _MOST_GLANCED:
        known = _promising(known, _FEW_GLANCES, _MOST_GLANCED)
    return _promising(known, _GLANCES, _MOST)


def _promising(known: OwnSettings, draws: int, most: int) -> OwnSettings:
    promise = known.glanced(draws).mean(axis=0)
    run = {one.setting for one in known.runs}
    order = sorted(range(len(promise)), key=lambda place: (known.settings[place] not in run, -promise[place]))
    kept = {place for place in order[:most] if known.settings[place] in run or promise[place] > 0.0}
    return replace(known, settings=tuple(one for place, one in enumerate(known.settings) if place in kept))
