"""Changes between repeated runs and steps over time, beside what tables and a hand say."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.ledger import changes_of, level_steps
from evaluator.ledger.regressions import student_quantile, student_within


def logs(*values):
    return [math.log(value) for value in values]


@pytest.mark.parametrize(
    ("share", "freedom", "expected"),
    # Any table of Student's distribution, two-sided.
    [(0.95, 1, 12.706), (0.95, 2, 4.303), (0.95, 5, 2.571), (0.95, 10, 2.228), (0.99, 7, 3.499), (0.90, 30, 1.697)],
)
def test_student_is_as_tables_have_it(share, freedom, expected):
    assert student_quantile(share, freedom) == pytest.approx(expected, abs=6e-4)
    assert student_within(student_quantile(share, freedom), freedom) == pytest.approx(share)


def test_a_doubled_time_is_worse_and_a_doubled_rate_is_better():
    same = (logs(10, 10.1, 9.9), logs(10.05, 9.95, 10))
    sides = {
        ("a", "ttft_ms"): (logs(100, 101, 99), logs(200, 202, 198)),
        ("a", "output_tokens_per_s"): (logs(100, 101, 99), logs(200, 202, 198)),
        ("a", "tpot_exclusive_ms"): same,
    }
    worse, alike, better = changes_of(sides)
    assert (worse.metric, worse.verdict) == ("ttft_ms", "worse")
    assert worse.change_percent == pytest.approx(100)
    assert worse.least_percent < 100 < worse.most_percent
    assert (alike.metric, alike.verdict) == ("tpot_exclusive_ms", "same")
    assert (better.metric, better.verdict) == ("output_tokens_per_s", "better")
    assert better.worse_percent == pytest.approx(-100)


def test_single_runs_borrow_the_spread_of_settings_that_were_repeated():
    # Repeats of the other setting differ by 1 %: a single run that is 20 % slower is worse, one that is 1 % slower is not.
    repeated = ("often", "ttft_ms")
    sides = {
        repeated: (logs(100, 101, 99, 100, 101), logs(100, 101, 100, 99, 99)),
        ("once", "ttft_ms"): (logs(100), logs(120)),
        ("hardly", "ttft_ms"): (logs(100), logs(101)),
    }
    verdicts = {one.setting: one.verdict for one in changes_of(sides)}
    assert verdicts == {"often": "same", "once": "worse", "hardly": "same"}


def test_nothing_is_said_where_nothing_was_repeated():
    (one,) = changes_of({("a", "ttft_ms"): (logs(100), logs(200))})
    assert (one.verdict, one.least_percent, one.most_percent) == ("unknown", None, None)
    assert one.change_percent == pytest.approx(100)


def test_of_a_thousand_settings_that_did_not_change_hardly_one_is_called_worse():
    draw = np.random.default_rng(1)
    noise = draw.normal(0, 0.02, (1000, 6))
    found = changes_of({(str(at), "ttft_ms"): (list(row[:3]), list(row[3:])) for at, row in enumerate(noise)})
    assert sum(one.verdict != "same" for one in found) <= 2


def test_intervals_hold_what_they_say():
    draw = np.random.default_rng(2)
    sides = {
        (str(at), "ttft_ms"): (list(draw.normal(0, 0.02, 3)), list(draw.normal(0.03, 0.02, 3))) for at in range(2000)
    }
    held = [one.least_percent <= 100 * math.expm1(0.03) <= one.most_percent for one in changes_of(sides)]
    assert 0.935 < sum(held) / len(held) < 0.97


@given(st.floats(0.1, 1e6), st.integers(0, 40))
def test_a_constant_has_no_step(value, count):
    assert level_steps([value] * count) == []


def nightly(draw, *, repeats=3, days=250, noise=0.02, step=0.0, at=180):
    level = 100 * np.where(np.arange(days) >= at, 1 + step, 1.0)
    return np.exp(np.log(level)[:, None] + draw.normal(0, noise, (days, repeats))).mean(axis=1)


def test_a_step_of_four_percent_in_a_year_of_nights_is_found_within_three_days():
    """30 settings, 3 repeats, 250 nights, noise of 2 %: half of the settings step by 4 % on night 180."""
    draw = np.random.default_rng(3)
    for at in range(30):
        found = level_steps(nightly(draw, step=0.04 if at < 15 else 0.0))
        if at < 15:
            (one,) = found
            assert abs(one.at - 180) <= 3
            assert one.change_percent == pytest.approx(4, abs=0.7)
        else:
            assert found == []


def test_a_step_up_and_back_is_two_steps():
    draw = np.random.default_rng(4)
    values = nightly(draw, step=0.06, at=100)
    values[160:] /= 1.06
    assert [round(one.at, -1) for one in level_steps(values)] == [100, 160]


def test_a_day_or_two_that_are_off_are_no_step():
    values = nightly(np.random.default_rng(5))
    values[100], values[200:202] = values[100] * 3, values[200:202] * 2
    assert level_steps(values) == []


def test_heavy_tails_are_no_steps():
    draw = np.random.default_rng(6)
    found = [len(level_steps(np.exp(0.02 * draw.standard_t(3, (250, 3))).mean(axis=1))) for _ in range(60)]
    assert sum(found) <= 1


def test_a_single_run_weighs_less_than_many():
    values = [100.0] * 10 + [130.0] * 3 + [100.0] * 10
    values = [value * (1.001 if at % 2 else 0.999) for at, value in enumerate(values)]
    assert len(level_steps(values)) == 2
    assert len(level_steps(values, [9] * 10 + [1] * 3 + [9] * 10)) == 2


def test_a_prediction_adds_no_spread_and_two_of_them_differ_surely():
    """Three runs 1 % apart: variance 1e-4 with 2 degrees of their own and 2 shared; t(4) = 2.7764; 0.01 / sqrt(3)."""
    runs = [math.log(200) + apart for apart in (-0.01, 0.0, 0.01)]
    (change,) = changes_of({("a", "ttft_ms"): ([math.log(100)], runs)}, (True, False))
    assert (change.verdict, change.runs_before, change.runs_after) == ("worse", 0, 3)
    reach = 2.7764 * 0.01 / math.sqrt(3)
    assert change.least_percent == pytest.approx(100 * (2 * math.exp(-reach) - 1), rel=1e-4)
    assert change.most_percent == pytest.approx(100 * (2 * math.exp(reach) - 1), rel=1e-4)
    sides = {("a", "ttft_ms"): ([1.0], [1.001]), ("b", "ttft_ms"): ([1.0], [1.0 + 1e-12])}
    both = changes_of(sides, (True, True))
    assert [(one.setting, one.verdict, one.least_percent) for one in both] == [
        ("a", "worse", None),
        ("b", "same", None),
    ]
    (alone,) = changes_of({("a", "ttft_ms"): ([1.0], [2.0])}, (True, False))
    assert alone.verdict == "unknown"  # one run says nothing of how runs spread
