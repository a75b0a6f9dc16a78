"""Runs that others published agree with themselves, and the page about them says what they are."""

from __future__ import annotations

import csv
import math
from collections import Counter
from pathlib import Path

import pytest

from evaluator.ledger import read_measurements
from queries.errors import LEVELS
from queries.errors.expected import ExpectedError
from sweepdb.measuring.validating import FEWER_THAN_STAGES, compare
from tools.gathered_page import within

RUNS = Path(__file__).parent / "data" / "published_runs.csv"
ROWS = list(csv.DictReader(RUNS.read_text(encoding="utf-8").splitlines()))
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "compared.md"


def test_every_row_is_read_and_names_where_it_stands():
    found = read_measurements(RUNS)
    assert not found.problems
    assert len(found.records) == len(ROWS) == len({row["id"] for row in ROWS})
    assert all(row["source_url"].startswith("https://") for row in ROWS)
    names = [row["source_name"] for row in ROWS]
    assert names == sorted(names, key=str.lower)
    assert len(ROWS) >= 80
    assert len(Counter(names)) >= 8
    assert f" of {len(ROWS)} rows. " in PAGE.read_text(encoding="utf-8")


def in_flight(row: dict[str, str]) -> float:
    """Requests a second times seconds of a request: as printed, or of prompts and answers that are all alike."""
    answer, users = float(row["output_length"]), float(row["concurrency"])
    length = row["e2e_ms_mean"]
    latency = (
        float(length) if length else float(row["ttft_ms_mean"]) + (answer - 1) * float(row["tpot_exclusive_ms_mean"])
    )
    return float(row["output_tokens_per_s"]) / answer * latency / 1e3 / users


@pytest.mark.parametrize(
    "row",
    [
        row
        for row in ROWS
        if row["output_tokens_per_s"]
        and (row["e2e_ms_mean"] or (row["shortest_length"] == "1" and row["tpot_exclusive_ms_mean"]))
    ],
    ids=lambda row: row["id"],
)
def test_a_run_keeps_little_s_law(row):
    # Runs begin and end with fewer than all users, and rates are printed in few digits.
    assert 0.65 < in_flight(row) < 1.02


def test_a_pipeline_with_fewer_users_than_stages_is_compared_with_no_row():
    # A row of four stages holds a request in each, so four users at least: one user would be compared with four.
    found = compare([one for one in read_measurements(RUNS).records if one.decode.pp == 4])
    assert {one.users for one in found.comparisons} == {32}
    assert {one.rule: one.rows for one in found.excluded} == {FEWER_THAN_STAGES: 1}


def test_a_statement_is_kept_by_what_it_says_at_most():
    # Quantiles of log(measured / predicted): 10 % lower at 0.2, 20 % higher at 0.8. Predicted 100: a time of 121 is
    # later than any that 0.8 takes, one of 119 is not; a rate of 89 is lower, one of 91 is not.
    quantiles = tuple(math.log(0.9) if level < 0.5 else math.log(1.2) for level in LEVELS)
    said = ExpectedError(
        subject="", metric="tpot_exclusive_ms", median_ape_percent=10.0, p90_ape_percent=20.0, bias_percent=0.0,
        points=1, agreeing=1, quantiles=quantiles, region="",
    )  # fmt: skip

    assert within("tpot", 121.0, 100.0, said) == (False, True, False)  # 100 / 121 is 17 % below
    assert within("tpot", 119.0, 100.0, said) == (False, True, True)
    assert within("output_tokens_per_s", 89.0, 100.0, said) == (False, True, False)
    assert within("output_tokens_per_s", 91.0, 100.0, said) == (True, True, True)
