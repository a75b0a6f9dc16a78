"""First tokens of users in step: those of a client whose lengths are all equal, kept where they are far from the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import QWEN3_32B, TEST_DEVICE, W8A8, both_traces

from evaluator.evaluate import evaluate_scenario
from evaluator.inputs.engines.engine_profiles import engine_profile
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Launch, Plan
from evaluator.inputs.workloads.workload import LengthBin, Workload
from evaluator.scenario import Scenario
from evaluator.serving.engine.in_step import APART, coarser, ladder_of

PLAN = Plan(tp=8)
MIXED = Workload(
    input_length=None,
    output_length=200.0,
    bins=tuple(
        LengthBin(
            input_length=tokens, output_length=tokens / 5, weight=0.5, min_input_length=tokens, max_input_length=tokens
        )
        for tokens in (500, 1500)
    ),
)


def evaluated(name: str, lengths=(1000, 200), sizes=range(1, 97), **more):
    """Probes of an engine as shipped, by its own client unless another is given."""
    engine = engine_profile(name)
    workload = Workload(
        input_length=lengths[0], output_length=float(lengths[1]), max_batched_tokens=engine.token_budget
    )
    one = Scenario(
        model=QWEN3_32B, device=TEST_DEVICE, precision=Precision(linear="W8A8_DYNAMIC"), plan=PLAN,
        **{"workload": workload, "phase": "aggregated", "serving_model": name, **more},
    )  # fmt: skip
    return evaluate_scenario(one, np.asarray(sizes), both_traces(QWEN3_32B, PLAN, linear=W8A8))


@pytest.mark.parametrize("name", ["sglang", "vllm", "trtllm"])
@pytest.mark.parametrize("lengths", [(1000, 200), (4000, 1000)])
def test_they_are_those_of_a_client_whose_lengths_are_equal(name, lengths):
    drifting = evaluated(name, lengths)
    client = replace(engine_profile(name).client, shortest=1.0)
    locked = evaluated(name, lengths, client=client)
    # Far from APART there is no doubt which of both a size is; near it a size between two that are played may be either.
    ratio = locked.ttft_ms / drifting.ttft_ms
    apart = np.maximum(ratio, 1.0 / ratio)
    told = ~np.isnan(drifting.ttft_in_step_ms)
    assert told[apart > 1.15 * APART].all()
    assert not told[apart < APART / 1.15].any()
    off = drifting.ttft_in_step_ms[told] / locked.ttft_ms[told] - 1.0
    if off.size:
        assert np.abs(off).mean() < 0.03
        assert np.abs(off).max() < 0.15
    assert np.isnan(locked.ttft_in_step_ms).all()  # they have nothing to compare with


def test_users_of_sglang_in_step_wait_much_longer():
    found = evaluated("sglang", sizes=[1, 32])
    assert np.isnan(found.ttft_in_step_ms[0])  # one user is alone
    assert found.ttft_in_step_ms[1] > APART * found.ttft_ms[1]


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("sglang_locked", {}),  # measured in step
        ("sglang", {"client": Client(shortest=0.8)}),  # draws lengths: nobody can be in step
        ("sglang", {"phase": "prefill"}),
        ("sglang", {"phase": "decode"}),
        ("waves", {}),
        ("sglang", {"workload": MIXED}),
    ],
)
def test_there_are_none_where_nobody_drifts_or_lengths_differ(name, more):
    if name == "waves":
        more = {**more, "serving_model": "waves"}
        name = "sglang"
    assert np.isnan(evaluated(name, sizes=[1, 16, 32], **more).ttft_in_step_ms).all()


@pytest.mark.parametrize("seats", [None, 3, 17, 40])
def test_they_do_not_depend_on_the_sizes_asked_for(seats):
    launch = Launch(seats=seats)
    whole = evaluated("sglang", launch=launch).ttft_in_step_ms
    for sizes in ([5], [17, 18], [23, 60], [96]):
        part = evaluated("sglang", sizes=sizes, launch=launch).ttft_in_step_ms
        assert part.tolist() == pytest.approx([whole[size - 1] for size in sizes], rel=0.0, abs=0.0, nan_ok=True)


@pytest.mark.parametrize("seats", [None, 1, 7, 16, 17, 64, 300])
def test_the_coarser_ladder_goes_around_every_range_and_is_part_of_one(seats):
    whole = coarser(np.asarray([1, 2000]), seats)
    for first in range(1, 130, 3):
        for last in (first, first + 1, first + 10, 257):
            found = coarser(np.asarray([first, max(first, last)]), seats)
            assert found[0] <= first
            assert found[-1] >= last
            assert found == whole[whole.index(found[0]) :][: len(found)]
            assert set(found) <= {2, 4, 8, 16, *ladder_of(np.asarray([1, max(first, last)]), seats)}
