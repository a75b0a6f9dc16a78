"""Played loads against measured servers: constant rates, a replay, and servers that could not keep up."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from measured_arrivals import HELD_OUT_LOAD, replayed, stages

replay = functools.cache(replayed)
all_stages = functools.cache(stages)


@pytest.mark.parametrize(("metric", "most"), [("ttft_p50_ms", 8.0), ("ttft_p90_ms", 8.0), ("e2e_p90_ms", 11.0)])
def test_stages_that_keep_up_are_met_in_the_median(metric, most):
    scored = [one for one in all_stages() if one.load_share < HELD_OUT_LOAD]
    assert len(scored) == 9
    assert np.median([abs(one.error(metric)) for one in scored]) <= most
    assert all(0.97 < one.hit_rate < 0.985 for one in scored)


def test_kernels_of_another_engine_are_further_off():
    """`vllm_sync` waits for its host and runs the device's own table, measured under TensorRT-LLM."""
    other = replayed(engine="vllm_sync")
    assert other.error("ttft_mean_ms") < replay().error("ttft_mean_ms") - 1.0
    assert -16.0 < other.error("ttft_mean_ms") < -6.0


def test_whole_prompts_would_be_far_off():
    """That prompts repeat is what the stages say of themselves: without a cache, they are not met."""
    (whole,) = (one for one in stages(new_tokens=589) if one.name.startswith("Mixtral") and " 10/s" in one.name)
    (cached,) = (one for one in all_stages() if one.name == whole.name)
    assert whole.error("ttft_p50_ms") > 30.0
    assert abs(cached.error("ttft_p50_ms")) < 10.0


def test_stages_that_could_not_keep_up_are_saturated():
    behind = [one for one in all_stages() if one.measured["ttft_p50_ms"] > 10_000.0]
    assert len(behind) == 2
    assert all(one.load_share > 1.0 for one in behind)


@pytest.mark.parametrize("metric", ["ttft_mean_ms", "ttft_p50_ms", "ttft_p90_ms", "ttft_p99_ms"])
def test_first_tokens_of_the_replay(metric):
    """No number of it is fitted: kernels are those of the device's tables, with rows that its cache answered told apart.

    It is twice as much as the server can do: its waits are those of too fast prompts, added up."""
    assert abs(replay().error(metric)) < 12.0


@pytest.mark.parametrize("metric", ["tpot_mean_ms", "tpot_p99_ms", "e2e_p90_ms"])
def test_the_replay_generates_as_fast_as_the_server(metric):
    assert abs(replay().error(metric)) < 9.0
