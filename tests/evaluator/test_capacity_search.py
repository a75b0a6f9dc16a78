"""Replicas by hour from a simulation: against every other number of a small day, where hours decide for themselves."""

from __future__ import annotations

import numpy as np
import pytest

from evaluator.arrivals.day.scaling import LimitsUnmetError, fewest_by_hour


class Simulated:
    """Hours that need so many; what an hour lacks waits, and is asked of the next one too."""

    def __init__(self, needs, left=0.0):
        self.needs, self.left, self.count = np.asarray(needs), left, 0

    def missed(self, replicas):
        self.count += 1
        late, waiting = [], 0.0
        for need, has in zip(self.needs, replicas, strict=True):
            late.append(need + waiting > has)
            waiting = self.left * max(0.0, need - has)
        return np.asarray(late)


@pytest.mark.parametrize("left", [0.0, 0.5])
@pytest.mark.parametrize("goodput_off_by", [0.1, 0.5, 1.0, 2.0, 9.0])
def test_every_hour_gets_what_it_needs_and_no_more(left, goodput_off_by):
    needs = np.random.default_rng(4).integers(1, 40, size=24)
    simulated = Simulated(needs, left)
    first = np.maximum(1, np.rint(needs * goodput_off_by).astype(int))
    assert fewest_by_hour(simulated.missed, first, 1).tolist() == needs.tolist()
    assert simulated.count <= 64


def test_none_falls_below_the_least():
    assert fewest_by_hour(Simulated([1, 3, 1]).missed, np.asarray([5, 5, 2]), 2).tolist() == [2, 3, 2]


def test_an_hour_that_no_replicas_help_is_named():
    with pytest.raises(LimitsUnmetError) as caught:
        fewest_by_hour(Simulated([1, 10**6, 1]).missed, np.asarray([1, 1, 1]), 1)
    assert caught.value.hour == 1
