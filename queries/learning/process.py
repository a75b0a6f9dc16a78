"""A Gaussian process through a server's own runs: what they say of the settings that were not run.

    process = Process(runs, prior_of("foreign"))     # runs: Sequence[Run] of one group and one version of its engine
    found = process.at(settings)                     # settings: Sequence[Setting]
    found.mean, found.sd                             # arrays [setting, (TTFT, TPOT)] of log(measured / predicted)
    found.covariance                                 # [setting, 2, 2]
    process.across(settings)                         # the joint covariance over settings: [2 n, 2 n], TTFT of all first
    process.disagreements()                          # runs far from what the others say of them

A value is prediction x exp(mean). The two factors of a setting, f = (TTFT, TPOT), are jointly normal:
cov f(x), f(y) = common + shape x exp(-|x - y|^2 / 2) + own x [x is y], each a 2 x 2 covariance, and x the logarithms of
users, lengths and devices, each over its own length. A run is a linear observation of f with noise: TTFT alone, TPOT
alone, or a whole request's time, whose factor is near share x TTFT + (1 - share) x TPOT. One run of TTFT thus says
something of TPOT.

How large all of this is differs from server to server: the covariance of a group is known up to a factor, which its own
runs tell (a Student-t process). Runs that lie far apart widen what is said of all other settings. One that lies farther
than four standard deviations from the rest is read of its own setting alone.

Sources: C. Rasmussen and C. Williams, Gaussian Processes for Machine Learning (2006), chapters 2, 5 and 9.9; A. Shah,
A. Wilson and Z. Ghahramani, Student-t processes as alternatives to Gaussian processes (2014)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from queries.learning.one_thread import one_thread
from queries.learning.priors import Prior
from store.light_dataclass import dataclass

FloatArray = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]
_MEDIAN = 0.6744897501960817  # standard deviations within which half of a normal lies
STRANGE = 2.5  # standard deviations from which a run disagrees with the others
ALONE = 4.0  # and from which it says nothing of other settings
_OF_ITSELF = 25.0 * np.eye(2)  # variance of a setting that is like no other
VERSIONS_AGREE = 2.0  # standard deviations within which another version's mean error may lie
_WIDER = (1.2815515655446004**2 + 1.0) / 4.0  # of a quantile at 90 %, over its degrees of freedom


class Setting(NamedTuple):
    """`plan` tells settings apart that are otherwise alike."""

    users: float
    input_length: float
    output_length: float
    num_devices: float
    dp: float
    ep: float
    plan: str = ""

    @property
    def place(self) -> tuple[float, ...]:
        sizes = (self.users, self.input_length, self.output_length, self.num_devices)
        return (*(math.log2(max(size, 1.0)) for size in sizes), float(self.dp > 1), float(self.ep > 1))


class _Placed(NamedTuple):
    """Settings as arrays: [setting, distance], and plans."""

    sizes: FloatArray
    plans: npt.NDArray[np.object_]

    @classmethod
    def of(cls, settings: Sequence[Setting]) -> _Placed:
        distances = len(Setting._fields) - 1  # of all but the plan
        sizes = np.array([one.place for one in settings], dtype=np.float64).reshape(-1, distances)
        return cls(sizes, np.array([one.plan for one in settings], dtype=object))

    def rows(self, wanted: npt.NDArray[np.int64]) -> _Placed:
        return _Placed(self.sizes[wanted], self.plans[wanted])

    def with_users(self, users: FloatArray) -> _Placed:
        return _Placed(np.column_stack([_rungs(users), self.sizes[:, 1:]]), self.plans)


def _rungs(users: FloatArray) -> FloatArray:
    return np.asarray(np.log2(np.maximum(users, 1.0)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Logs of measured over predicted, None: not measured.

    `whole` is a whole request's (less the log of tokens/s), of which TTFT takes `ttft_share`; it counts where another
    is missing. `repeats` runs were averaged."""

    key: str
    setting: Setting
    ttft: float | None = None
    tpot: float | None = None
    whole: float | None = None
    ttft_share: float = 0.0
    repeats: int = 1
    version: str | None = None

    def observed(self) -> list[tuple[tuple[float, float], float]]:
        """(weights of TTFT and TPOT, value)."""
        found = [((1.0, 0.0), self.ttft), ((0.0, 1.0), self.tpot)]
        if self.ttft is None or self.tpot is None:
            found.append(((self.ttft_share, 1.0 - self.ttft_share), self.whole))
        return [(weights, value) for weights, value in found if value is not None]

    @property
    def times(self) -> frozenset[str]:
        """Names of what was measured."""
        return frozenset(_METRICS[_metric(weights)] for weights, _ in self.observed())


