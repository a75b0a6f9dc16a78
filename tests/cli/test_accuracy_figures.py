"""The figures that docs/explanation/accuracy.md promises, and the floor beside the peer. Needs the comparison data."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from shared_data import shared_data

from cli.flows.validate import Validation, compare
from evaluator.measured.scoring import Figures, figures
from evaluator.measurements import read_measurements

pytestmark = pytest.mark.survival  # predicts 3,500 figures: most of a minute
PAGE = Path(__file__).parents[2] / "docs/explanation/accuracy.md"


@cache
def compared(name: str) -> Validation:
    return compare(list(read_measurements(shared_data("e2e", name)).records))


@cache
def priorities() -> dict[str, str]:
    records = read_measurements(shared_data("e2e", "published.csv")).records
    return {record.key: str(json.loads(record.extra)["priority"]) for record in records}


def of_metric(metric: str) -> Figures:
    found = figures(one.error for one in compared("serving.csv").comparisons if one.metric == metric)
    assert found is not None
    return found


def of_priority(priority: str) -> Figures:
    chosen = (one.error for one in compared("published.csv").comparisons if priorities()[one.record_key] == priority)
    found = figures(chosen)
    assert found is not None
    return found


def written(found: Figures) -> str:
    """As a row of the page's first table writes them."""
    errors = f"{found.median_ape:.1f}/{found.mean_ape:.1f}/{found.p90_ape:.1f}"
    return f"| {found.rows} | {errors} | {found.bias:+.1f} |"


def test_the_page_states_what_is_reached():
    page = PAGE.read_text(encoding="utf-8")
    for found in (of_metric("tpot"), of_metric("ttft"), of_priority("1"), of_priority("2")):
        assert written(found) in page


def test_what_is_reached():
    tpot, ttft, first = of_metric("tpot"), of_metric("ttft"), of_priority("1")
    assert (tpot.median_ape <= 10, tpot.mean_ape <= 18) == (True, True)
    assert (ttft.median_ape <= 30, ttft.mean_ape <= 38) == (True, True)
    assert (first.median_ape <= 12, first.mean_ape <= 20) == (True, True)
    ranking = compared("serving.csv").ranking()
    assert ranking is not None
    assert ranking[0] >= 0.85


def test_nine_of_ten_rows_of_the_peer_are_predicted():
    assert (compared("serving.csv").coverage_of_peer or 0.0) >= 0.9


@pytest.mark.parametrize("device", ["b200_sxm", "h100_sxm", "h200_sxm"])
@pytest.mark.parametrize("metric", ["ttft", "tpot"])
def test_better_than_the_peer(device, metric):
    shared = [
        one
        for one in compared("serving.csv").comparisons
        if one.peer_error is not None and (one.device, one.metric) == (device, metric)
    ]
    ours, peer = figures(one.error for one in shared), figures(one.peer_error or 0.0 for one in shared)
    assert ours is not None
    assert peer is not None
    assert ours.median_ape < peer.median_ape
    assert ours.mean_ape < peer.mean_ape
