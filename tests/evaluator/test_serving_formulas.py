"""Waves, pipelines, TPOT definitions and the shared schedule of chunks and decodes, with the arithmetic beside them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evaluator.pricing.step import StepTimes
from evaluator.serving.batches import FixedLengths, WaveStage, chunk_lengths, new_prompt_tokens
from evaluator.serving.waves.chunked import ChunkedWorkload, chunked_times, schedule
from evaluator.serving.waves.wave_latencies import (
    WaveTimes,
    aggregated_times,
    pipeline_period,
    prefill_completion,
    tokens_per_step,
)


def lengths(input_length, budget=8192, **options):
    return FixedLengths(input_length=input_length, output_length=100.0, hit_rate=0.0, token_budget=budget, **options)


def completion(source, requests, wave_seconds):
    """Every wave takes `wave_seconds(tokens)`."""
    stages = source.waves(np.asarray(requests))
    times = [
        WaveTimes(total=wave, slowest_stage=wave)
        for wave in (sum(wave_seconds(step.tokens) for step in stage.steps) for stage in stages)
    ]
    return prefill_completion(stages, times, len(requests))


def test_twelve_prompts_in_three_waves():
    # Seed 001: budget 8192, input 2048, so 4 prompts a wave; 12 prompts wait 4 L (1 + 2 + 3) = 24 L together, 2 L on
    # average.
    source = lengths(2048)
    assert source.prompts_a_wave == 4
    done = completion(source, [12], np.ones_like)
    assert done.mean * 12 == pytest.approx([24.0])
    assert done.mean == pytest.approx([2.0])
    assert done.makespan == pytest.approx([3.0])


def test_a_last_wave_is_as_long_as_its_prompts():
    # 10 prompts of 2048 in waves of 4, 1 s a prompt: ends at 4, 8 and 10 s; (4 x 4 + 4 x 8 + 2 x 10) / 10 = 6.8
    done = completion(lengths(2048), [10, 1], lambda tokens: tokens / 2048)
    assert done.mean == pytest.approx([6.8, 1.0])
    assert done.makespan == pytest.approx([10.0, 1.0])


def test_upstream_schedules_replicas_as_one():
    # dp 8, budget 14000, input 3500: G = 112000 admits 32 prompts, 4 a replica
    source = lengths(3500, 14000, convention="upstream", replicas=8)
    assert source.prompts_a_wave == 32
    stages = source.waves(np.asarray([6]))
    assert [int(stage.requests[0]) for stage in stages] == [32, 16]
    assert [float(stage.steps[0].tokens[0]) for stage in stages] == [4 * 3500, 2 * 3500]


def test_upstream_never_charges_less_than_the_fullest_replica():
    # input 3000: 112000 // 3000 = 37 prompts over 8 replicas, so one replica has 5
    stages = lengths(3000, 14000, convention="upstream", replicas=8).waves(np.asarray([37]))
    assert float(stages[0].steps[0].tokens[0]) == 5 * 3000


def test_waves_follow_each_other_through_a_pipeline():
    # Waves of P = 4 s through 4 stages of 1 s: they end at 4, 5 and 6 s
    stage = WaveStage(
        batch=np.asarray([0]),
        requests=np.asarray([2]),
        repeats=np.asarray([3]),
        steps=lengths(2048).waves(np.asarray([4]))[0].steps,
    )
    times = WaveTimes(total=np.asarray([4.0]), slowest_stage=np.asarray([1.0]))
    done = prefill_completion([stage], [times], 1)
    assert done.mean == pytest.approx([5.0])
    assert done.makespan == pytest.approx([6.0])


def test_a_short_wave_does_not_overtake():
    long = WaveStage(batch=np.asarray([0]), requests=np.asarray([4]), repeats=np.asarray([1]), steps=())
    short = WaveStage(batch=np.asarray([0]), requests=np.asarray([1]), repeats=np.asarray([1]), steps=())
    times = [
        WaveTimes(total=np.asarray([8.0]), slowest_stage=np.asarray([2.0])),
        WaveTimes(total=np.asarray([0.4]), slowest_stage=np.asarray([0.1])),
    ]
    # It enters at 2 s and could be out at 2.4 s, but follows the long wave's end by its own stage: 8.1 s
    assert prefill_completion([long, short], times, 1).makespan == pytest.approx([8.1])


def test_new_tokens_after_the_prefix_cache():
    assert new_prompt_tokens(3500, 0.5) == 1750
    assert new_prompt_tokens(3500, 0.29) == 3500 - 1015  # 3500 x 0.29 is 1014.9999999999999 in binary
    assert new_prompt_tokens(7, 0.0) == 7
    assert new_prompt_tokens(10, 0.9999999999) == 1  # what is all cached still has to say what comes next


@pytest.mark.parametrize(
    ("new", "budget", "expected"),
    [(20000, 8192, (6667, 6667, 6666)), (8192, 8192, (8192,)), (8193, 8192, (4097, 4096)), (1, 8192, (1,))],
)
def test_chunks_are_few_and_equal(new, budget, expected):
    assert chunk_lengths(new, budget) == expected


@given(st.integers(1, 200_000), st.integers(1, 20_000))
def test_chunks_cover_the_prompt(new, budget):
    chunks = chunk_lengths(new, budget)
    assert sum(chunks) == new
    assert max(chunks) <= budget
    assert min(chunks) >= 1


def test_chunks_of_one_prompt_add_up_to_its_pairs():
    whole = FixedLengths(input_length=20000, output_length=1.0, hit_rate=0.25, token_budget=30000)
    parts = FixedLengths(input_length=20000, output_length=1.0, hit_rate=0.25, token_budget=8192)
    # 15000 new tokens after 5000 cached: 15000 x 5000 + 15000 x 15001 / 2
    assert float(whole.chunk_sums()[0].pairs) == 15000 * 5000 + 15000 * 15001 // 2
    assert sum(float(chunk.pairs) for chunk in parts.chunk_sums()) == float(whole.chunk_sums()[0].pairs)


def test_tokens_of_a_step_with_drafts():
    assert tokens_per_step(0, (0.9,)) == 1.0
    assert tokens_per_step(3, (0.9, 0.6, 0.4, 0.2)) == pytest.approx(2.9)
    assert tokens_per_step(5, (0.9, 0.6, 0.4, 0.2)) == pytest.approx(3.1)  # rates that are not given count as 0


def test_aggregated_latency_by_both_conventions():
    ttft, decode = np.asarray([2.0]), np.asarray([0.05])
    # physical: 2 + 0.05 x 99 = 6.95; upstream: 2 + 0.05 x 100 = 7
    physical = aggregated_times(ttft, decode, 100.0, "physical")
    upstream = aggregated_times(ttft, decode, 100.0, "upstream")
    assert physical.e2e == pytest.approx([6.95])
    assert physical.tpot_inclusive == pytest.approx([0.0695])
    assert physical.tpot_exclusive == pytest.approx([0.05])
    assert upstream.e2e == pytest.approx([7.0])
    assert upstream.tpot_inclusive == pytest.approx([0.07])  # seed 001: (ttft + decode x OL) / OL
    assert aggregated_times(ttft, decode, 1.0, "physical").tpot_exclusive == pytest.approx([0.0])


def test_the_slowest_stage_sets_the_period_of_a_pipeline():
    # Stages of 3 and 2 s, two micro-batches: each is served every 6 s although it passes in 5 s
    step = StepTimes(kinds=np.asarray([[5.0], [0.0], [0.0], [0.0], [0.0]]), slowest_stage=np.asarray([3.0]))
    assert pipeline_period(step, 2, "physical") == pytest.approx([6.0])
    assert pipeline_period(step, 2, "upstream") == pytest.approx([5.0])


def unit_steps(decodes, prefills, chunk):
    """A step takes 1 s a prefill and 0.1 s a decode."""
    return 1.0 * prefills + 0.1 * decodes + 0.0 * chunk


def test_one_chunked_prompt():
    # 3 chunks of 1 s, then 10 decode steps of 0.1 s
    workload = ChunkedWorkload(chunks=3, chunk_tokens=6667, token_budget=8192, decode_steps=10.0)
    times = chunked_times(workload, 1, unit_steps)
    assert times.ttft == pytest.approx([3.0])
    assert times.e2e == pytest.approx([4.0])
    assert times.makespan == pytest.approx([3.0])


def test_decodes_run_beside_the_chunks_of_the_next_prompt():
    # Prompt 1 is done at 3 s; prompt 2's chunks take 1.1 s each (one decode beside): 6.3 s. Prompt 1 has 7 decodes
    # left by then, shared with prompt 2 at 0.2 s: 7.7 s; prompt 2 has 3 more alone: 8.0 s.
    workload = ChunkedWorkload(chunks=3, chunk_tokens=6667, token_budget=8192, decode_steps=10.0)
    times = chunked_times(workload, 2, unit_steps)
    assert times.ttft == pytest.approx([3.0, (3.0 + 6.3) / 2])
    assert times.e2e == pytest.approx([4.0, (7.7 + 8.0) / 2])


def test_a_request_may_finish_while_others_prefill():
    # Two decode steps: prompt 1 (done at 3 s) finishes at 5.2 s, inside the chunks of prompt 2, which is done at 6.2 s
    workload = ChunkedWorkload(chunks=3, chunk_tokens=6667, token_budget=8192, decode_steps=2.0)
    times = chunked_times(workload, 2, unit_steps)
    assert times.ttft[1] == pytest.approx((3.0 + 6.2) / 2)
    assert times.e2e[1] == pytest.approx((5.2 + 6.4) / 2)


def test_decodes_first_leave_the_margin_to_prefills():
    # floor(1.15 x 8192) = 9420; a chunk of 4097 fits twice beside up to 1226 decodes, once beside 1227
    workload = ChunkedWorkload(chunks=2, chunk_tokens=4097, token_budget=8192, decode_steps=1e9)
    plan = schedule(workload, 4000)
    assert set(plan.prefills[plan.decodes <= 1226]) == {2}
    assert plan.prefills[np.flatnonzero(plan.decodes >= 1227)[0]] == 1
    assert (plan.decodes * 1 + plan.prefills * 4097 <= 9420).all()


def brute_force(workload, requests):
    """The same rules, one request at a time, for this number of requests alone."""
    limit = int(1.15 * workload.token_budget)
    done, got, first, last = [0] * requests, [0.0] * requests, [0.0] * requests, [0.0] * requests
    now = 0.0
    while any(last[i] == 0.0 for i in range(requests)):
        ready = [i for i in range(requests) if done[i] == workload.chunks and last[i] == 0.0]
        decoding = min(len(ready), workload.token_budget)
        waiting = [i for i in range(requests) if done[i] < workload.chunks]
        group = [i for i in waiting if done[i] == done[waiting[0]]] if waiting else []
        if waiting and done[waiting[0]] > 0:
            group = group[: sum(1 for i in group)]
        room = max((limit - decoding) // workload.chunk_tokens, 0 if ready else 1)
        taken = group[:room]
        chunk = done[taken[0]] if taken else 0
        now += float(unit_steps(np.asarray(float(decoding)), np.asarray(len(taken)), np.asarray(chunk)))
        for i in ready:
            got[i] += 1
            if got[i] >= workload.decode_steps:
                last[i] = now
        for i in taken:
            done[i] += 1
            if done[i] == workload.chunks:
                first[i] = now
    return np.mean(first), np.mean(last)


@given(st.integers(1, 9), st.integers(2, 3), st.integers(1, 12), st.sampled_from([3000, 4100, 6667]))
def test_one_schedule_holds_every_smaller_batch(requests, chunks, decode_steps, chunk_tokens):
    workload = ChunkedWorkload(
        chunks=chunks, chunk_tokens=chunk_tokens, token_budget=8192, decode_steps=float(decode_steps)
    )
    times = chunked_times(workload, 9, unit_steps)
    ttft, e2e = brute_force(workload, requests)
    assert times.ttft[requests - 1] == pytest.approx(ttft, rel=1e-9)
    assert times.e2e[requests - 1] == pytest.approx(e2e, rel=1e-9)
