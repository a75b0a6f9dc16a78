"""`schedule` of prefill and decode instances apart: each side by hour, played request by request from one to the other."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from conftest_cli import sweepdb as run
from conftest_loads import evaluate_loads

import sweepdb
from evaluator.arrivals import DayPlayer, PairPlayer, Scaling, TimeLimits, scheduled
from evaluator.arrivals.day.days import moving_ms
from evaluator.evaluate import cost_of
from evaluator.inputs import read_day
from store.errors import InputError
from store.location import parse_url
from sweepdb.restoring import scenario_with_operators

LIMITS = {"ttft_limit": 260.0, "tpot_limit": 2.6}
QUIET, BUSY = 3.0, 110.0
MOST = 3  # instances of a side that the brute force tries


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('pairs')}/store.sqlite"
    evaluate_loads(url, mode=["prefill", "decode"])
    return url


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A quiet hour, and a busy one that ends after four minutes."""
    path = tmp_path_factory.mktemp("days") / "day.csv"
    lines = (f"{minute},{QUIET if minute < 60 else BUSY}" for minute in range(64))
    path.write_text("\n".join(["minute,rate", *lines]), encoding="utf-8")
    return path


def player_of(url, path, one):
    prefill, decode = (scenario_with_operators(parse_url(url), side.scenario) for side in (one, one.decode))
    day = read_day(path)
    sides = [DayPlayer(scenario, operators, cost_of(scenario), day, 1) for scenario, operators in (prefill, decode)]
    return PairPlayer(*sides, prefill[0])


def test_no_other_numbers_of_instances_that_keep_the_limits_take_less(url, path):
    """Of every number of prefill and of decode instances in both hours."""
    found = sweepdb.schedule(path, store=url, cool_down=0, **LIMITS)
    best = found.candidates[0]
    player, limits = player_of(url, path, best), TimeLimits(ttft_ms=260.0, tpot_ms=2.6)
    scaling, minutes = Scaling(start_up=5, cool_down=0), read_day(path).rates_per_s.size
    paid = []
    for numbers in product(range(1, MOST + 1), repeat=4):
        sides = [scheduled(np.asarray(one), scaling, minutes) for one in (numbers[:2], numbers[2:])]
        taken = sum(one.paid_minutes for one in sides)
        if taken < min(paid, default=10**9) and (player.attained(*(one.ready for one in sides), limits) >= 0.95).all():
            paid.append(taken)
    assert 60 * best.device_hours("scheduled") == min(paid)
    rows = found.dicts()
    busy = {row["role"]: row["scheduled_replicas"] for row in rows if row["hour"] == 1 and row["rank"] == 1}
    assert max(busy.values()) > 1
    assert busy["prefill"] != busy["decode"]  # they are scaled apart
    assert all(share >= 0.95 for share in found.attained["scheduled"])


def test_a_request_alone_takes_both_sides_one_after_the_other(url, tmp_path):
    """One request a minute. To its prompt's time it adds what moves the keys, and is received twice."""
    path = tmp_path / "day.csv"
    path.write_text("\n".join(["timestamp,input_length,output_length", *(f"{60 * at},500,60" for at in range(5))]))
    found = sweepdb.schedule(path, store=url, **LIMITS)
    best = found.candidates[0]
    with sweepdb.open(url) as store:
        rows = store.sql(
            "SELECT phase, ttft_ms, makespan_ms, tpot_exclusive_ms FROM probe WHERE batch_size = 1"
        ).dicts()
    prompt, decode = ({row["phase"]: row for row in rows}[phase] for phase in ("prefill", "decode"))
    sending, _ = scenario_with_operators(parse_url(url), best.scenario)
    # 500 tokens x 28 layers x 8 heads x 128 numbers x keys and values x 2 bytes, at 70 % of what the link gives.
    moved = (
        500
        * 28
        * 8
        * 128
        * 2
        * 2
        / (0.7 * sending.device.links[0].bandwidth_bytes_per_s * sending.device.links[0].efficiency)
    )
    assert moving_ms(sending, np.asarray([500])) == pytest.approx([1e3 * moved])
    ttft = prompt["ttft_ms"] + (prompt["ttft_ms"] - prompt["makespan_ms"]) + 1e3 * moved
    player = player_of(url, path, best)
    one = np.ones(5, dtype=np.int64)

    def within(ttft_ms, tpot_ms):
        return player.attained(one, one, TimeLimits(ttft_ms=ttft_ms, tpot_ms=tpot_ms)).tolist()

    tpot = decode["tpot_exclusive_ms"]
    assert within(1.01 * ttft, 1.02 * tpot) == [1.0]
    assert within(0.99 * ttft, 1.02 * tpot) == [0.0]
    assert within(1.01 * ttft, 0.98 * tpot) == [0.0]


def test_the_command_and_its_picture_have_both_sides(url, path):
    typed = ["schedule", "--trace", str(path), "--ttft-limit", "260", "--tpot-limit", "2.6"]
    out = " ".join(run(typed, url).out.split())
    assert " prefill replica" in out
    assert " decode replicas of TP1 on a100_sxm by hour: " in out
    drawn = json.loads(run([*typed, "--format", "vl"], url).out)
    assert {row["role"] for row in drawn["data"]["values"] if row["of"] == "replicas"} == {"prefill", "decode"}
    assert drawn["vconcat"][1]["encoding"]["strokeDash"]["field"] == "role"


def test_what_only_instances_that_do_both_have(url, path):
    with pytest.raises(InputError, match="no stored instance keeps the limits at any rate"):
        sweepdb.schedule(path, store=url, reactive="queue=5", **LIMITS)
    with pytest.raises(InputError, match=r"`maximum=1` replicas are too few: the busiest hour needs"):
        sweepdb.schedule(path, store=url, maximum=1, **LIMITS)
