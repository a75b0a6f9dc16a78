"""Shares and goodput in plain Python over the cells of loads, for tests to compare answers with. No SQL of reports."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from math import exp, log, log10

import numpy as np

from queries.connect import connect

LEVELS = 16


def bent(share):
    """In which a curve of shares over rates is nearly a line."""
    share = min(max(share, 0.0), 1.0)
    return log((share + 0.02) / (1.02 - share))


def unbent(bend):
    return (1.02 * exp(bend) - 0.02) / (1 + exp(bend))


class PartedCells(list[tuple[int, ...]]):
    """The cells of a load, and by (metric, bin) how many requests of a bin lie below each of its parts."""

    def __init__(self, cells=(), below=None) -> None:
        super().__init__(cells)
        self.below: dict[tuple[int, int], list[int]] = below or {}


def stored_cells(connection) -> dict[int, PartedCells]:
    connection.provide({"load_cell", "load_uneven"})
    found: dict[int, PartedCells] = defaultdict(PartedCells)
    for load, *cell in connection.execute("SELECT * FROM load_cell").fetchall():
        found[load].append(tuple(cell))
    for metric, bin_, load, below in connection.execute("SELECT * FROM raw.load_uneven").fetchall():
        found[load].below[metric, bin_] = below
    return found


def inside(limit: float | None, bin_: int, below: list[int] | None = None) -> float:
    """How much of a bin lies below a limit: evenly in the logarithm, or in that of its sixteenths."""
    if limit is None:
        return 1.0
    share = float(min(max(32 * log10(max(limit, 1e-9) / 0.01) - bin_, 0.0), 1.0))
    return share if below is None else float(np.interp(16 * share, range(17), below)) / below[-1]


def shares_of(rows, ttft, tpot, *, marginal=False):
    """Share of requests at each rate, and its half width."""
    found = []
    for rate, counted, outside, cells in rows:
        steps = None if ttft is None else ttft - outside
        below = getattr(cells, "below", {})
        weights = [(inside(steps, c[0], below.get((0, c[0]))), inside(tpot, c[1], below.get((1, c[1])))) for c in cells]
        batches = np.asarray([[x * y * count for count in c[2:]] for (x, y), c in zip(weights, cells, strict=True)])
        alone = [sum(w[side] * sum(c[2:]) for w, c in zip(weights, cells, strict=True)) for side in (0, 1)]
        share = min(alone) if marginal else float(batches.sum())
        width = 2.776 * float(np.std(batches.sum(axis=0), ddof=1)) * 5**0.5
        found.append((rate, share / counted, width / counted))
    return found


def crossing(curve, wanted):
    """(goodput, said) of a curve of (rate, share)."""
    if curve[0][1] < wanted:
        return None, "below the lowest rate simulated"
    for (before, enough), (rate, share) in pairwise(curve):
        if share < wanted:
            again = any(later > rate and other >= wanted for later, other in curve)
            return before + (bent(enough) - bent(wanted)) / (bent(enough) - bent(share)) * (
                rate - before
            ), "not monotone" if again else None
    return curve[-1][0], "the highest rate simulated"


def ladders_of(url):
    """(rate, counted, outside, cells) of every load by rate, by (phase, device, plan) and the devices of an instance."""
    with connect(url) as connection:
        loads = connection.execute(
            "SELECT phase, device, plan, num_devices, arrivals_per_s, counted_requests, outside_ms, load_id FROM load"
            " ORDER BY arrivals_per_s"
        ).fetchall()
        cells = stored_cells(connection)
    found: dict[tuple[str, str, str, int], list[tuple]] = {}
    for phase, device, plan, size, rate, counted, outside, load in loads:
        found.setdefault((phase, device, plan, size), []).append((rate, counted, outside, cells[load]))
    return found


def goodput_of(rows, ttft, tpot, wanted, *, marginal=False):
    curve = [(rate, share) for rate, share, _ in shares_of(rows, ttft, tpot, marginal=marginal)]
    return crossing(curve, wanted)[0] or 0.0


def side_levels(rows, ttft, tpot, wanted):
    """Rates of a side at each level of a share: wanted to the power of sixteenths."""
    curve = [(rate, share) for rate, share, _ in shares_of(rows, ttft, tpot)]
    return [crossing(curve, wanted ** (level / LEVELS) - 1e-12)[0] or 0.0 for level in range(LEVELS + 1)]


def pair_goodput(prefill, decode, counts):
    """What so many instances of both sides carry, from their rates by level."""
    return max(min(counts[0] * p, counts[1] * d) for p, d in zip(prefill, reversed(decode), strict=True))
