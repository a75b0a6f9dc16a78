"""Replicas through a day: the schedule against every other one, and what a planner does that follows the rate."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from evaluator.arrivals import QueueTarget, Scaling, reactive, scheduled, static
from evaluator.arrivals.day.days import day_times, drawn_log
from evaluator.arrivals.day.scaling import Follower
from evaluator.inputs.workloads.day_rates import Day, LengthBins

USUAL = {"start_up": 5, "cool_down": 10}


def fewest(needed, scaling):
    """Paid hours of the best of all sequences: an hour is at least what it and the cool-down before it need."""
    before = scaling.cool_down // 60
    least = [max(needed[max(0, hour - before) : hour + 1]) for hour in range(len(needed))]
    costs = []
    for counts in product(range(max(needed) + 1), repeat=len(needed)):
        if all(count >= floor for count, floor in zip(counts, least, strict=True)):
            starts = sum(max(0, now - then) for then, now in zip((0, *counts), counts, strict=False))
            costs.append(60 * sum(counts) + starts * scaling.start_up)
    return min(costs)


@pytest.mark.parametrize(("start_up", "cool_down"), [(0, 0), (60, 0), (90, 60), (150, 60), (30, 120)])
def test_no_other_schedule_of_a_small_day_takes_less(start_up, cool_down):
    scaling = Scaling(start_up=start_up, cool_down=cool_down)
    for needed in product(range(1, 4), repeat=5):
        found = scheduled(np.asarray(needed), scaling, 300)
        assert (found.of_hours() >= needed).all()
        assert found.paid_minutes == fewest(needed, scaling)


def test_needed_is_what_carries_the_rate_and_the_spare_ones_within_the_least():
    rates = np.asarray([0.0, 2.0, 4.0, 4.1, 20.0])
    assert Scaling(**USUAL, spare=1).needed(rates, 2.0).tolist() == [2, 2, 3, 4, 11]
    assert Scaling(**USUAL, minimum=3).needed(rates, 2.0).tolist() == [3, 3, 3, 3, 10]


def test_static_runs_what_the_busiest_hour_needs_and_starts_once():
    found = static(np.asarray([1, 3]), Scaling(**USUAL), 120)
    assert (set(found.ready.tolist()), found.paid_minutes) == ({3}, 3 * 125)


def test_a_planner_is_late_by_a_minute_and_the_start_and_stops_after_the_cool_down():
    rates = np.asarray([1.0, 3.0, 3.0, 3.0, 3.0, 3.0, 1.0, 1.0, 1.0, 1.0])
    found = reactive(rates, 1.0, Scaling(start_up=2, cool_down=1))
    # Three are asked for in minute 2 and serve from minute 4; the last minute that asks is 6, and 7 is the cool-down.
    assert found.ready.tolist() == [1, 1, 1, 1, 3, 3, 3, 3, 1, 1]
    assert found.paid_minutes == 1 * 4 + 3 * 6 + 2
    assert reactive(rates, 1.0, Scaling(**USUAL, maximum=2)).ready.max() <= 2


def test_a_planner_that_counts_requests_is_as_late_and_stops_after_the_cool_down():
    follower = Follower(
        QueueTarget(counted="queue", per_replica=5.0), Scaling(start_up=2, cool_down=1, maximum=4, spare=1), 2
    )
    # One and a spare at first. 11 wait before minute 2: three and a spare, from minute 4 to the cool-down after 6.
    ready = [follower.ready(minute, counted) for minute, counted in enumerate([0, 0, 11, 11, 50, 11, 11, 0, 0, 0])]
    assert ready == [2, 2, 2, 2, 4, 4, 4, 4, 2, 2]
    assert follower.scaled.ready.tolist() == ready
    assert follower.scaled.paid_minutes == 2 * 4 + 4 * 6 + 2 * 2  # and the start of the first two


def test_each_minute_gets_its_rate_and_none_where_it_is_0():
    times = day_times(np.arange(1.0, 481.0), np.asarray([2.0, 0.0, 6.0]))
    assert np.bincount((times // 60).astype(int), minlength=3) == pytest.approx([120, 0, 360], abs=1)
    assert (np.diff(times) > 0).all()
    assert times[-1] <= 180


def test_requests_of_a_minute_have_its_lengths_as_often_as_their_rates_say():
    minutes = np.asarray([0, 0, 1, 2, 2])
    rates = np.asarray([30.0, 10.0, 20.0, 0.0, 20.0])
    lengths = np.asarray([1, 2, 3, 4, 5])
    bins = LengthBins(minute=minutes, rate_per_s=rates, input_length=lengths, output_length=lengths, sha256="")
    day = Day(rates_per_s=np.bincount(minutes, weights=rates), bins=bins)
    log = drawn_log(day, 1)
    counted = [np.bincount(log.input_lengths[log.times // 60 == minute], minlength=6).tolist() for minute in range(3)]
    # 2,400, 1,200 and 1,200 requests: the standard error of a quarter of 2,400 is 21.
    assert counted[0][1:3] == [pytest.approx(1_800, abs=85), pytest.approx(600, abs=85)]
    assert (sum(counted[0][3:]), counted[1][3], counted[2][5]) == (0, sum(counted[1]), sum(counted[2]))
    assert sum(map(sum, counted)) == 4_800
