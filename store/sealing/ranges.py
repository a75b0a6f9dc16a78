"""Sets of integer keys as sorted, disjoint, inclusive ranges: short even for millions of consecutive keys."""

from __future__ import annotations

from collections.abc import Iterable

Range = tuple[int, int]
Ranges = tuple[Range, ...]

LARGEST_KEY = 2**63 - 1


def ranges_of(keys: Iterable[int]) -> Ranges:
    """Return the ranges that hold exactly these keys; ranges never bridge an absent key."""
    return merged((key, key) for key in keys)


def merged(ranges: Iterable[Range]) -> Ranges:
    """Return the union of ranges."""
    result: list[Range] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def complement(ranges: Iterable[Range]) -> Ranges:
    """Return what the ranges leave out between 0 and the largest key."""
    result: list[Range] = []
    start = 0
    for low, high in merged(ranges):
        if low > start:
            result.append((start, low - 1))
        start = high + 1
    if start <= LARGEST_KEY:
        result.append((start, LARGEST_KEY))
    return tuple(result)


def overlap(left: Iterable[Range], right: Iterable[Range]) -> bool:
    """Tell whether two sets share a key."""
    pairs = [*((low, high) for low, high in left), *((low, high) for low, high in right)]
    pairs.sort()
    return any(pairs[i][1] >= pairs[i + 1][0] for i in range(len(pairs) - 1))
