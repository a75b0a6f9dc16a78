"""Joint counts of (TTFT, TPOT) in logarithmic bins by batch; limits are read from them later."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, exp
from store.light_dataclass import dataclass
from store.loads import PARTS_OF_A_BIN

BINS_A_DECADE = 32
DECADES = 9
SMALLEST_MS = 0.01  # where bin 0 begins; what is shorter is in it, too
BINS = BINS_A_DECADE * DECADES
BATCHES = 5  # of equal size, in the order of arrival: their spread gives the interval of any share
_UNEVEN = 0.004  # of all requests: how many more may lie below an edge of a part than if they were even
_LN_10 = 2.302585092994046


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """Empty cells are left out."""

    ttft_bin: Integers
    tpot_bin: Integers
    requests: Integers


@lru_cache(maxsize=2)
def edges_ms(parts: int = 1) -> FloatArray:
    """Bin edges are edges of parts, bit for bit."""
    edges = SMALLEST_MS * exp(_LN_10 / (BINS_A_DECADE * parts) * np.arange(BINS * parts + 1))
    edges.setflags(write=False)
    return edges


def bins_of(times_ms: FloatArray, parts: int = 1) -> Integers:
    """The first and last bins hold everything beyond."""
    edges = edges_ms(parts)
    return np.clip(np.searchsorted(edges, times_ms, side="right") - 1, 0, edges.size - 2).astype(np.int64)


def counted_parts(ttft_ms: FloatArray, tpot_ms: FloatArray) -> Integers:
    """Sixteenths of unevenly filled bins: rows of metric (0 TTFT, 1 TPOT), part, requests.

    Single requests take equal times, which crowds a bin. The outer bins have no parts."""
    found = []
    for metric, times in enumerate((ttft_ms, tpot_ms)):
        every = np.bincount(bins_of(times, PARTS_OF_A_BIN), minlength=BINS * PARTS_OF_A_BIN)
        counts = every.reshape(BINS, PARTS_OF_A_BIN)
        below = np.cumsum(counts, axis=1)
        even = below[:, -1:] * (np.arange(1, PARTS_OF_A_BIN + 1) / PARTS_OF_A_BIN)
        uneven = np.abs(below - even).max(axis=1) > _UNEVEN * times.size
        uneven[[0, -1]] = False
        places = np.flatnonzero((counts > 0) & uneven[:, None])
        found.append(np.column_stack((np.full(places.size, metric), places, every[places])))
    return np.concatenate(found).astype(np.int64)


def counted_cells(ttft_ms: FloatArray, tpot_ms: FloatArray, batch: Integers) -> Cells:
    places = bins_of(ttft_ms) * BINS + bins_of(tpot_ms)
    found, inverse = np.unique(places, return_inverse=True)
    counts = np.bincount(inverse * BATCHES + batch, minlength=found.size * BATCHES).reshape(-1, BATCHES)
    return Cells(ttft_bin=found // BINS, tpot_bin=found % BINS, requests=counts.astype(np.int64))
