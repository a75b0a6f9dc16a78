"""Compositions and packed steps of ever larger batches of one length distribution, made once and then sliced.

Plans, phases and the search for the largest batch ask for the same batches again: 1, 2, 3 ... times a stride (the
pipeline's micro-batches)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import field

import numpy as np

from evaluator.arithmetic import Integers
from evaluator.serving.waves.packing import PackedSteps, joined
from store.light_dataclass import dataclass

# What one ladder may keep: 35 bins up to batch size 8,192, or a quarter of a million steps of five numbers.
LARGEST_COMPOSITION = 300_000
LARGEST_STEP_COUNT = 250_000
STRIDES_KEPT = 8


@dataclass(slots=True)
class CompositionLadder:
    """Requests of each bin in batches of 1, 2, 3 ... strides. `compose` gives those of any batches."""

    compose: Callable[[Integers], Integers]
    bins: int
    _kept: dict[int, Integers] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def rows(self, requests: Integers) -> Integers:
        rungs = _rungs(requests)
        if rungs is None or rungs.last * self.bins > LARGEST_COMPOSITION:
            return self.compose(requests)
        with self._lock:
            known = self._kept.pop(rungs.stride, None)
            have = 0 if known is None else len(known)
            if known is None or have < rungs.last:
                more = self.compose(rungs.stride * np.arange(have + 1, rungs.last + 1, dtype=np.int64))
                known = more if known is None else np.concatenate((known, more))
                known.setflags(write=False)
            self._kept[rungs.stride] = known
            _forget_oldest(self._kept)
        return known[rungs.first - 1 : rungs.last]


@dataclass(slots=True)
class StepLadder:
    """Packed steps of batches of 1, 2, 3 ... strides. `pack` gives those of any batches, `steps` counts them."""

    pack: Callable[[Integers], PackedSteps]
    steps: Callable[[Integers], int]
    _kept: dict[int, PackedSteps] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def packed(self, requests: Integers) -> PackedSteps:
        rungs = _rungs(requests)
        if rungs is None or rungs.first != 1 or self.steps(requests) > LARGEST_STEP_COUNT:
            return self.pack(requests)
        with self._lock:
            known = self._kept.pop(rungs.stride, None)
            have = 0 if known is None else known.count.size
            if known is None or have < rungs.last:
                more = self.pack(requests[have:])
                known = more if known is None else joined(known, more)
            self._kept[rungs.stride] = known
            _forget_oldest(self._kept)
        return known.head(rungs.last)


@dataclass(frozen=True, slots=True)
class _Rungs:
    stride: int
    first: int
    last: int


def _rungs(requests: Integers) -> _Rungs | None:
    if requests.size < 2:
        return None
    start, stride = int(requests[0]), int(requests[1] - requests[0])
    if stride < 1 or start < stride or start % stride or not (np.diff(requests) == stride).all():
        return None
    return _Rungs(stride, start // stride, start // stride + requests.size - 1)


def _forget_oldest(kept: dict[int, Integers] | dict[int, PackedSteps]) -> None:
    while len(kept) > STRIDES_KEPT:
        del kept[next(iter(kept))]
