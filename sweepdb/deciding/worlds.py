"""Worlds: draws of what every setting would measure, own runs read, and what each setting brings there.

What a setting brings is larger where it is better: requests/s of a budget, or one over the devices (or the money) that
carry the users or the rate asked for. Not here: which start is worth most (sweepdb.deciding.choosing)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from queries.asking import Limits, PairOptions
from sweepdb.deciding.choosing import Worlds
from sweepdb.deciding.process import PRIORS, SCALES
from sweepdb.deciding.settings import place_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sweepdb.deciding.own_runs import OwnRun
    from sweepdb.deciding.settings import Setting

    Floats = NDArray[np.float64]

METRICS = ("ttft_ms", "tpot_ms")
PLACE = len(SCALES)
_DRAWS, _SEED = 2_000, 2026
_GLANCES = 200  # draws by which candidates are found: one that keeps the limits in none of them is none
_MOST = 400  # settings that are drawn together
_TIE = 1e-3  # of what more requests/s are worth where the devices are the same


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be kept and carried."""

    limits: Limits
    pairs: PairOptions
    prices: Mapping[str, float | None]  # of an hour of each device
    tpot_rule: str
    believed: float  # probability from which on a limit counts as kept

    def instances(self, one: Setting) -> int:
        """Copies of a server that the budget holds or the users need; of a rate this depends on what is measured."""
        if self.pairs.target_users is not None:
            return math.ceil(self.pairs.target_users / one.concurrency)
        return self.pairs.num_devices // one.server.num_devices if self.pairs.num_devices is not None else 1

    def fits(self, one: Setting) -> bool:
        """Whether the devices that there are hold it."""
        devices, instances = self.pairs.num_devices, self.instances(one)
        return instances > 0 and (devices is None or instances * one.server.num_devices <= devices)

    def kept(self, ttft: Floats, tpot: Floats, output: Floats) -> NDArray[np.bool_]:
        """Where every limit is kept, all of a setting together."""
        whole = ttft + (output - 1.0) * tpot
        ruled = whole / output if self.tpot_rule == "inclusive" else tpot
        values = {"ttft": ttft, "tpot": ruled, "e2e": whole, "tokens_per_s_per_user": 1e3 / ruled}
        kept = np.ones(ttft.shape, dtype=bool)
        for one, limit in self.limits.given:
            if (value := values.get(one.name)) is not None:
                kept &= value >= limit if one.least else value <= limit
        return kept

    def worth(self, settings: Sequence[Setting], ttft: Floats, tpot: Floats) -> Floats:
        """What each setting brings; 0 where it misses a limit or carries too little. Columns are settings."""
        output = np.array([one.server.output_length for one in settings])
        users = np.array([float(one.concurrency) for one in settings])
        devices = np.array([float(one.server.num_devices) for one in settings])
        rate = users * 1e3 / (ttft + (output - 1.0) * tpot)
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
        """The price of a device, 1 where one of them has none."""
        prices = [self.prices.get(one.server.device) for one in settings]
        return np.ones(len(prices)) if None in prices else np.array([float(price or 1.0) for price in prices])


