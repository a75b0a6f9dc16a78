"""Figures of errors as a user's own points have them: nothing is drawn towards other pairs.

Not here: what ships, which states what an unseen pair would have (tools.error_statements)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from store.light_dataclass import dataclass

LEVELS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)  # of the quantiles that are kept
QUANTILE_DIGITS = 4
_SMALLEST = -0.999  # a prediction of nothing has no logarithm


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFigures:
    """Figures of some points; the bias is the median signed error, quantiles are of log(measured / predicted)."""

    points: int
    pairs: int
    agreeing: int  # pairs whose own median error has the sign of the bias
    median_ape_percent: float
    p90_ape_percent: float
    bias_percent: float
    quantiles: tuple[float, ...]  # at LEVELS


def figures_of(errors: Mapping[str, Sequence[float]]) -> ErrorFigures:
    """Figures of signed relative errors by pair; there is at least one.

    Worked: errors of -0.1 and 0.25: sizes 10 and 25 %, median 17.5; measured / predicted = 1 / 0.9 and 1 / 1.25.
    """
    signed = sorted(100.0 * error for values in errors.values() for error in values)
    sizes = sorted(abs(error) for error in signed)
    ratios = sorted(-math.log1p(max(error / 100.0, _SMALLEST)) for error in signed)
    bias = percentile(signed, 50)
    return ErrorFigures(
        points=len(signed),
        pairs=len(errors),
        agreeing=sum(percentile(sorted(values), 50) * bias > 0 for values in errors.values()),
        median_ape_percent=round(percentile(sizes, 50), 2),
        p90_ape_percent=round(percentile(sizes, 90), 2),
        bias_percent=round(bias, 2),
        quantiles=tuple(round(percentile(ratios, 100 * level), QUANTILE_DIGITS) for level in LEVELS),
    )


def percentile(ascending: Sequence[float], share: float) -> float:
    """Linear between the two nearest ranks."""
    place = share / 100.0 * (len(ascending) - 1)
    below = int(place)
    above = min(below + 1, len(ascending) - 1)
    return ascending[below] + (place - below) * (ascending[above] - ascending[below])
