"""Integer keys as sorted, disjoint, inclusive ranges, short even for millions."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable

Range = tuple[int, int]
Ranges = tuple[Range, ...]

LARGEST_KEY = 2**63 - 1


def ranges_of(keys: Iterable[int]) -> Ranges:
    """Exactly these keys: ranges bridge no gap."""
    return merged((key, key) for key in keys)


def merged(ranges: Iterable[Range]) -> Ranges:
    result: list[Range] = []
    for low, high in sorted(ranges):
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def complement(ranges: Iterable[Range]) -> Ranges:
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
    pairs = [*((low, high) for low, high in left), *((low, high) for low, high in right)]
    pairs.sort()
    return any(pairs[i][1] >= pairs[i + 1][0] for i in range(len(pairs) - 1))


def within(key: int, ranges: Ranges) -> bool:
    place = bisect_right(ranges, (key, LARGEST_KEY)) - 1
    return place >= 0 and ranges[place][1] >= key


def meets(left: Ranges, right: Ranges) -> bool:
    """Share a key; quick where one has few ranges."""
    few, many = (left, right) if len(left) <= len(right) else (right, left)
    for low, high in few:
        place = bisect_right(many, (high, LARGEST_KEY)) - 1
        if place >= 0 and many[place][1] >= low:
            return True
    return False


def without(ranges: Ranges, taken: Ranges) -> Ranges:
    return complement((*complement(ranges), *taken)) if taken else ranges


def as_parameter(ranges: Ranges, part: int = 0) -> str:
    return json.dumps([[part, low, high] for low, high in ranges])
