"""The engine profiles that come with the program: what their command yields, and fits that never saw their pair."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import resources

import numpy as np
import pytest
import yaml
from shared_data import shared_data

from evaluator.inputs.engines.engine_profiles import (
    HANDOVER_MS,
    FittedEngine,
    as_yaml,
    engine_from_file,
    engine_from_mapping,
    fitted_engine,
    list_engines,
)
from evaluator.ledger.deployments import deployment_of
from evaluator.ledger.matching import Unmatched
from evaluator.ledger.readers import read_measurements
from store.records import MeasurementRecord
from tools.engines import (
    HANDOVERS,
    POINTS_A_PAIR,
    HandoverPoint,
    engine_points,
    fit_with_pairs_held_out,
    fitted_handover,
    handover_points,
    with_handovers,
)

PAIR = ("h100_sxm", "Qwen/Qwen3-32B")


@cache
def records() -> tuple[MeasurementRecord, ...]:
    """The points of both files, as the command reads them."""
    paths = [shared_data("e2e", name) for name in ("serving.csv", "published.csv")]
    return tuple(record for path in paths for record in read_measurements(path).records)


def fitted(points: tuple[MeasurementRecord, ...], name: str) -> FittedEngine:
    found = fit_with_pairs_held_out(engine_points(points, name), fitted_engine(name), fitted_engine(name).source)
    return with_handovers(found, handover_points(points, name))


# Fits of few points run with every change, those of many with the survival tests.
@pytest.mark.parametrize(
    "name",
    [name if name == "eager" else pytest.param(name, marks=pytest.mark.survival) for name in list_engines()],
)
def test_a_shipped_profile_is_what_its_command_yields(name):
    assert as_yaml(fitted(records(), name)) == as_yaml(fitted_engine(name))


def test_servers_launched_with_kernels_of_no_table_tell_nothing_of_an_engine():
    # Marlin's experts take twice as long by prompts as the table's: with them every other pair's prompts are too slow.
    pairs = set(fitted_engine("vllm").held_out)
    assert ("b200_sxm", "openai/gpt-oss-120b") in pairs
    assert ("h100_sxm", "openai/gpt-oss-120b") not in pairs


@pytest.mark.survival
@pytest.mark.parametrize("name", list_engines())
def test_every_pair_that_is_fitted_to_has_a_fit_without_it(name):
    points = engine_points(records(), name)
    apart = handover_points(records(), name)
    assert {point.pair for point in (*points, *apart)} == set(fitted_engine(name).held_out)
    for pair in fitted_engine(name).held_out:
        assert sum(one.point.weight for one in points if one.pair == pair) <= POINTS_A_PAIR * 1.000001


def poisoned(record: MeasurementRecord) -> MeasurementRecord:
    """Three times as slow, where the point is of the pair."""
    try:
        pair = deployment_of(record).pair
    except Unmatched:
        return record
    if pair != PAIR:
        return record
    return replace(record, metrics={name: 3.0 * value for name, value in record.metrics.items()})


@pytest.mark.survival
@pytest.mark.parametrize("name", ["sglang", pytest.param("vllm_sync", marks=pytest.mark.long)])
def test_points_of_a_pair_do_not_reach_the_fit_that_scores_it(name):
    assert any({"ttft_ms_mean", "tpot_exclusive_ms_mean"} <= set(record.metrics) for record in records())
    right, wrong = fitted_engine(name), fitted(tuple(poisoned(record) for record in records()), name)
    # The shipped numbers are rounded in their file; so are these for the comparison.
    wrong = engine_from_mapping(yaml.safe_load(as_yaml(wrong)))
    assert wrong.held_out[PAIR] == right.held_out[PAIR]
    assert wrong.profile != right.profile
    others = [pair for pair in right.held_out if pair != PAIR]
    assert any(wrong.held_out[pair] != right.held_out[pair] for pair in others)


def apart(model: str, handover_ms: float) -> HandoverPoint:
    """A point whose first tokens come at 100 ms and half of each handover, measured with this one."""
    return HandoverPoint(("device", model), np.log((100.0 + 0.5 * np.asarray(HANDOVERS)) / (100.0 + 0.5 * handover_ms)))


def test_a_handover_is_fitted_without_the_pair_that_it_scores():
    points = [*(25 * [apart("a", 60.0)]), apart("b", 250.0)]
    assert fitted_handover(points) == 60.0
    assert fitted_handover(points, without=("device", "a")) == 250.0
    assert fitted_handover([], without=("device", "a")) == HANDOVER_MS
    with_own = with_handovers(fitted_engine("eager"), points)
    assert with_own.profile.handover_ms == 60.0
    assert with_own.held_out["device", "a"].handover_ms == 250.0
    assert {one.handover_ms for pair, one in with_own.held_out.items() if pair[0] != "device"} == {60.0}
    assert with_handovers(fitted_engine("eager"), []) == fitted_engine("eager")


@pytest.mark.parametrize("name", list_engines())
def test_shipped_files_keep_to_the_declaration_of_a_users(name, tmp_path):
    text = (resources.files("evaluator") / "inputs/engines" / f"{name}.yaml").read_text(encoding="utf-8")
    (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")
    assert engine_from_file(tmp_path / f"{name}.yaml") == fitted_engine(name)
