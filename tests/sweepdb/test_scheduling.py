"""`schedule`: replicas by hour from stored loads, simulated; and what is said of days that cannot be."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from conftest_cli import sweepdb as run
from conftest_loads import evaluate_loads

import sweepdb
from evaluator.arrivals import DayPlayer, Scaling, TimeLimits, scheduled
from evaluator.evaluate import cost_of
from evaluator.inputs import read_day
from store.errors import InputError
from store.location import parse_url
from sweepdb.restoring import scenario_with_operators

LIMITS = {"ttft_limit": 60.0, "tpot_limit": 4.0}  # one replica keeps 95 % within them up to 23 to 28 requests/s
QUIET, BUSY = 5.0, 70.0


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    url = f"sqlite:///{tmp_path_factory.mktemp('days')}/store.sqlite"
    evaluate_loads(url, mode="aggregated")
    return url


def written(folder, rates, header="minute,rate"):
    path = folder / "day.csv"
    path.write_text("\n".join([header, *(f"{minute},{rate}" for minute, rate in rates)]) + "\n", encoding="utf-8")
    return path


def day(folder, *hours):
    return written(folder, enumerate(rate for rate in hours for _ in range(60)))


def test_busy_hours_get_what_carries_them_and_quiet_ones_one(url, tmp_path):
    found = sweepdb.schedule(day(tmp_path, QUIET, BUSY, QUIET, QUIET), store=url, **LIMITS)
    best = found.candidates[0]
    assert found.requests == 60 * 60 * (3 * QUIET + BUSY)
    busy = int(best.scaled["static"].ready[0])
    assert busy == -(-BUSY // best.goodput) + found.added - found.removed
    rows = found.dicts()
    assert [row["hour"] for row in rows] == [0, 1, 2, 3]
    # The cool-down of 10 minutes lies in the third hour; that is what its largest number counts.
    assert [row["scheduled_replicas"] for row in rows] == [1, busy, busy, 1]
    assert all(row["scheduled_attained"] >= 0.95 for row in rows)
    # 4 h of one; 70 minutes and a start of 5 of the others; a start of the first.
    assert best.device_hours("scheduled") == pytest.approx((245 + 75 * (busy - 1)) / 60)
    assert best.device_hours("static") == pytest.approx(busy * 245 / 60)
    # It hears of the busy hour after a minute and serves five later: by then too many wait.
    assert rows[1]["reactive_attained"] < rows[1]["scheduled_attained"]


def test_a_spare_replica_serves_nothing_and_is_paid_for(url, tmp_path):
    path = day(tmp_path, QUIET, QUIET)
    alone = sweepdb.schedule(path, store=url, **LIMITS)
    spare = sweepdb.schedule(path, store=url, spare=1, **LIMITS)
    assert spare.candidates[0].device_hours("scheduled") == 2 * alone.candidates[0].device_hours("scheduled")
    assert spare.attained["static"] == alone.attained["static"]


def test_an_hour_without_requests_has_no_share(url, tmp_path):
    found = sweepdb.schedule(day(tmp_path, 0.0, QUIET), store=url, **LIMITS)
    assert found.attained["scheduled"][0] is None


@pytest.mark.parametrize(
    ("rates", "options", "said"),
    [
        ([(0, 1), (1, 1), (0, 1)], {}, "line 4: minute 0 goes back, or stands twice"),
        ([(0, 1), (3, 1)], {}, "line 3: minute 1 is missing before 3"),
        ([(0, 1), (1, -2)], {}, "line 3: the rate must be at least 0 requests a second, not -2"),
        ([(0, 1), (1, "x")], {}, "line 3: '1' and 'x' are not a minute and a rate"),
        ([(0, 0), (1, 0)], {}, "0 requests are not simulated"),
        ([(0, 1e6)], {}, "60,000,000 requests are not simulated"),
        ([(0, 70)], {"maximum": 2}, "`maximum=2` replicas are too few: the busiest hour needs 3"),
        ([(0, 5)], {"tpot_limit": 0.1}, "no stored instance keeps the limits at any rate"),
        ([(0, 5)], {"minimum": 3, "maximum": 2}, "`maximum=2` is below `minimum=3`"),
        ([(0, 5)], {"start_up": 1.5}, "`start_up` must be a whole number from 0 to 10,080, not 1.5"),
    ],
)
def test_wrong_days_and_limits_are_one_sentence(url, tmp_path, rates, options, said):
    with pytest.raises(InputError) as caught:
        sweepdb.schedule(written(tmp_path, rates), store=url, **{**LIMITS, **options})
    assert said in str(caught.value)


BINS = "minute,rate,input_length,output_length"


def test_long_prompts_in_the_evening_take_more_than_as_many_short_ones_in_the_morning(url, tmp_path):
    """The same rates all day; after an hour a third of the prompts are 3,000 tokens long."""
    lines = [f"{minute},{3 * part},{prompt},40" for minute in range(120) for part, prompt in
             [(2, 50), (1, 50 if minute < 60 else 3_000)]]  # fmt: skip
    path = tmp_path / "day.csv"
    path.write_text("\n".join([BINS, *lines]), encoding="utf-8")
    found = sweepdb.schedule(path, store=url, ttft_limit=100.0, tpot_limit=4.0)
    assert found.requests == 9 * 7_200
    assert found.candidates[0].scaled["reactive"].of_hours().tolist() == [1, 1]  # goodput knows nothing of lengths
    morning, evening = found.candidates[0].scaled["scheduled"].of_hours().tolist()
    assert morning == 1 < evening
    assert min(found.attained["scheduled"]) >= 0.95


@pytest.mark.parametrize(
    ("header", "line", "said"),
    [
        (BINS, "0,1,0,60", "line 2: lengths of 0 and 60 tokens are not simulated"),
        (BINS, "0,1,5.5,60", "line 2: '5.5' is not a whole number of tokens"),
        (BINS, "0,1,5", "line 2: None is not a whole number of tokens"),
        ("minute,rate,input_length", "0,1,5", "`input_length` stands there without the other length"),
        (BINS, "0,1,5,6\n0,2,9,6\n2,1,5,6", "line 4: minute 1 is missing before 2"),
        ("minute,rate", "0.5,1", "line 2: minute 0 is missing before 0.5"),
    ],
)
def test_wrong_bins_of_lengths_are_one_sentence(url, tmp_path, header, line, said):
    path = tmp_path / "day.csv"
    path.write_text(f"{header}\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        sweepdb.schedule(path, store=url, **LIMITS)
    assert said in str(caught.value)


def test_a_file_without_its_columns(url, tmp_path):
    with pytest.raises(InputError, match="the columns `minute` and `rate` are not both there"):
        sweepdb.schedule(written(tmp_path, [(0, 1)], "time,rate"), store=url, **LIMITS)


@pytest.mark.parametrize(("unit", "apart"), [("s", 0.05), ("ms", 50)])
def test_a_log_is_simulated_at_its_own_times_with_its_own_lengths(url, tmp_path, unit, apart):
    path = tmp_path / "log.csv"
    lines = (f"{apart * number},{5 if number < 36_000 else 50},20" for number in range(72_000 + 1))
    path.write_text("\n".join(["timestamp,input_length,output_length", *lines]), encoding="utf-8")
    found = sweepdb.schedule(path, store=url, trace_unit=unit, **LIMITS)
    assert found.requests == 72_001
    assert found.peak_rates == (pytest.approx(20.0), pytest.approx(1 / 60))  # the last is the first of its hour
    assert found.attained["scheduled"] == (1.0, 1.0)  # prompts of 50 tokens where its workload has 500


def logged(folder, prompt):
    path = folder / "log.csv"
    lines = (f"{0.05 * number},{prompt},60" for number in range(12_000))
    path.write_text("\n".join(["timestamp,input_length,output_length", *lines]), encoding="utf-8")
    return path


def test_what_the_simulation_misses_gets_replicas_until_it_keeps_the_limits(url, tmp_path):
    """Eight times the prompt tokens that the stored goodput is of: it says one replica."""
    found = sweepdb.schedule(logged(tmp_path, 4_000), store=url, ttft_limit=400.0, tpot_limit=8.0)
    replicas = int(found.candidates[0].scaled["scheduled"].ready[0])
    assert (replicas, found.added) == (1 + found.added, replicas - 1)
    assert found.added >= 1
    assert found.attained["scheduled"][0] >= 0.95 > found.attained["reactive"][0]  # which goes by the goodput
    with pytest.raises(
        InputError, match=rf"`maximum={replicas - 1}` replicas are too few in a simulated day: {replicas} are"
    ):
        sweepdb.schedule(tmp_path / "log.csv", store=url, ttft_limit=400.0, tpot_limit=8.0, maximum=replicas - 1)


def paid_minutes_that_hold(path, scenario, url, most):
    """Of every number of replicas by hour whose simulated hours all keep the limits."""
    restored, operators = scenario_with_operators(parse_url(url), scenario)
    player = DayPlayer(restored, operators, cost_of(restored), read_day(path), 1)
    limits = TimeLimits(ttft_ms=LIMITS["ttft_limit"], tpot_ms=LIMITS["tpot_limit"])
    hours, minutes = -(-read_day(path).rates_per_s.size // 60), read_day(path).rates_per_s.size
    for needed in product(range(1, most + 1), repeat=hours):
        tried = scheduled(np.asarray(needed), Scaling(start_up=5, cool_down=10), minutes)
        if (player.attained(tried.ready, limits) >= 0.95).all():
            yield tried.paid_minutes


def test_no_other_replicas_of_a_simulated_day_that_keep_the_limits_take_less(url, tmp_path):
    """Minutes of a tenth of the tokens at a rate that goodput gives four for, then of long prompts, then of few."""
    path, lines = tmp_path / "log.csv", []
    for hour, (each_s, prompt, answer) in enumerate([(80, 50, 40), (14, 2_700, 60), (4, 500, 60)]):
        # The first hour starts with its requests, the others have them after its cool-down.
        lines += (f"{4800 * hour + number / each_s},{prompt},{answer}" for number in range(240 * each_s))
    path.write_text("\n".join(["timestamp,input_length,output_length", *lines]), encoding="utf-8")
    found = sweepdb.schedule(path, store=url, **LIMITS)
    best = found.candidates[0]
    assert best.moved is not None
    assert best.moved[0] < 0 < best.moved[1]
    assert best.scaled["scheduled"].paid_minutes == min(paid_minutes_that_hold(path, best.scenario, url, 4))


def test_prompts_that_alone_take_longer_than_the_limit(url, tmp_path):
    with pytest.raises(InputError, match="no number of replicas of TP1 keeps the limits in hour 0"):
        sweepdb.schedule(logged(tmp_path, 30_000), store=url, **LIMITS)


def test_a_log_in_milliseconds_is_no_log_of_weeks(url, tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(
        "\n".join(f'{{"timestamp": {at}, "input_length": 10, "output_length": 10}}' for at in (0, 3_600_000)),
        encoding="utf-8",
    )
    with pytest.raises(InputError, match=r"41\.7 days are more than a week"):
        sweepdb.schedule(path, store=url, **LIMITS)
    path.write_text(path.read_text(encoding="utf-8").replace(": 0,", ": 4000000,"), encoding="utf-8")
    with pytest.raises(InputError, match="line 2: the time falls"):
        sweepdb.schedule(path, store=url, **LIMITS)


def test_the_command_says_what_python_says(url, tmp_path):
    path = day(tmp_path, QUIET, BUSY)
    typed = ["schedule", "--trace", str(path), "--ttft-limit", "60", "--tpot-limit", "4"]
    found = sweepdb.schedule(path, store=url, **LIMITS)
    assert next(found.sentences()) in " ".join(run(typed, url).out.split())
    rows = run([*typed, "--format", "csv"], url).out.splitlines()
    assert rows[0].split(",") == list(found.columns)
    assert len(rows) == 1 + len(found.rows)


def test_a_planner_that_counts_waiting_requests_acts_when_they_wait_already(url, tmp_path):
    path = day(tmp_path, BUSY)
    found = sweepdb.schedule(path, store=url, reactive="queue=5", **LIMITS)
    ready = found.candidates[0].scaled["queue"].ready
    assert ready[0] == found.candidates[0].scaled["reactive"].ready[0]
    # Nobody waits while all serve; after the cool-down all but one stop, and five minutes later they are back.
    assert ready.min() == 1
    assert found.attained["queue"][0] < found.attained["reactive"][0]
    # What it did, given as a schedule, gets the same requests in time: both are simulated.
    restored, operators = scenario_with_operators(parse_url(url), found.candidates[0].scenario)
    player = DayPlayer(restored, operators, cost_of(restored), read_day(path), 1)
    limits = TimeLimits(ttft_ms=LIMITS["ttft_limit"], tpot_ms=LIMITS["tpot_limit"])
    assert player.attained(ready, limits) == pytest.approx(found.attained["queue"], abs=1e-4)


@pytest.mark.parametrize("wrong", ["queue", "queue=0", "users=5", "queue=nan", "ongoing=-1"])
def test_a_planner_that_nobody_knows(url, tmp_path, wrong):
    with pytest.raises(InputError, match="is no count of requests to a replica"):
        sweepdb.schedule(day(tmp_path, QUIET), store=url, reactive=wrong, **LIMITS)


def test_the_picture_has_every_minute_at_which_replicas_change_and_marks_hours_that_miss(url, tmp_path):
    path = day(tmp_path, QUIET, BUSY)
    typed = ["schedule", "--trace", str(path), "--ttft-limit", "60", "--tpot-limit", "4"]
    rows = json.loads(run([*typed, "--format", "vl"], url).out)["data"]["values"]
    changes = [(row["hour"], row["value"]) for row in rows if row.get("scaling") == "scheduled" and "value" in row
               and row["of"] == "replicas"]  # fmt: skip
    assert changes == [(0.0, 1), (1.0, changes[1][1]), (2.0, changes[1][1])]
    assert [(row["hour"], row["value"]) for row in rows if row["of"] == "rate"] == [(0, QUIET), (1, BUSY), (2, BUSY)]
    missed = {(row["scaling"], row["hour"]) for row in rows if row.get("hour_is") == "missed"}
    assert missed == {("reactive", 1.5)}  # it serves too few for the first minutes of the busy hour
    assert run([*typed, "--format", "svg"], url).out.startswith("<svg")