class Disagreement(NamedTuple):
    key: str
    metric: str
    deviations: float  # signed, standardised


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """Mean [setting, 2] and covariance [setting, 2, 2], TTFT and TPOT."""

    mean: FloatArray
    covariance: FloatArray
    near: npt.NDArray[np.int64]  # runs within one length of each setting
    nearest: npt.NDArray[np.int64]  # the place of the nearest run, -1 without any
    measured: _Bools  # whether the setting itself was run

    def of(self, places: Sequence[int] | npt.NDArray[np.int64]) -> Posterior:
        return Posterior(**{one.name: getattr(self, one.name)[places] for one in fields(self)})

    @property
    def sd(self) -> FloatArray:
        return np.asarray(np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)))


_Solved = tuple[FloatArray, FloatArray]  # the inverse of the covariance of what was observed, and its product with that
_METRICS = ("TTFT", "TPOT", "end-to-end time")


def _pairwise(prior: Prior, part: str) -> FloatArray:
    first, second = getattr(prior, part)
    joint = getattr(prior, f"{part}_correlation", 0.0) * first * second
    return np.array([[first * first, joint], [joint, second * second]])


class Process:
    """One group of settings, conditioned on its runs."""

    def __init__(self, runs: Sequence[Run], prior: Prior) -> None:
        self.runs, self.prior = tuple(runs), prior
        self._solutions: dict[bytes, _Solved] = {}  # by which runs speak of themselves alone
        self._parts = [_pairwise(prior, part) for part in ("common", "shape", "own")]
        self._placed = _Placed.of([run.setting for run in self.runs])
        seen = [(place, *one, run.repeats) for place, run in enumerate(self.runs) for one in run.observed()]
        self._of = np.array([place for place, *_ in seen], dtype=np.int64)
        self._weights = np.array([weights for _, weights, *_ in seen], dtype=np.float64).reshape(-1, 2)
        self._values = np.array([value for _, _, value, _ in seen], dtype=np.float64)
        noise = np.square(self._weights * np.array(prior.noise)).sum(axis=1)
        self._noise = noise / np.array([repeats for *_, repeats in seen], dtype=np.float64)

    @cached_property
    def _solved(self) -> _Solved:
        return self._solve(np.zeros(len(self.runs), dtype=np.bool_))

    @cached_property
    def _among(self) -> tuple[FloatArray, _Bools]:
        return self._alike(self._placed, self._placed)

    @cached_property
    def _told(self) -> _Solved:
        return self._solve(self._alone)

    @one_thread
    def _solve(self, alone: _Bools) -> _Solved:
        if (known := self._solutions.get(alone.tobytes())) is not None:
            return known
        covariance = np.diag(self._noise)
        for each, part in self._shares(*self._among, alone):
            covariance += each[np.ix_(self._of, self._of)] * (self._weights @ part @ self._weights.T)
        inverse = np.linalg.inv(covariance)
        return self._solutions.setdefault(alone.tobytes(), (inverse, inverse @ self._values))

    @cached_property
    def _alone(self) -> _Bools:
        """Runs so far from all others that they speak of their own setting alone: a third at most.

        A server beyond its cache measured 94 times its predicted TTFT: it says nothing of how others serve."""
        alone = np.zeros(len(self.runs), dtype=np.bool_)
        for _ in range(len(self.runs) // 3):
            far = [one for one in self._deviations(self._solve(alone)) if not alone[one[1]]]
            deviation, place, _ = max(far, key=lambda one: abs(one[0]), default=(0.0, 0, 0))
            if abs(deviation) < ALONE:
                break
            alone |= self._among[1][:, place]
        return alone

    @cached_property
    def width(self) -> FloatArray:
        """Factor on standard deviations so that a normal's 80 % hold.

        The runs' factor, and t's wider quantiles (Cornish and Fisher's first term). A time that no run measured keeps
        what is said without runs."""
        degrees = self.prior.degrees + self._values.size
        scale = math.sqrt((self.prior.degrees + self._misfit) / degrees) * (1.0 + _WIDER / degrees)
        measured = (self._weights >= 0.5).any(axis=0)  # a whole request's tells of what is most of it
        return np.where(measured, scale, self.prior.bare)

    def _widened(self, covariance: FloatArray) -> FloatArray:
        """[..., 2, 2], by both metrics' widths."""
        return np.asarray(covariance * np.outer(self.width, self.width))

    @property
    @one_thread
    def _misfit(self) -> float:
        """Squared distance from the prior; its expectation is the number of values."""
        return float(self._values @ self._solved[1])

    def _kernel(self, settings: _Placed) -> FloatArray:
        """The covariance of settings before any run: [one, other, 2, 2]."""
        alike, same = self._alike(settings, settings)
        common, shape, own = self._parts
        alone = same & self._alone_at(self._alike(settings, self._placed)[1])[:, None]
        found = common + alike[..., None, None] * shape + same[..., None, None] * own
        return np.asarray(found + alone[..., None, None] * _OF_ITSELF)

    def _alone_at(self, same: _Bools) -> _Bools:
        """Whether settings are those of runs that speak of themselves alone; `same` says which are whose."""
        return np.asarray((same & self._alone).any(axis=1))

    def _alike(self, some: _Placed, others: _Placed) -> tuple[FloatArray, _Bools]:
        one, other = (each.sizes / np.array(self.prior.lengths) for each in (some, others))
        apart = np.square(one[:, None, :] - other[None, :, :]).sum(axis=2)
        same = (apart < 1e-12) & (some.plans[:, None] == others.plans[None, :])
        return np.exp(-apart / 2.0), np.asarray(same, dtype=np.bool_)

    def at(self, settings: Sequence[Setting]) -> Posterior:
        """Each by itself, both metrics jointly."""
        return self._at(_Placed.of(settings))

    def on_ladders(self, bases: Sequence[Setting], rows: npt.NDArray[np.int64], users: FloatArray) -> Posterior:
        """As `at`, of the base of each row with so many users."""
        return self._at(_Placed.of(bases).rows(rows).with_users(users))

    @one_thread
    def _at(self, settings: _Placed) -> Posterior:
        count, before = len(settings.plans), np.asarray(sum(self._parts))
        if not self.runs or not count:
            none = np.zeros(count, dtype=np.int64)
            covariance = np.broadcast_to(self._widened(before), (count, 2, 2))
            return Posterior(mean=np.zeros((count, 2)), covariance=covariance, near=none, nearest=none - 1,
                             measured=none.astype(np.bool_))  # fmt: skip
        alike, same = self._alike(settings, self._placed)
        cross = self._cross(alike, same)
        inverse, solved = self._told
        before = before + self._alone_at(same)[:, None, None] * _OF_ITSELF
        known = np.einsum("nai,ij,nbj->nab", cross, inverse, cross, optimize=True)
        return Posterior(
            mean=np.asarray(cross @ solved),
            covariance=self._widened(before - known),
            near=(alike >= math.exp(-0.5)).sum(axis=1),
            nearest=np.argmax(alike + same, axis=1),
            measured=np.asarray(same.any(axis=1)),
        )

    @one_thread
    def ladders(self, bases: Sequence[Setting], users: FloatArray) -> FloatArray:
        """Means [metric, base, rung]; a base has a row of `users`.

        As `at(...).mean` in a hundredth of the time: users stand apart in the kernel."""
        if not self.runs:
            return np.zeros((2, *users.shape))
        placed = _Placed.of(bases)
        alike, same = self._alike(*(one.with_users(np.ones(len(one.plans))) for one in (placed, self._placed)))
        scale = self.prior.lengths[0]
        at_run = self._placed.sizes[:, 0] / scale
        said = np.zeros((len(self.runs), 2))  # by each run, of both metrics
        np.add.at(said, self._of, self._weights * self._told[1][:, None])
        common, shape, _ = self._parts
        shaped, means = said @ shape, np.empty((2, *users.shape))
        alike_users: dict[bytes, list[int]] = defaultdict(list)  # one for each number of replicas
        for place, row in enumerate(users):
            alike_users[row.tobytes()].append(place)
        for places in alike_users.values():
            apart = _rungs(users[places[0]])[:, None] / scale - at_run
            near = np.exp(-np.square(apart) / 2.0)
            for metric in (0, 1):
                means[metric, places] = np.einsum("br,ur->bu", alike[places] * shaped[:, metric], near)
        means += (said.sum(axis=0) @ common)[:, None, None]
        rungs = [
            (place, rung)
            for place in np.flatnonzero(same.any(axis=1)).tolist()
            for rung in np.flatnonzero(
                np.isin(users[place], [self.runs[run].setting.users for run in np.flatnonzero(same[place])])
            ).tolist()
        ]
        if rungs:  # that were run themselves
            measured = tuple(np.array(rungs).T)
            means[:, *measured] = self._at(placed.rows(measured[0]).with_users(users[measured])).mean.T
        return np.asarray(means)

    def _cross(self, alike: FloatArray, same: _Bools) -> FloatArray:
        """Covariances of the factors of settings with what was observed: [setting, metric, observed]."""
        cross = np.zeros((len(alike), 2, len(self._of)))
        for each, part in self._shares(alike, same, self._alone):
            cross += each[:, None, self._of] * (part @ self._weights.T)
        return cross

    def _shares(self, alike: FloatArray, same: _Bools, alone: _Bools) -> Iterator[tuple[FloatArray, FloatArray]]:
        """How much of each part settings have in common with those of the runs, and the part."""
        shares = (np.ones(alike.shape), alike, same.astype(np.float64), (same & alone).astype(np.float64))
        return zip(shares, (*self._parts, _OF_ITSELF), strict=True)

    @one_thread
    def across(self, settings: Sequence[Setting]) -> FloatArray:
        """Joint covariance [2 n, 2 n]: TTFT of all, then TPOT."""
        count, placed = len(settings), _Placed.of(settings)
        prior = self._kernel(placed).transpose(2, 0, 3, 1).reshape(2 * count, 2 * count)
        if not self.runs:
            return self._over_all(prior, count)
        cross = self._cross(*self._alike(placed, self._placed)).transpose(1, 0, 2).reshape(2 * count, -1)
        return self._over_all(prior - cross @ self._told[0] @ cross.T, count)

    def _over_all(self, covariance: FloatArray, count: int) -> FloatArray:
        widths = np.repeat(self.width, count)
        return np.asarray(covariance * np.outer(widths, widths))

    def disagreements(self) -> tuple[Disagreement, ...]:
        """Runs of which a value lies far from what all the other runs say; the farthest first. Of many runs, farther:
        one in twenty of processes without any strange run has one."""
        if len(self.runs) < 3:
            return ()
        least = max(STRANGE, NormalDist().inv_cdf(1.0 - 0.05 / (2 * self._values.size)))
        found = [
            Disagreement(self.runs[place].key, _METRICS[_metric(self._weights[row])], deviation)
            for deviation, place, row in self._deviations(self._solved)
            if abs(deviation) >= least
        ]
        return tuple(sorted(found, key=lambda one: (-abs(one.deviations), one.key)))

    def _deviations(self, known: _Solved) -> Iterator[tuple[float, int, int]]:
        """How far each run's farthest value lies from what the others say, in standard deviations; its run and place.

        By the inverse C of the covariance of all: a run's values R left out have residual r = C_RR^-1 (C y)_R and
        covariance C_RR^-1, and the others' misfit is less by r C_RR r."""
        inverse, solved = known
        misfit = float(self._values @ solved)
        for place in range(len(self.runs)):
            rows = np.flatnonzero(self._of == place)
            if not rows.size:
                continue
            spread = np.linalg.inv(inverse[np.ix_(rows, rows)])
            degrees = self.prior.degrees + self._values.size - rows.size
            others = self.prior.degrees + misfit - float(solved[rows] @ spread @ solved[rows])
            deviations = (spread @ solved[rows]) / np.sqrt(np.diag(spread) * others / degrees)
            worst = int(np.argmax(np.abs(deviations)))
            yield float(deviations[worst]), place, int(rows[worst])

    @one_thread
    def likelihood(self) -> float:
        """Log density of the observations: a multivariate t."""
        _, determinant = np.linalg.slogdet(self._solved[0])
        count, degrees = self._values.size, self.prior.degrees
        constant = (
            math.lgamma((degrees + count) / 2) - math.lgamma(degrees / 2) - count / 2 * math.log(degrees * math.pi)
        )
        return constant + float(determinant) / 2 - (degrees + count) / 2 * math.log1p(self._misfit / degrees)


def _metric(weights: Sequence[float] | FloatArray) -> int:
    return 0 if weights[1] == 0.0 else 1 if weights[0] == 0.0 else 2


def without_strange_versions(runs: Sequence[Run], prior: Prior) -> tuple[tuple[Run, ...], tuple[str, ...]]:
    """Runs of the commonest version and those that agree, and versions left out.

    A version agrees where its mean error is within two standard deviations of what others say; without a version, it
    agrees."""
    counts = Counter(run.version for run in runs if run.version is not None)
    if len(counts) < 2:
        return tuple(runs), ()
    chosen = max(counts, key=lambda version: (counts[version], _release(version)))
    base = [run for run in runs if run.version in {chosen, None}]
    process = Process(base, prior)
    strange = [
        one for one in counts if one != chosen and _deviates([run for run in runs if run.version == one], process)
    ]
    return tuple(run for run in runs if run.version not in strange), tuple(sorted(strange))


def _release(version: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (-1, part) for part in version.split(".")]


def _deviates(some: Sequence[Run], process: Process) -> bool:
    """For either metric."""
    places = [run.setting for run in some]
    mean, spread = process.at(places).mean, process.across(places)
    for metric, name in enumerate(("ttft", "tpot")):
        chosen = [place for place, run in enumerate(some) if getattr(run, name) is not None]
        if not chosen:
            continue
        rows = np.array(chosen) + metric * len(places)
        values = np.array([getattr(some[place], name) for place in chosen]) - mean[chosen, metric]
        variance = spread[np.ix_(rows, rows)].mean() + process.prior.noise[metric] ** 2 / len(chosen)
        if abs(values.mean()) > VERSIONS_AGREE * math.sqrt(variance):
            return True
    return False


def log_factor(too_long: Callable[[float], bool]) -> float:
    """Log of the factor where times become too long, between 1/32 and 32."""
    low, high = -math.log(32.0), math.log(32.0)
    for _ in range(40):  # to 1e-11
        middle = (low + high) / 2
        low, high = (low, middle) if too_long(math.exp(middle)) else (middle, high)
    return (low + high) / 2


def median_percent(spread: float) -> float:
    """Error that half of values stay below."""
    return 100.0 * math.expm1(_MEDIAN * spread)


def deviation_of_median(percent: float) -> float:
    """Half of the values are within this error."""
    return math.log1p(percent / 100.0) / _MEDIAN
