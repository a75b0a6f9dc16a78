"""Rows under upstream's convention say when they lie beyond what tests compare with that program."""

from __future__ import annotations

from dataclasses import replace

import pytest
from restated import rows
from upstream_parity import scenario_of, workload_of_row

from evaluator.serving.models.waves import not_compared

ROWS = [case for case in rows("upstream_rows") if case["graph"] == "eager"]


def one_of(kind):
    case = next(case for case in ROWS if case["kind"] == kind)
    return scenario_of(case, workload_of_row(case))


def test_rows_that_are_compared_say_nothing():
    for case in ROWS:
        assert list(not_compared(scenario_of(case, workload_of_row(case)))) == [], case["case"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"plan": {"pp": 2}}, "not compared with upstream: requests in a pipeline"),
        ({"precision": {"linear": "MXFP4"}}, "not compared with upstream: MXFP4 in eager graphs"),
        ({"precision": {"attention": "FP8"}}, "not compared with upstream: attention in FP8 here"),
        ({"launch": {"compile": True}, "workload": {"prefix_cache_hit_rate": 0.5}},
         "not compared with upstream: a prefix cache with compiled graphs"),
    ],
)  # fmt: skip
def test_rows_beyond_the_comparison_say_why(change, said):
    scenario = one_of("whole_agg")
    changed = {part: replace(getattr(scenario, part), **fields) for part, fields in change.items()}
    assert list(not_compared(replace(scenario, **changed))) == [said]


def test_rows_under_our_own_convention_say_nothing():
    scenario = one_of("whole_agg")
    beyond = replace(scenario, plan=replace(scenario.plan, pp=2), convention="physical")
    assert list(not_compared(beyond)) == []
