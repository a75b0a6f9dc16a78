"""Which requests a batch holds when prompt lengths are distributed: largest remainder over the bins.

Not here: what such a batch costs (the four sums are handed to evaluator.pricing.step)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evaluator.arithmetic import Integers

Ties = Literal["first", "last"]
# 0.1 x 30 is 3.0000000000000004 in binary: compare remainders at a grain far above rounding, far below a request.
_GRAIN_DIGITS = 9
_GRAINS = 10**_GRAIN_DIGITS


def largest_remainder(batch_sizes: Integers, weights: NDArray[np.float64], *, ties: Ties = "first") -> Integers:
    """Requests of each bin (columns) in a batch of each size (rows): floors first, then the largest remainders.

    Seed 002, 4.3. Equal remainders go to the first bin, or to the last as upstream does (bins ascend in length)."""
    sizes = np.asarray(batch_sizes, dtype=np.int64)
    # 10 requests, weights 1/4, 1/4, 1/2: 2.5, 2.5 and 5 become 3, 2 and 5, or upstream's 2, 3 and 5.
    ideal = np.round(sizes.astype(np.float64)[:, None] * (weights / weights.sum()), _GRAIN_DIGITS)
    floors = np.floor(ideal)
    samples = floors.astype(np.int64)
    missing = sizes - samples.sum(axis=1)
    # One whole number a bin, the wanted ones lowest: larger remainders, then the tie rule. All differ within a row.
    bins = weights.size
    order = np.arange(bins) if ties == "first" else np.arange(bins)[::-1]
    wanted = order - np.rint((ideal - floors) * _GRAINS).astype(np.int64) * bins
    last = np.take_along_axis(np.sort(wanted, axis=1), np.maximum(missing - 1, 0)[:, None], axis=1)
    return np.asarray(samples + ((wanted <= last) & (missing > 0)[:, None]), dtype=np.int64)


def realised_mean(samples: Integers, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean length of each composed batch, in tokens."""
    return np.asarray((samples * lengths).sum(axis=1) / samples.sum(axis=1))
