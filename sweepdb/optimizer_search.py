"""The batch sizes that the seeds' program looks at: doubling until something breaks, then bisecting. Rows stay whole.

It keeps what it finds within the limits, so that its best row is the best of those and not of all batch sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from queries.asking import Answer

FIRST_LARGEST = 512
DOUBLINGS = 10
MOST_FACTOR = 4  # tokens of a step over those of a prompt, where no budget is given


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """Batch sizes of a scenario that a search found, and the `best` of them.

    The scenario is named by the first letters of its key; `held` says whether memory holds the smallest batch."""

    scenario: str
    batch_sizes: tuple[int, ...]
    best: tuple[int, ...]
    held: bool


def bisected(fits: Collection[int], first: int, last: int | None) -> list[int]:
    """Batch sizes that a search from `first` to `last` finds; None is as far as doubling goes."""
    if first not in fits:
        return []
    low, high = first, FIRST_LARGEST if last is None else last
    if last is None:
        for _ in range(DOUBLINGS):
            if high not in fits:
                break
            low, high = high, 2 * high
    kept = []
    while low <= high:
        middle = (low + high) // 2
        if middle in fits:
            kept.append(middle)
            low = middle + 1
        else:
            high = middle - 1
    return kept


def looked_at(
    curve: Answer, batch_range: tuple[int, int | None], *, ttft_ms: float | None, tpot_ms: float | None
) -> Iterator[Looked]:
    """A search of each scenario of a curve, which has every row that fits memory."""
    rows: dict[str, dict[int, bool]] = defaultdict(dict)
    order: dict[str, dict[int, tuple[float, float, int]]] = defaultdict(dict)
    for row in curve.dicts():
        scenario, _, size = str(row["probe"]).partition(":")
        rows[scenario][int(size)] = _within(row["ttft_ms"], ttft_ms) and _within(row["tpot_ms"], tpot_ms)
        # Rates are equal that print alike: the shorter wait is better then.
        latency = row["ttft_ms"] if row["tpot_ms"] is None else row["tpot_ms"]
        order[scenario][int(size)] = (-round(float(str(row["rate"])), 3), float(str(latency)), int(size))
    first, last = batch_range
    for scenario, found in rows.items():
        fits = {size for size, kept in found.items() if kept}
        sizes = bisected(fits, first, last)
        best = sorted(sizes, key=lambda size: order[scenario][size])[:1]
        yield Looked(scenario=scenario, batch_sizes=tuple(sizes), best=tuple(best), held=first in found)


def _within(value: object, limit: float | None) -> bool:
    return limit is None or value is None or float(str(value)) <= limit
