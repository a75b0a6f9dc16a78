"""Joint counts of (TTFT, TPOT) in logarithmic bins, by batch of requests: all that is kept of a play.

Any limit is read from these counts later. Not here: how a count is read (queries/reports/goodput.sql)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, exp

BINS_A_DECADE = 32
DECADES = 9
SMALLEST_MS = 0.01  # where bin 0 begins; what is shorter is in it, too
BINS = BINS_A_DECADE * DECADES
BATCHES = 5  # of equal size, in the order of arrival: their spread gives the interval of any share
_LN_10 = 2.302585092994046


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cells:
    """Counts of requests by bin of TTFT and of TPOT, a column for each batch. Cells with none are left out."""

    ttft_bin: Integers
    tpot_bin: Integers
    requests: Integers


@lru_cache(maxsize=1)
def edges_ms() -> FloatArray:
    """Where bins begin, and where the last one ends."""
    edges = SMALLEST_MS * exp(_LN_10 / BINS_A_DECADE * np.arange(BINS + 1))
    edges.setflags(write=False)
    return edges


def bins_of(times_ms: FloatArray) -> Integers:
    """The bin of each time; the first and the last hold everything beyond."""
    return np.clip(np.searchsorted(edges_ms(), times_ms, side="right") - 1, 0, BINS - 1).astype(np.int64)


def counted_cells(ttft_ms: FloatArray, tpot_ms: FloatArray, batch: Integers) -> Cells:
    """Count requests."""
    places = bins_of(ttft_ms) * BINS + bins_of(tpot_ms)
    found, inverse = np.unique(places, return_inverse=True)
    counts = np.bincount(inverse * BATCHES + batch, minlength=found.size * BATCHES).reshape(-1, BATCHES)
    return Cells(ttft_bin=found // BINS, tpot_bin=found % BINS, requests=counts.astype(np.int64))
