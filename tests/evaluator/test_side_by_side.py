"""Scenarios side by side have, to the bit, the numbers and the batch sizes that each has by itself."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from evaluator_cases import DEEPSEEK_V3, GPT_OSS_20B, QWEN3_30B_A3B, QWEN3_32B, TEST_DEVICE, captured
from formula_cases import FAMILIES
from hypothesis import given
from hypothesis import strategies as st
from poison import REASON, poisoned_where

from evaluator.canonical import content_key, key_of_texts, scalar_text
from evaluator.evaluate import evaluate_scenario, traces_of
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import LengthBin, Workload
from evaluator.same_objects import SameObjects
from evaluator.scenario import Scenario
from evaluator.together import AskedSizes, batch_ranges, evaluate_many, side_evaluation, side_faults
from evaluator.together.ranges import batch_range
from evaluator.together.side_evaluation import SideBySideWarning, grouped
from store.digests import DigestedBlocks, DigestedRows, rows_digest

CASES = {
    "dense": (QWEN3_32B, Plan(tp=8)),
    "pipeline": (QWEN3_32B, Plan(tp=2, pp=4)),
    "experts": (QWEN3_30B_A3B, Plan(dp=8, ep=8)),
    "latent": (DEEPSEEK_V3, Plan(tp=8, dp=2, ep=16)),
    "windows": (GPT_OSS_20B, Plan(tp=2, ep=2)),
}
PHASES = ("prefill", "decode", "aggregated")


@functools.cache
def operators(case, trace):
    model, plan = CASES[case]
    return captured(model, plan, trace)


@functools.cache
def sets_of(case, phase):
    """One mapping a case and phase: what stands side by side shares its operators."""
    return {trace: operators(case, trace) for trace in traces_of(phase)}


def scenario_of(case, phase, workload, device=TEST_DEVICE) -> Scenario:
    model, plan = CASES[case]
    return Scenario(
        model=model,
        device=device,
        precision=Precision(linear="BF16"),
        plan=plan,
        workload=workload,
        phase=phase,
        serving_cost_ms=2.0,
    )


def asked_of(case, phase, wanted, device=TEST_DEVICE):
    return [
        AskedSizes(scenario_of(case, phase, workload, device), sets_of(case, phase), first, first + count - 1)
        for workload, first, count in wanted
    ]


def alone(one):
    return evaluate_scenario(one.scenario, np.arange(one.first, one.last + 1), one.operators)


def assert_same(got, expected):
    for name, values in expected.columns().items():
        assert np.array_equal(getattr(got, name), values, equal_nan=values.dtype.kind == "f"), name
    assert got.batch_size.tolist() == expected.batch_size.tolist()


WORKLOADS = st.builds(
    Workload,
    input_length=st.integers(1, 40_000),
    output_length=st.sampled_from([1.0, 2.0, 151.0, 1500.0]),
    prefix_cache_hit_rate=st.sampled_from([0.0, 0.25, 0.9]),
    max_batched_tokens=st.sampled_from([2048, 8192, 14_000]),
    mtp_tokens=st.just(0),
)
WANTED = st.lists(st.tuples(WORKLOADS, st.integers(1, 3), st.integers(1, 300)), min_size=2, max_size=6)


@given(st.sampled_from(sorted(CASES)), st.sampled_from(PHASES), WANTED)
def test_neighbours_change_no_number(case, phase, wanted):
    asked = asked_of(case, phase, wanted)
    made = list(evaluate_many(asked))
    for one, block in zip(asked, made, strict=True):
        assert_same(block, alone(one))


@given(st.sampled_from(sorted(CASES)), st.sampled_from(PHASES), WANTED, st.sampled_from([None, 1, 40, 700]))
def test_neighbours_change_no_batch_range(case, phase, wanted, ceiling):
    scenarios = [scenario_of(case, phase, workload) for workload, _, _ in wanted]
    found = batch_ranges([(scenario, sets_of(case, phase), ceiling) for scenario in scenarios])
    assert found == [batch_range(scenario, sets_of(case, phase), ceiling=ceiling) for scenario in scenarios]


PLAIN = Workload(input_length=1000, output_length=100.0)
LONG = Workload(input_length=20_000, output_length=100.0)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_cost_family_prices_side_by_side(family):
    device = FAMILIES[family][0]
    for phase in PHASES:
        asked = asked_of("dense", phase, [(PLAIN, 1, 40), (LONG, 1, 7), (PLAIN, 2, 290)], device)
        assert len(list(grouped(asked))) < 3
        for one, block in zip(asked, evaluate_many(asked), strict=True):
            assert_same(block, alone(one))


@pytest.mark.parametrize("case", sorted(CASES))
@pytest.mark.parametrize("phase", PHASES)
def test_what_stands_side_by_side_is_evaluated_so(case, phase, monkeypatch):
    """A fault of that way would be hidden by the other one, which each takes by itself."""

    def refused(*_given, **_named):
        raise AssertionError("a scenario was evaluated by itself")

    monkeypatch.setattr(side_evaluation, "evaluate_scenario", refused)
    monkeypatch.setattr(side_evaluation, "batch_range", refused)
    short = Workload(input_length=900, output_length=60.0)
    asked = asked_of(case, phase, [(PLAIN, 1, 40), (short, 1, 7)])
    assert list(grouped(asked)) == [[0, 1]]
    assert [block.batch_size.size for block in evaluate_many(asked)] == [40, 7]
    ranges = batch_ranges([(one.scenario, one.operators, 7) for one in asked])
    assert not [found for found in ranges if isinstance(found, Exception)]


def broken(*_given):
    raise ZeroDivisionError("a figure of zero")


@pytest.mark.parametrize("way", ["evaluate_run", "fitting_of"])
def test_a_fault_of_this_way_alone_is_told_and_counted_and_changes_no_number(way, monkeypatch):
    short = Workload(input_length=900, output_length=60.0)
    asked = asked_of("dense", "decode", [(PLAIN, 1, 40), (short, 1, 7)])
    ranged = [(one.scenario, one.operators, 7) for one in asked]
    expected, before = batch_ranges(ranged), side_faults()
    monkeypatch.setattr(side_evaluation, way, broken)
    with pytest.warns(SideBySideWarning, match=r"^2 scenarios were evaluated one by one: ZeroDivisionError: a figure"):
        blocks, ranges = list(evaluate_many(asked)), batch_ranges(ranged)
    assert side_faults() == before + 1
    for one, block in zip(asked, blocks, strict=True):
        assert_same(block, alone(one))
    assert ranges == expected


def test_a_fault_of_a_scenario_is_its_own_and_counts_as_no_other():
    asked, before = asked_of("dense", "decode", [(PLAIN, 1, 40), (LONG, 1, 7)]), side_faults()
    with poisoned_where(lambda scenario: scenario.workload is LONG):
        fine, poisoned = evaluate_many(asked)
    assert_same(fine, alone(asked[0]))
    assert isinstance(poisoned, ZeroDivisionError)
    assert side_faults() == before


def test_only_scenarios_of_other_lengths_alone_stand_side_by_side():
    drafts = Workload(input_length=900, output_length=60.0, mtp_tokens=1, mtp_acceptance=(0.9,))
    wanted = [(PLAIN, 1, 5), (LONG, 1, 5), (PLAIN, 1, 5), (drafts, 1, 5), (LONG, 1, 5)]
    assert places("decode", wanted) == [[0, 1, 2, 4], [3]]  # chunks are of prompts
    assert places("prefill", wanted) == [[0, 2], [1, 4], [3]]
    assert places("aggregated", wanted) == [[0, 2], [1], [3], [4]]  # chunks beside decodes: schedules of their own
    assert [len(one) for one in places("decode", [(PLAIN, 1, 8000)] * 5)] == [2, 2, 1]


def places(phase, wanted):
    return sorted(grouped(asked_of("dense", phase, wanted)))


def test_a_distribution_of_one_length_stands_beside_others():
    bins = tuple(
        LengthBin(min_input_length=700, max_input_length=700, input_length=700, output_length=0.1, weight=weight)
        for weight in (0.1, 0.2, 0.3)
    )
    mean = sum(one.weight * one.output_length for one in bins) / sum(one.weight for one in bins)
    alike = Workload(input_length=None, output_length=mean, bins=bins)
    asked = asked_of("dense", "aggregated", [(PLAIN, 1, 30), (alike, 1, 30)])
    assert list(grouped(asked)) == [[0, 1]]
    for one, block in zip(asked, evaluate_many(asked), strict=True):
        assert_same(block, alone(one))


def test_one_that_cannot_be_evaluated_does_not_end_its_neighbours():
    asked = asked_of("dense", "decode", [(PLAIN, 1, 5), (LONG, 1, 5), (PLAIN, 3, 5)])
    expected = [alone(one) for one in asked]
    with poisoned_where(lambda scenario: scenario.workload.input_length == 20_000):
        made = list(evaluate_many(asked))
    assert f"{type(made[1]).__name__}: {made[1]}" == REASON
    assert_same(made[0], expected[0])
    assert_same(made[2], expected[2])


SCALARS = st.one_of(
    st.text(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.none()
)


@given(st.dictionaries(st.text(), SCALARS))
def test_a_key_of_texts_is_the_content_key_of_what_they_spell(record):
    assert key_of_texts({name: scalar_text(value) for name, value in record.items()}) == content_key(record)


def test_what_was_made_of_an_object_is_made_again_for_another():
    made = SameObjects(list, most=2)
    first, other = (1, 2), (1, 2, 3)[:2]
    assert made(first) is made(first)
    assert made(other) == made(first)
    third, fourth = [5], [6]
    assert [made(third), made(fourth), made(third)] == [[5], [6], [5]]
    for number in range(100):  # objects that are gone by the next: none is taken for another
        assert made([number]) == [number]


@given(
    st.lists(st.lists(st.sampled_from([0.0, -0.0, 1.5, float("nan")]), min_size=2, max_size=2), min_size=2, max_size=9)
)
def test_digests_of_many_blocks_are_those_of_each(lines):
    columns = dict(zip(("ttft_ms", "weight_bytes"), np.asarray(lines).T, strict=True))
    sizes = np.arange(1, len(lines) + 1)
    together = DigestedBlocks(sizes, columns)
    rows = DigestedRows.of_columns(sizes, columns)
    for start in range(len(lines)):
        for end in range(start + 1, len(lines) + 1):
            expected = rows_digest("a scenario", rows.within(start + 1, end), None)
            assert together.digest("a scenario", start, end, None) == expected
