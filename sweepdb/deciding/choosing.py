"""Worth of starts, over draws of what runs would measure.

In each drawn world a start brings its best setting's gain over the best measured one; its worth is the average."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

BELIEVED = 0.6  # probability from which on a setting that nobody measured is an answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Worlds:
    starts: NDArray[np.int64]  # the server that each is a load of
    worth: NDArray[np.float64]
    measured: NDArray[np.float64]  # what it brought in a run; 0 where that missed a limit, NaN where none was made
    believed: float = BELIEVED

    @property
    def holds(self) -> NDArray[np.float64]:
        found: NDArray[np.float64] = (self.worth > 0.0).mean(axis=0)
        return found

    @property
    def best_measured(self) -> int | None:
        kept = np.nan_to_num(self.measured)
        return int(kept.argmax()) if kept.size and kept.max() > 0.0 else None

    @property
    def chosen(self) -> int | None:
        """The best measured, else the most promising that is believed to hold."""
        if (best := self.best_measured) is not None:
            return best
        return self.promising(np.arange(len(self.worth)))

    def promising(self, worlds: NDArray[np.int64]) -> int | None:
        worth = self.worth[worlds]
        believed = ((worth > 0.0).mean(axis=0) >= self.believed) & np.isnan(self.measured)
        expected = np.where(believed, worth.mean(axis=0), 0.0)
        return int(expected.argmax()) if believed.any() else None

    def first_starts(self, count: int) -> Iterator[tuple[int, float]]:
        """With gains, the best first, each on top of those before."""
        reached = self._reached()
        tried = set[int]()
        for _ in range(count):
            gains = {start: float((np.maximum(reached, best) - reached).mean())
                     for start, best in self._bests() if start not in tried}  # fmt: skip
            if not gains:
                return
            start = max(gains, key=lambda one: (gains[one], -one))
            yield start, gains[start]
            tried.add(start)
            reached = np.maximum(reached, self.of_start(start))

    def ladder(self, start: int, most: int) -> list[int]:
        """Worth a run, the best first."""
        left = [int(place) for place in np.flatnonzero((self.starts == start) & np.isnan(self.measured))]
        reached, found = self._reached(), list[int]()
        while left and len(found) < most:
            gains = [float((np.maximum(reached, self.worth[:, place]) - reached).mean()) for place in left]
            if found and max(gains) <= 0.0:
                break
            found.append(left.pop(int(np.argmax(gains))))
            reached = np.maximum(reached, self.worth[:, found[-1]])
        return found

    def of_start(self, start: int) -> NDArray[np.float64]:
        found: NDArray[np.float64] = self.worth[:, (self.starts == start) & np.isnan(self.measured)].max(
            axis=1, initial=0.0
        )
        return found

    def _reached(self) -> NDArray[np.float64]:
        return np.full(len(self.worth), np.nan_to_num(self.measured).max(initial=0.0))

    def _bests(self) -> Iterator[tuple[int, NDArray[np.float64]]]:
        for start in np.unique(self.starts[np.isnan(self.measured)]):
            yield int(start), self.of_start(int(start))
