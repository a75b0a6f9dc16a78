"""Gathers what comes one by one into lists that are stored together. Not here: what is stored (evaluator.sweep)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

_Item = TypeVar("_Item")


def in_lists(items: Iterable[_Item], most: int, wait_s: float = math.inf) -> Iterator[list[_Item]]:
    """Items in lists of `most`, or of fewer once making a list has taken `wait_s`."""
    waiting: list[_Item] = []
    since = time.monotonic()
    for item in items:
        waiting.append(item)
        if len(waiting) >= most or time.monotonic() - since >= wait_s:
            yield waiting
            waiting, since = [], time.monotonic()
    if waiting:
        yield waiting
