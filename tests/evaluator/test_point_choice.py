"""Which settings are worth measuring: each next one leaves least unknown, as a plain inverse has it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from evaluator.inputs.engines.engine_profiles import Nearby
from evaluator.ledger.fitting.near_fit import MOST_PLACES, NOISE, SPREAD, worth_measuring
from evaluator.serving.engine.closed_run import alike


def places(users=(1, 4, 16, 64), lengths=((1000, 100), (4000, 100), (1000, 1000)), devices=(1, 4)) -> list[Nearby]:
    return [
        Nearby(users=float(one), input_length=float(prompt), output_length=float(answer), devices=float(count))
        for one, (prompt, answer), count in itertools.product(users, lengths, devices)
    ]


def unknown_after(found, chosen) -> float:
    """What is left unknown over all places once some are measured: the trace of the posterior covariance."""
    whole = np.stack([alike(found, one) for one in found])
    known = whole[np.ix_(chosen, chosen)] + (NOISE / SPREAD) ** 2 * np.eye(len(chosen))
    return float(np.trace(whole - whole[:, chosen] @ np.linalg.inv(known) @ whole[chosen]))


def test_each_next_one_leaves_the_least_unknown():
    found = places()
    chosen = worth_measuring(found, 8)
    assert len(set(chosen)) == 8
    for number, place in enumerate(chosen):
        before = chosen[:number]
        left = {one: unknown_after(found, [*before, one]) for one in range(len(found)) if one not in before}
        assert left[place] == pytest.approx(min(left.values()), rel=1e-9)


def test_it_says_more_of_the_rest_than_as_many_in_their_order():
    found = places()
    in_order = [index * len(found) // 6 for index in range(6)]
    assert unknown_after(found, worth_measuring(found, 6)) < unknown_after(found, in_order)


def test_a_setting_that_stands_twice_is_measured_once_first():
    found = [*places(users=(1, 64)), *places(users=(1, 64))]
    assert len({found[one] for one in worth_measuring(found, len(found) // 2)}) == len(found) // 2


@pytest.mark.parametrize(("count", "wanted"), [(0, 0), (3, 3), (99, 24)])
def test_there_are_as_many_as_asked_for_or_all(count, wanted):
    assert len(worth_measuring(places(), count)) == wanted


def test_none_of_none_and_too_many_is_an_error():
    assert worth_measuring([], 5) == []
    with pytest.raises(ValueError, match=f"of {MOST_PLACES} at most"):
        worth_measuring(places() * (MOST_PLACES // 24 + 1), 5)
