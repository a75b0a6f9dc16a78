"""A Gaussian process through a server's own runs: what they say of the settings that were not run.

    process = Process(runs, prior_of("foreign"))     # runs: Sequence[Run] of one group and one version of its engine
    found = process.at(settings)                     # settings: Sequence[Setting]
    found.mean, found.sd                             # arrays [setting, (TTFT, TPOT)] of log(measured / predicted)
    found.covariance                                 # [setting, 2, 2]
    probability_of(found, predicted, Kept(ttft_ms=500))        # that each setting keeps all its limits together
    process.across(settings)                         # the joint covariance over settings: [2 n, 2 n], TTFT of all first
    process.disagreements()                          # runs far from what the others say of them

A value is prediction x exp(mean). The two factors of a setting, f = (TTFT, TPOT), are jointly normal:
cov f(x), f(y) = common + shape x exp(-|x - y|^2 / 2) + own x [x is y], each a 2 x 2 covariance, and x the logarithms of
users, lengths and devices. A run is a linear observation of f with noise: TTFT alone, TPOT alone, or a whole request's
time, whose factor is near share x TTFT + (1 - share) x TPOT. One run of TTFT thus says something of TPOT.

How large all of this is differs from server to server: the covariance of a group is known up to a factor, which its own
runs tell (a Student-t process). Runs that lie far apart widen what is said of all other settings.

Sources: C. Rasmussen and C. Williams, Gaussian Processes for Machine Learning (2006), chapters 2, 5 and 9.9; A. Shah,
A. Wilson and Z. Ghahramani, Student-t processes as alternatives to Gaussian processes (2014)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from queries.learning.priors import Prior
from store.light_dataclass import dataclass

FloatArray = npt.NDArray[np.float64]
SCALES = (2.5, 2.0, 3.0, 1.5, 1.0, 1.0)  # of log2 users, input, output, devices, and whether data or expert parallel
_MEDIAN = 0.6744897501960817  # standard deviations within which half of a normal lies
STRANGE = 2.5  # standard deviations from which a run disagrees with the others
VERSIONS_AGREE = 2.0  # standard deviations within which another version's mean error may lie
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_WIDER = (1.2815515655446004**2 + 1.0) / 4.0  # of a quantile at 90 %, over its degrees of freedom
_FAR = 6.0  # standard deviations beyond which nothing lies


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
    measured: npt.NDArray[np.bool_]  # whether the setting itself was run

    @property
    def sd(self) -> FloatArray:
        return np.asarray(np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2)))


def _pairwise(prior: Prior, part: str) -> FloatArray:
    first, second = getattr(prior, part)
    joint = getattr(prior, f"{part}_correlation", 0.0) * first * second
    return np.array([[first * first, joint], [joint, second * second]])


class Process:
    """One group of settings, conditioned on its runs."""

    def __init__(self, runs: Sequence[Run], prior: Prior) -> None:
        self.runs, self.prior = tuple(runs), prior
        self._parts = [_pairwise(prior, part) for part in ("common", "shape", "own")]
        self._settings = [run.setting for run in self.runs]
        seen = [(place, *one, run.repeats) for place, run in enumerate(self.runs) for one in run.observed()]
        self._of = np.array([place for place, *_ in seen], dtype=np.int64)
        self._weights = np.array([weights for _, weights, *_ in seen], dtype=np.float64).reshape(-1, 2)
        self._values = np.array([value for _, _, value, _ in seen], dtype=np.float64)
        noise = np.square(self._weights * np.array(prior.noise)).sum(axis=1)
        self._noise = noise / np.array([repeats for *_, repeats in seen], dtype=np.float64)

    @cached_property
    def _solved(self) -> tuple[FloatArray, FloatArray]:
        between = self._kernel(self._settings, self._settings)[np.ix_(self._of, self._of)]
        covariance = np.einsum("ia,ijab,jb->ij", self._weights, between, self._weights) + np.diag(self._noise)
        inverse = np.linalg.inv(covariance)
        return inverse, inverse @ self._values

    @cached_property
    def width(self) -> FloatArray:
        """Factor on standard deviations so that a normal's 80 % hold.

        The runs' factor, and t's wider quantiles (Cornish and Fisher's first term)."""
        count = self._values.size
        if not count:
            return np.array(self.prior.bare)
        degrees = self.prior.degrees + count
        scale = math.sqrt((self.prior.degrees + self._misfit) / degrees) * (1.0 + _WIDER / degrees)
        return np.array([scale, scale])

    def _widened(self, covariance: FloatArray) -> FloatArray:
        """[..., 2, 2], by both metrics' widths."""
        return np.asarray(covariance * np.outer(self.width, self.width))

    @property
    def _misfit(self) -> float:
        """Squared distance from the prior; its expectation is the number of values."""
        return float(self._values @ self._solved[1])

    def _kernel(self, some: Sequence[Setting], others: Sequence[Setting]) -> FloatArray:
        """[one, other, 2, 2]"""
        alike, same = self._alike(some, others)
        common, shape, own = self._parts
        return np.asarray(common + alike[..., None, None] * shape + same[..., None, None] * own)

    def _alike(self, some: Sequence[Setting], others: Sequence[Setting]) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        scales = self.prior.length * np.array(SCALES)
        places = [np.array([one.place for one in each]).reshape(-1, len(SCALES)) / scales for each in (some, others)]
        apart = np.square(places[0][:, None, :] - places[1][None, :, :]).sum(axis=2)
        plans = [np.array([one.plan for one in each], dtype=object) for each in (some, others)]
        same = (apart < 1e-12) & (plans[0][:, None] == plans[1][None, :])
        return np.exp(-apart / 2.0), np.asarray(same, dtype=np.bool_)

    def at(self, settings: Sequence[Setting]) -> Posterior:
        """Each by itself, both metrics jointly."""
        count, before = len(settings), np.asarray(sum(self._parts))
        if not self.runs or not count:
            none = np.zeros(count, dtype=np.int64)
            covariance = np.broadcast_to(self._widened(before), (count, 2, 2))
            return Posterior(mean=np.zeros((count, 2)), covariance=covariance, near=none, nearest=none - 1,
                             measured=none.astype(np.bool_))  # fmt: skip
        alike, same = self._alike(settings, self._settings)
        cross = self._cross(settings)
        inverse, solved = self._solved
        known = np.einsum("nai,ij,nbj->nab", cross, inverse, cross, optimize=True)
        return Posterior(
            mean=np.asarray(cross @ solved),
            covariance=self._widened(before - known),
            near=(alike >= math.exp(-0.5)).sum(axis=1),
            nearest=np.argmax(alike + same, axis=1),
            measured=np.asarray(same.any(axis=1)),
        )

    def ladders(self, bases: Sequence[Setting], users: FloatArray) -> FloatArray:
        """Means [metric, base, rung]; a base has a row of `users`.

        As `at(...).mean` in a hundredth of the time: users stand apart in the kernel."""
        if not self.runs:
            return np.zeros((2, *users.shape))
        alone = [one._replace(users=1.0) for one in bases]
        alike, same = self._alike(alone, [one._replace(users=1.0) for one in self._settings])
        scale = self.prior.length * SCALES[0]
        at_run = np.log2([max(one.users, 1.0) for one in self._settings]) / scale
        said = np.zeros((len(self.runs), 2))  # by each run, of both metrics
        np.add.at(said, self._of, self._weights * self._solved[1][:, None])
        common, shape, _ = self._parts
        shaped, means = said @ shape, np.empty((2, *users.shape))
        alike_users: dict[bytes, list[int]] = defaultdict(list)  # one for each number of replicas
        for place, row in enumerate(users):
            alike_users[row.tobytes()].append(place)
        for places in alike_users.values():
            apart = np.log2(np.maximum(users[places[0]], 1.0))[:, None] / scale - at_run
            near = np.exp(-np.square(apart) / 2.0)
            for metric in (0, 1):
                # Threads of a matrix product wait for each other longer than one of them takes.
                means[metric, places] = np.einsum("br,ur->bu", alike[places] * shaped[:, metric], near)
        means += (said.sum(axis=0) @ common)[:, None, None]
        rungs = [
            (place, rung)
            for place in np.flatnonzero(same.any(axis=1)).tolist()
            for rung in np.flatnonzero(
                np.isin(users[place], [self._settings[run].users for run in np.flatnonzero(same[place])])
            ).tolist()
        ]
        if rungs:  # that were run themselves
            found = self.at([bases[place]._replace(users=float(users[place, rung])) for place, rung in rungs])
            means[:, *np.array(rungs).T] = found.mean.T
        return np.asarray(means)

    def _cross(self, settings: Sequence[Setting]) -> FloatArray:
        """Covariances with observations: [setting, metric, observed]."""
        between = self._kernel(settings, self._settings)[:, self._of]
        return np.asarray(np.einsum("niab,ib->nai", between, self._weights))

    def across(self, settings: Sequence[Setting]) -> FloatArray:
        """Joint covariance [2 n, 2 n]: TTFT of all, then TPOT."""
        count = len(settings)
        prior = self._kernel(settings, settings).transpose(2, 0, 3, 1).reshape(2 * count, 2 * count)
        if not self.runs:
            return self._over_all(prior, count)
        cross = self._cross(settings).transpose(1, 0, 2).reshape(2 * count, -1)
        return self._over_all(prior - cross @ self._solved[0] @ cross.T, count)

    def _over_all(self, covariance: FloatArray, count: int) -> FloatArray:
        widths = np.repeat(self.width, count)
        return np.asarray(covariance * np.outer(widths, widths))

    def disagreements(self) -> tuple[Disagreement, ...]:
        """Runs far from what the others say, the farthest first.

        The threshold grows with runs: one in twenty sound processes has one. With C the inverse covariance, a run's
        values R left out have residual r = C_RR^-1 (C y)_R and covariance C_RR^-1, and the others' misfit falls by r
        C_RR r."""
        if len(self.runs) < 3:
            return ()
        inverse, solved = self._solved
        least = max(STRANGE, NormalDist().inv_cdf(1.0 - 0.05 / (2 * self._values.size)))
        found = []
        for place, run in enumerate(self.runs):
            rows = np.flatnonzero(self._of == place)
            if not rows.size:
                continue
            spread = np.linalg.inv(inverse[np.ix_(rows, rows)])
            degrees = self.prior.degrees + self._values.size - rows.size
            others = self.prior.degrees + self._misfit - float(solved[rows] @ spread @ solved[rows])
            deviations = (spread @ solved[rows]) / np.sqrt(np.diag(spread) * others / degrees)
            worst = int(np.argmax(np.abs(deviations)))
            if abs(deviations[worst]) >= least:
                metric = ("TTFT", "TPOT", "end-to-end time")[_metric(self._weights[rows[worst]])]
                found.append(Disagreement(run.key, metric, float(deviations[worst])))
        return tuple(sorted(found, key=lambda one: (-abs(one.deviations), one.key)))

    def likelihood(self) -> float:
        """Log density of the observations: a multivariate t."""
        _, determinant = np.linalg.slogdet(self._solved[0])
        count, degrees = self._values.size, self.prior.degrees
        constant = (
            math.lgamma((degrees + count) / 2) - math.lgamma(degrees / 2) - count / 2 * math.log(degrees * math.pi)
        )
        return constant + float(determinant) / 2 - (degrees + count) / 2 * math.log1p(self._misfit / degrees)


def _metric(weights: FloatArray) -> int:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    ttft_ms: float | None = None
    tpot_ms: float | None = None
    e2e_ms: float | None = None
    output_length: float = 1.0


def probability_of(found: Posterior, predicted: FloatArray, kept: Kept) -> FloatArray:
    """Probability that each setting keeps all limits. `predicted` is [setting, (TTFT, TPOT)] in ms.

    TPOT is integrated over; TTFT is then normal, below its limit and what end-to-end leaves: a request takes TTFT +
    (output - 1) x TPOT."""
    sd = np.maximum(found.sd, 1e-9)
    slope = found.covariance[:, 0, 1] / sd[:, 1] ** 2
    rest = np.sqrt(np.maximum(found.covariance[:, 0, 0] - slope**2 * sd[:, 1] ** 2, 1e-18))
    highest = np.full(len(predicted), _FAR)
    with np.errstate(divide="ignore"):
        if kept.tpot_ms is not None:
            limit = np.log(kept.tpot_ms / predicted[:, 1])
            highest = np.clip((limit - found.mean[:, 1]) / sd[:, 1], -_FAR, _FAR)
        half = (highest + _FAR) / 2.0
        places = half[:, None] * (_NODES + 1.0) - _FAR  # in standard deviations of TPOT
        density = np.exp(-(places**2) / 2.0) / math.sqrt(2.0 * math.pi) * half[:, None] * _WEIGHTS
        room = np.full(places.shape, np.inf if kept.ttft_ms is None else kept.ttft_ms)
        if kept.e2e_ms is not None:
            tpot = predicted[:, 1:] * np.exp(found.mean[:, 1:] + sd[:, 1:] * places)
            room = np.minimum(room, kept.e2e_ms - (kept.output_length - 1.0) * tpot)
        below = np.log(np.maximum(room, 1e-300) / predicted[:, :1])
    mean = found.mean[:, :1] + slope[:, None] * sd[:, 1:] * places
    return np.asarray(np.clip((density * normal_below((below - mean) / rest[:, None])).sum(axis=1), 0.0, 1.0))


def normal_below(values: npt.ArrayLike) -> FloatArray:
    """The machine library's erfc, one by one."""
    flat = np.asarray(values, dtype=np.float64)
    found = [0.5 * math.erfc(-one / math.sqrt(2.0)) for one in flat.ravel().tolist()]
    return np.array(found).reshape(flat.shape)


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
