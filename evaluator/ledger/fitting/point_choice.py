"""Which settings of a server are worth measuring: those that say most about all others, before anything is measured.

Source: D. Cohn, Neural network exploration using optimal experiment design, Neural Networks 9 (1996): the next point is
the one after which the least is left unknown everywhere. Not here: what points then correct
(evaluator.ledger.fitting.near_fit)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.inputs.engines.nearness import Nearby, alike
from evaluator.ledger.fitting.near_fit import NOISE, SPREAD

MOST_PLACES = 2000  # that are weighed against each other


def worth_measuring(places: Sequence[Nearby], count: int) -> list[int]:
    """Up to `count` of the places, the one that says most first; of equal ones the first."""
    if len(places) > MOST_PLACES:
        raise ValueError(f"{len(places)} places, of {MOST_PLACES} at most")
    unknown: FloatArray = np.stack([alike(places, one) for one in places]) if places else np.zeros((0, 0))
    noise = (NOISE / SPREAD) ** 2
    chosen: list[int] = []
    for _ in range(min(count, len(places))):
        # A measured place takes out of every other what both have in common: the sum of squares over its own spread.
        gain = np.sum(unknown * unknown, axis=0) / (np.diag(unknown) + noise)
        gain[chosen] = -1.0
        best = int(np.argmax(gain))
        chosen.append(best)
        known = unknown[:, best].copy()
        unknown = unknown - np.outer(known, known) / (known[best] + noise)
    return chosen
