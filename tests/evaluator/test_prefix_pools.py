"""Pools of prefill instances with caches of prompt blocks: hits, dispatch, rejection, and the prices of prompts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from arrival_cases import run_of_qwen
from hypothesis import given
from hypothesis import strategies as st

from evaluator.arrivals.loads import LoadPlayer, PlaySettings
from evaluator.arrivals.pool_loads import PoolPlayer
from evaluator.arrivals.prefix_pools import PoolRules, PoolSettings, play_pool
from evaluator.arrivals.streams import ArrivalProcess, uniform
from evaluator.evaluate import capture_requests, cost_of
from evaluator.graph.capture import capture_operators
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.images import ImageRequest
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import load_model
from evaluator.inputs.workloads.arrival_times import BLOCK_TOKENS, TracedArrivals
from evaluator.inputs.workloads.workload import Workload, with_images
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.encoding import encoder_table
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from store.errors import InputError


def sessions(users: int, turns: int) -> TracedArrivals:
    """Users who come back with all that was said before, and 512 to 2,048 tokens more; in a random order."""
    grown = [0] * users
    lengths, blocks = [], []
    for draw in uniform(5, 0, users * turns):
        user = int(draw * users) % users
        grown[user] += 1 + int(draw * 1e6) % 4
        lengths.append(BLOCK_TOKENS * grown[user] - int(draw * 1e7) % BLOCK_TOKENS)
        blocks.append(tuple(1_000_000 * user + place for place in range(grown[user])))
    return TracedArrivals(
        times=np.cumsum(-np.log(uniform(5, 1, users * turns))),
        input_lengths=np.asarray(lengths),
        output_lengths=np.full(users * turns, 100),
        sha256="0" * 64,
        blocks=tuple(blocks),
    )


TRACE = sessions(200, 6)


def seconds(cached: int, prompt: int) -> float:
    return 0.02 + 7e-5 * (prompt - cached)


def played(policy, *, trace=TRACE, rate=4.0, **more):
    rules = PoolRules(**{"policy": policy, "instances": 4, "cache_blocks": 600, "token_transfer_s": 2e-6} | more)
    return play_pool(rules, seconds, trace.times / rate, trace.input_lengths, trace.blocks)


def test_caches_of_any_size_hit_what_was_there_before():
    endless = played("load", instances=1, cache_blocks=10**9)
    seen: set[int] = set()
    for number, (prompt, blocks) in enumerate(zip(TRACE.input_lengths, TRACE.blocks, strict=True)):
        held = next((place for place, block in enumerate(blocks) if block not in seen), len(blocks))
        assert endless.cached[number] == min(BLOCK_TOKENS * held, prompt - 1)
        seen.update(blocks)


def test_the_oldest_blocks_leave_first():
    prompts = [(1, 2), (3,), (1, 2), (4,), (3,), (1, 2)]
    trace = TracedArrivals(
        times=np.arange(6.0), input_lengths=np.asarray([512 * len(one) for one in prompts]),
        output_lengths=np.ones(6), sha256="0" * 64, blocks=tuple(prompts),
    )  # fmt: skip
    found = played("load", trace=trace, instances=1, cache_blocks=3)
    # 4 throws 3 out, 3 throws 2 out: of a prompt the last block leaves first.
    assert found.cached.tolist() == [0, 0, 1023, 0, 0, 512]


def test_the_four_policies_stand_in_their_order():
    found = {policy: played(policy) for policy in ("random", "load", "cache", "mooncake")}
    hits = {policy: one.hit_rate(TRACE.input_lengths) for policy, one in found.items()}
    assert hits["mooncake"] > hits["cache"] > max(hits["random"], hits["load"])
    means = [float(found[policy].ttft_s.mean()) for policy in ("mooncake", "cache", "load", "random")]
    assert means == sorted(means)


def test_a_threshold_that_nothing_passes_is_the_own_cache():
    never = played("mooncake", balance_threshold=1e9)
    own = played("cache")
    # Without an own prefix the ratio is endless, whatever the threshold.
    assert never.hit_rate(TRACE.input_lengths) != own.hit_rate(TRACE.input_lengths)
    slow = played("mooncake", token_transfer_s=1.0)
    assert (slow.ttft_s <= played("cache").ttft_s.max()).all()


@given(limit=st.floats(0.1, 3.0), rate=st.floats(1.0, 20.0))
def test_nobody_who_is_let_in_waits_longer_than_the_limit(limit, rate):
    found = played("cache", rate=rate, reject_s=limit)
    entered = ~np.isnan(found.ttft_s)
    assert (found.ttft_s[entered] <= limit).all()
    assert (found.cached[~entered] == 0).all()
    assert 0.0 <= found.hit_rate(TRACE.input_lengths) < 1.0


def test_one_prompt_at_a_time_and_none_before_it_arrives():
    found = played("load", instances=1, rate=50.0)
    ends = TRACE.times / 50.0 + found.ttft_s
    alone = np.asarray(
        [seconds(cached, prompt) for cached, prompt in zip(found.cached, TRACE.input_lengths, strict=True)]
    )
    assert (np.diff(ends) >= alone[1:] - 1e-9).all()
    assert found.busy_s == pytest.approx(alone.sum())


def pool_player(run, settings=None, trace=TRACE, **more):
    engine = serving_engine(run.scenario)
    settings = settings or PlaySettings(process=ArrivalProcess(kind="trace", requests=trace.times.size))
    return PoolPlayer(
        run, engine, settings, PoolSettings(**{"policy": "load", "instances": 1, "cache_blocks": 1} | more), trace
    )


def test_a_lone_prompt_takes_what_an_instance_alone_takes():
    run = run_of_qwen("prefill")
    settings = PlaySettings(process=ArrivalProcess(kind="trace", requests=TRACE.times.size))
    player = LoadPlayer(run, serving_engine(run.scenario), settings, TRACE)
    apart = TracedArrivals(
        times=TRACE.times, input_lengths=TRACE.input_lengths, output_lengths=TRACE.output_lengths, sha256="0" * 64,
        blocks=tuple((number, *(-1,) * len(one)) for number, one in enumerate(TRACE.blocks)),
    )  # fmt: skip
    alone, pooled = player.load(1e-7), pool_player(run, trace=apart).load(1e-7)  # no two of them meet
    assert pooled.hit_rate == 0.0
    assert pooled.ttft_mean_ms == pytest.approx(alone.ttft_mean_ms, rel=1e-5)  # clocks of 10^10 s
    assert pooled.outside_ms == alone.outside_ms


def test_a_load_of_a_pool_adds_up():
    player = pool_player(run_of_qwen("prefill"), policy="mooncake", instances=4, cache_blocks=300)
    low, high = (player.load(share * player.saturation_per_s, keep_requests=True) for share in (0.2, 0.9))
    for one in (low, high):
        assert one.cells.requests.sum() == one.requests - one.rejected == one.requests
        assert one.request_times.ttft.mean() == pytest.approx(one.ttft_mean_ms)
    assert low.busy_share < high.busy_share <= 1.0
    assert low.ttft_mean_ms < high.ttft_mean_ms


def test_rejected_requests_are_the_long_ones():
    process = ArrivalProcess(kind="trace", requests=TRACE.times.size)
    player = pool_player(
        run_of_qwen("prefill"), PlaySettings(process=process, reject_ms=300.0), instances=4, cache_blocks=300
    )
    load = player.load(2.0 * player.saturation_per_s)
    assert 0 < load.rejected < load.requests
    assert load.rejected_prompt_share > load.rejected / load.requests


def pictured_run(engine, **plan):
    model = load_model("Qwen/Qwen3-VL-8B-Instruct")[1]
    workload = with_images(
        Workload(input_length=1000, output_length=100.0), ImageRequest(count=1, width=1024, height=768), model
    )
    scenario = Scenario(
        model=model, device=load_device("h200_sxm", family="theoretical"), precision=Precision(linear="BF16"),
        plan=Plan(**plan), workload=workload, phase="prefill", serving_model=engine,
    )  # fmt: skip
    sets = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    return Run(
        scenario=scenario, operators=sets, source=serving_model_of(scenario).source(scenario), cost=cost_of(scenario),
        batch_sizes=np.asarray([1]),
    )  # fmt: skip


PICTURED = TracedArrivals(
    times=np.arange(60.0), input_lengths=np.asarray([2000, 900, 17_000] * 20), output_lengths=np.full(60, 10),
    sha256="0" * 64, images=np.asarray([2, 0, 13] * 20),
    blocks=tuple(tuple(range(100 * number, 100 * number + 34)) for number in range(60)),
)  # fmt: skip


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_lone_prompt_with_images_takes_what_an_instance_alone_takes(engine):
    run = pictured_run(engine)
    settings = PlaySettings(process=ArrivalProcess(kind="trace", requests=PICTURED.times.size))
    player = LoadPlayer(run, serving_engine(run.scenario), settings, PICTURED)
    alone, pooled = (
        one.load(1e-5, keep_requests=True).request_times.ttft for one in (player, pool_player(run, trace=PICTURED))
    )
    assert pooled == pytest.approx(alone[-pooled.size :], rel=1e-6)
    assert pooled.max() > 5 * pooled.min()


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_images_that_a_cache_holds_are_not_encoded(engine):
    # Images of 768 tokens at 0, 768 and 1,536; 2,048 cached tokens hold two of them whole.
    run = pictured_run(engine)
    profile = serving_engine(run.scenario)
    player = pool_player(run, trace=PICTURED)
    one, three, whole = (player.prompt_s(cached, 3000, 3) for cached in (2048, 0, 2304))
    table = encoder_table(run, profile.token_budget)
    assert one - player.prompt_s(2048, 3000) == pytest.approx(profile.prefill_factor * table[1])
    assert three - player.prompt_s(0, 3000) == pytest.approx(profile.prefill_factor * table[3])
    assert whole == player.prompt_s(2304, 3000)


def test_images_that_a_pool_cannot_place_are_refused():
    with pytest.raises(InputError, match="does not say how many images"):
        pool_player(pictured_run("vllm"), trace=replace(PICTURED, images=None))
    with pytest.raises(InputError, match="a pool encodes images by itself"):
        pool_player(pictured_run("vllm", encoder_devices=1), trace=PICTURED)
    with pytest.raises(InputError, match="request 1 of the log has 3 images in 2000 tokens"):
        pool_player(pictured_run("vllm"), trace=replace(PICTURED, images=np.full(60, 3)))


def test_what_is_no_pool_is_refused():
    with pytest.raises(InputError, match="a pool is of prefill instances"):
        pool_player(run_of_qwen("aggregated"))
    bare = TracedArrivals(
        times=TRACE.times, input_lengths=TRACE.input_lengths, output_lengths=TRACE.output_lengths, sha256="0" * 64
    )
    with pytest.raises(InputError, match="needs the hashes of prompt blocks"):
        pool_player(run_of_qwen("prefill"), trace=bare)
