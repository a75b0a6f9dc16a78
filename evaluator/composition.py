"""Which requests a batch holds when prompt lengths are distributed: largest remainder over the bins.

Not here: what such a batch costs (the four sums are handed to evaluator.step)."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Ties = Literal["first", "last"]
Integers = NDArray[np.int64]


def largest_remainder(batch_sizes: Integers, weights: NDArray[np.float64], *, ties: Ties = "first") -> Integers:
    """Requests of each bin (columns) in a batch of each size (rows): floors first, then the largest remainders.

    Seed 002, 4.3. Equal remainders go to the first bin, or to the last as upstream does (bins ascend in length)."""
    ideal = np.asarray(batch_sizes, dtype=np.float64)[:, None] * (weights / weights.sum())
    # 0.1 x 30 is 3.0000000000000004 in binary: compare remainders at a grain far above rounding, far below a request.
    ideal = np.round(ideal, 9)
    samples = np.floor(ideal).astype(np.int64)
    remainder = np.round(ideal - samples, 9)
    missing = np.asarray(batch_sizes, dtype=np.int64) - samples.sum(axis=1)
    rank = _rank_descending(remainder, ties)
    return np.asarray(samples + (rank < missing[:, None]), dtype=np.int64)


def _rank_descending(values: NDArray[np.float64], ties: Ties) -> Integers:
    if ties == "last":
        return _rank_descending(values[:, ::-1], "first")[:, ::-1]
    order = np.argsort(-values, axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(values.shape[1]), values.shape), axis=1)
    return rank


def realised_mean(samples: Integers, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean length of each composed batch, in tokens."""
    return np.asarray((samples * lengths).sum(axis=1) / samples.sum(axis=1))
