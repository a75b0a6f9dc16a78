"""Statements about an unmeasured pair of device and model: pooling, widening, figures.

Regions: tools.error_regions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import FloatArray
from queries.errors import LEVELS

PRIOR_PAIRS = 4.0  # pairs that the wider circle counts for; chosen by left-out coverage (docs/explanation)
PROMISED = ((0.4, 0.6), (0.85, 0.95))  # shares of left-out points within the stated median, and the stated p90
_PERCENT = 100.0
_TINY = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairErrors:
    """Of one metric, device, model and engine."""

    device: str
    model: str
    kind: str
    engine: str
    errors: FloatArray

    @property
    def pair(self) -> tuple[str, str]:
        """Device and model are left out together."""
        return self.device, self.model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sample:
    """The expected distribution of an unseen pair."""

    errors: FloatArray
    weights: FloatArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Widening that keeps the promise on left-out pairs.

    `median` and `p90` multiply those errors; `shifts` add to the quantiles."""

    median: float = 1.0
    p90: float = 1.0
    shifts: tuple[float, ...] = (0.0,) * len(LEVELS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Percent, and quantiles of log(measured / predicted) at LEVELS."""

    median_ape: float
    p90_ape: float
    bias: float
    quantiles: tuple[float, ...]


def pooled(circles: Sequence[Sequence[PairErrors]]) -> Sample | None:
    """For a pair in none of the groups, ordered from near to far.

    A group of n pairs takes n / (n + k) of the weight left, k = PRIOR_PAIRS; the last takes the rest: a Dirichlet
    process with the wider group as its base (Ferguson 1973, Annals of Statistics 1, 209). Points of a group weigh
    alike. Worked: one pair, three of its engine, twelve in all, k = 4: 1 / 5 = 0.2; 0.8 x 3 / 7 = 0.343; 0.457."""
    held = [circle for circle in circles if circle]
    left, errors, weights = 1.0, [], []
    for place, circle in enumerate(held):
        pairs = len({one.pair for one in circle})
        share = left if place == len(held) - 1 else left * pairs / (pairs + PRIOR_PAIRS)
        left -= share
        values = np.concatenate([one.errors for one in circle])
        errors.append(values)
        weights.append(np.full(values.size, share / values.size))
    return Sample(errors=np.concatenate(errors), weights=np.concatenate(weights)) if errors else None


def weighted_quantiles(values: FloatArray, weights: FloatArray, shares: Sequence[float]) -> FloatArray:
    """Values at the middle of their weight (Hyndman and Fan 1996, definition 5).

    1, 2, 4 of weights 1, 1, 2 are at 1/8, 3/8, 3/4: the median is 2 + 2 x (1/8) / (3/8) = 8/3."""
    order = np.argsort(values, kind="stable")
    mass = weights[order]
    middles = (np.cumsum(mass) - mass / 2) / mass.sum()
    return np.interp(np.asarray(shares, dtype=np.float64), middles, values[order])


def log_ratios(errors: FloatArray) -> FloatArray:
    """log(measured / predicted), from predicted / measured = 1 + error."""
    return -np.log1p(errors)


def stated(sample: Sample, width: Width) -> Statement:
    """Widened; the bias is the widened median's."""
    median, p90 = weighted_quantiles(np.abs(sample.errors), sample.weights, (0.5, 0.9))
    quantiles = _moved(weighted_quantiles(log_ratios(sample.errors), sample.weights, LEVELS), width)
    middle = float(quantiles[LEVELS.index(0.5)])
    size = _PERCENT * width.median * float(median)
    return Statement(
        median_ape=size,
        p90_ape=max(size, _PERCENT * width.p90 * float(p90)),
        bias=_PERCENT * (float(np.exp(-middle)) - 1.0),
        quantiles=tuple(float(value) for value in quantiles),
    )


def _moved(quantiles: FloatArray, width: Width) -> FloatArray:
    """By the shifts; where those pass each other, drawn in or out about the median as the p90 is.

    Shifts are learned without a pair. Where it is the only one of its region, they bring others' quantiles to its own,
    and would move its own past each other: every level would be one number, as if all were certain."""
    shifted: FloatArray = quantiles + np.asarray(width.shifts)
    if (np.diff(shifted) >= 0.0).all():
        return shifted
    middle = quantiles[LEVELS.index(0.5)]
    return np.asarray(middle + width.p90 * (quantiles - middle))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LeftOut:
    """A pair's errors, and the sample without it."""

    pair: tuple[str, str]
    errors: FloatArray
    sample: Sample


def width_of(left_out: Sequence[LeftOut]) -> Width:
    """Makes statements without a pair hold for it.

    Left-out errors over the stated size: the median ratio widens the median, the 90th percentile the p90; quantiles
    shift by what they miss (Romano, Patterson and Candes 2019; Barber et al. 2021, Annals of Statistics 49, 486).
    Worked: 6, 10 and 20 % beside a median of 8 %: 10 / 8 = 1.25."""
    if not left_out:
        return Width()
    said = [(one, stated(one.sample, Width())) for one in left_out]
    medians = [_PERCENT * np.abs(one.errors) / max(plain.median_ape, _TINY) for one, plain in said]
    p90s = [_PERCENT * np.abs(one.errors) / max(plain.p90_ape, _TINY) for one, plain in said]
    missed = np.concatenate([log_ratios(one.errors)[:, None] - np.asarray(plain.quantiles) for one, plain in said])
    return Width(
        median=float(np.quantile(np.concatenate(medians), 0.5)),
        p90=float(np.quantile(np.concatenate(p90s), 0.9)),
        shifts=tuple(float(np.quantile(missed[:, place], level)) for place, level in enumerate(LEVELS)),
    )


def drawn_width(left_out: Sequence[LeftOut], wider: Width) -> Width:
    """Shrunk towards all engines' while the promise holds.

    n pairs weigh n / (n + k). Worked: 2 of four pairs beside 1 of all, k = 4: 2 ** 0.5 = 1.41."""
    own = width_of(left_out)
    pairs = len({one.pair for one in left_out})
    drawn = _between(own, wider, pairs / (pairs + PRIOR_PAIRS))
    return drawn if keeps_promise(coverage(left_out, drawn)) else own


def _between(own: Width, wider: Width, share: float) -> Width:
    shifts = zip(own.shifts, wider.shifts, strict=True)
    return Width(
        median=max(own.median, _TINY) ** share * max(wider.median, _TINY) ** (1 - share),
        p90=max(own.p90, _TINY) ** share * max(wider.p90, _TINY) ** (1 - share),
        shifts=tuple(share * near + (1 - share) * far for near, far in shifts),
    )


def coverage(left_out: Iterable[LeftOut], width: Width) -> tuple[float, float]:
    """Shares of left-out points within the stated median and p90."""
    within: list[NDArray[np.bool_]] = []
    for one in left_out:
        said = stated(one.sample, width)
        within.append(_PERCENT * np.abs(one.errors)[:, None] <= np.asarray([said.median_ape, said.p90_ape]))
    share = np.concatenate(within).mean(axis=0) if within else np.asarray([0.5, 0.9])
    return float(share[0]), float(share[1])


def keeps_promise(shares: tuple[float, float]) -> bool:
    """About half, and about nine tenths."""
    return all(low <= share <= high for share, (low, high) in zip(shares, PROMISED, strict=True))