@dataclass(frozen=True, kw_only=True)
class Known:
    """Settings with the runs that say something of them."""

    settings: tuple[Setting, ...]
    runs: tuple[OwnRun, ...]
    wanted: Wanted

    @cached_property
    def log_predicted(self) -> dict[str, Floats]:
        """The logarithm of what is predicted."""
        return {name: np.log([getattr(one, name) for one in self.settings]) for name in METRICS}

    @property
    def _places(self) -> Floats:
        return np.array([place_of(one.server, one.concurrency) for one in self.settings])

    def seen(self, name: str) -> tuple[Floats, Floats]:
        """Places of the runs that measured a metric, and log(measured / predicted) there."""
        seen = [(one, ratio) for one in self.runs if (ratio := one.ratio(name)) is not None]
        at = np.array([place_of(one.server, one.users) for one, _ in seen]).reshape(len(seen), PLACE)
        return at, np.array([ratio for _, ratio in seen])

    @property
    def marginals(self) -> list[tuple[Floats, Floats]]:
        """Mean and deviation of the logarithm of what a run would measure, for each metric."""
        found = []
        for name in METRICS:
            mean, variance = PRIORS[name].marginal(self._places, *self.seen(name))
            found.append((self.log_predicted[name] + mean, np.sqrt(variance + PRIORS[name].noise ** 2)))
        return found

    @cached_property
    def conditioned(self) -> dict[str, tuple[Floats, Floats]]:
        """Mean and covariance of the logarithm of what a run would measure; a run's own noise is in it."""
        found = {}
        for name in METRICS:
            mean, spread = PRIORS[name].conditioned(self._places, *self.seen(name))
            found[name] = (self.log_predicted[name] + mean, spread + PRIORS[name].noise ** 2 * np.eye(len(mean)))
        return found

    def deviations(self, place: int) -> float:
        """How far a run is from what all others let expect, in standard deviations; the larger of both metrics."""
        run, others = self.runs[place], replace(self, runs=(*self.runs[:place], *self.runs[place + 1 :]))
        at, found = np.array([place_of(run.server, run.users)]), 0.0
        for name in METRICS:
            if (ratio := run.ratio(name)) is not None:
                mean, variance = PRIORS[name].marginal(at, *others.seen(name))
                found = max(found, abs(ratio - mean[0]) / math.sqrt(variance[0] + PRIORS[name].noise ** 2))
        return float(found)

    def expected(self, name: str) -> Floats:
        """The middle of what a run of each setting would measure."""
        found: Floats = np.exp(self.conditioned[name][0])
        return found

    def worlds(self) -> Worlds:
        """Draws, the same for the same settings and runs."""
        random = np.random.default_rng(_SEED)
        drawn = {}
        for name in METRICS:
            mean, spread = self.conditioned[name]
            root = np.linalg.cholesky(spread + 1e-9 * np.eye(len(mean)))
            drawn[name] = np.exp(mean + random.standard_normal((_DRAWS, len(mean))) @ root.T)
        servers = {server: number for number, server in enumerate(dict.fromkeys(one.server for one in self.settings))}
        return Worlds(
            starts=np.array([servers[one.server] for one in self.settings]),
            worth=self.wanted.worth(self.settings, drawn["ttft_ms"], drawn["tpot_ms"]),
            measured=self.measured(),
            believed=self.wanted.believed,
        )

    def of_runs(self, one: Setting) -> dict[str, float]:
        """What a setting's own runs measured, the middle of several; a metric that none measured is missing."""
        runs = [run.measured for run in self.runs if run.setting == one]
        values = {name: [run[name] for run in runs if name in run] for name in METRICS}
        return {name: float(np.exp(np.mean(np.log(some)))) for name, some in values.items() if some}

    def measured(self) -> Floats:
        """What each setting brought in its runs; NaN where there was none of both metrics."""
        found = np.full(len(self.settings), np.nan)
        for place, one in enumerate(self.settings):
            own = self.of_runs(one)
            if len(own) == len(METRICS):
                found[place] = self.wanted.worth([one], *(np.array([own[name]]) for name in METRICS))[0]
        return found


def candidates(known: Known) -> Known:
    """The same with those settings alone that may be the answer, the most promising, and what was measured."""
    random = np.random.default_rng(_SEED)
    drawn = [
        np.exp(mean + deviation * random.standard_normal((_GLANCES, len(mean)))) for mean, deviation in known.marginals
    ]
    promise = known.wanted.worth(known.settings, *drawn).mean(axis=0)
    run = {one.setting for one in known.runs}
    order = sorted(range(len(promise)), key=lambda place: (known.settings[place] not in run, -promise[place]))
    kept = {place for place in order[:_MOST] if known.settings[place] in run or promise[place] > 0.0}
    return replace(known, settings=tuple(one for place, one in enumerate(known.settings) if place in kept))
