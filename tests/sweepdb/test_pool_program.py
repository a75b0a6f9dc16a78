"""Models on one pool of devices: HiGHS against every answer of small days."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sweepdb.scheduling.pool_program import Choice, Pool, allotted

pytest.importorskip("highspy")


def every_answer(models, pool):
    """Lost requests and device-minutes of every possible answer."""
    hours = range(pool.minutes.size)
    for chosen in product(*(choices for choices, _ in models)):
        counts = [range(pool.minimum, pool.devices[choice.device] // choice.num_devices + 1) for choice in chosen]
        for day in product(product(*counts), repeat=len(hours)):
            starts = [
                [
                    max(0, now - before)
                    for now, before in zip(day[hour], day[hour - 1] if hour else [0] * 9, strict=False)
                ]
                for hour in hours
            ]
            costs = [choice.cost * choice.num_devices for choice in chosen]
            if not all(fits(chosen, day, starts, kind, pool) for kind in pool.devices):
                continue
            lost = sum(
                requests[hour] * max(0.0, 1 - day[hour][place] / max(1, chosen[place].needed[hour]))
                for place, (_, requests) in enumerate(models)
                for hour in hours
            )
            paid = (
                pool.minutes[hour] * np.asarray(day[hour]) + pool.start_up * np.asarray(starts[hour]) for hour in hours
            )
            yield round(lost, 6), float(sum(np.dot(costs, one) for one in paid))


def fits(chosen, day, starts, kind, pool):
    """Whether the devices of a kind are enough in every hour, and for those that start beside the ones that serve."""
    sizes = [choice.num_devices * (choice.device == kind) for choice in chosen]
    serving = [np.dot(sizes, one) for one in day]
    starting = [np.dot(sizes, one) for one in starts]
    beside = [before + new for before, new in zip(serving, starting[1:], strict=False)] if pool.start_up else []
    return max(*serving, *beside, 0) <= pool.devices[kind]


@pytest.mark.parametrize(("seed", "kinds"), [(seed, kinds) for seed in range(8) for kinds in (1, 2)])
def test_no_other_answer_of_a_small_day_is_better(seed, kinds):
    """On one kind of device, or on two of which one costs more."""
    drawn = np.random.default_rng(seed)
    hours, costs = 3, {"small": 1.0, "large": 1.7}
    names = list(costs)[:kinds]
    models = [
        (
            [
                Choice(device=name, num_devices=int(size), needed=drawn.integers(1, 4, size=hours), cost=costs[name])
                for name in names
                for size in sizes
            ],
            drawn.integers(0, 500, size=hours).astype(float),
        )
        for sizes in ([1, 2][: 3 - kinds], [int(drawn.integers(1, 3))])
    ]
    pool = Pool(
        devices={name: int(drawn.integers(3, 6) - (kinds == 2)) for name in names}, minutes=np.asarray([60, 60, 25]),
        start_up=int(drawn.choice([0, 5, 40])), minimum=int(drawn.integers(0, 2)),
    )  # fmt: skip
    found = allotted(models, pool)
    lost, cost = min(every_answer(models, pool))
    assert found.proven
    assert sum(map(np.sum, found.lost)) == pytest.approx(lost, abs=1e-3)
    assert found.cost == pytest.approx(cost, abs=1e-3)


def test_a_pool_too_small_for_one_replica_of_each():
    choice = Choice(device="gpu", num_devices=2, needed=np.asarray([1]))
    pool = Pool(devices={"gpu": 3}, minutes=np.asarray([60]), start_up=5, minimum=1)
    assert allotted([([choice], np.ones(1)), ([choice], np.ones(1))], pool) is None


def test_a_model_that_is_needed_at_night_gets_what_another_is_done_with_an_hour_before():
    """Both need all four devices once. A start beside running replicas needs devices that are free in the hour before."""
    day, night = np.asarray([4, 4, 0, 0]), np.asarray([0, 0, 4, 4])
    requests = [np.where(one > 0, 900.0, 0.0) for one in (day, night)]
    models = [
        ([Choice(device="gpu", num_devices=1, needed=one)], came)
        for one, came in zip((day, night), requests, strict=True)
    ]
    at_once = allotted(models, Pool(devices={"gpu": 4}, minutes=np.full(4, 60), start_up=0, minimum=0))
    assert [one.tolist() for one in at_once.replicas] == [day.tolist(), night.tolist()]
    late = allotted(models, Pool(devices={"gpu": 4}, minutes=np.full(4, 60), start_up=5, minimum=0))
    # Each device changes sides an hour early or late, and an hour has 225 requests to a replica.
    assert sum(map(np.sum, late.lost)) == pytest.approx(900.0)
