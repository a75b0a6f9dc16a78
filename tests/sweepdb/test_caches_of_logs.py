"""Logs of requests whose prompts lie in caches: by stated shares, or as their own prefixes say."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import LLAMA_31_8B

import sweepdb
from evaluator.arrivals.asked import at_rate
from evaluator.arrivals.loads import LoadPlayer, PlaySettings
from evaluator.arrivals.streams import ArrivalProcess
from evaluator.arrivals.trace_caches import (
    CacheRoom,
    block_bytes,
    prefix_tokens,
    reading_seconds,
    reading_tiers,
    stated_tokens,
    told_rooms,
)
from evaluator.evaluate import capture_requests, cost_of
from evaluator.graph import capture_operators
from evaluator.inputs import Plan, Precision, load_device, workload_of
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.inputs.workloads.workload import CacheTier
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from store.errors import InputError
from sweepdb.evaluating.arrivals import rooms_of

# Three conversations of four turns, each turn 1,024 tokens longer than the one before, one after another
TURNS = [(conversation, turn) for turn in range(4) for conversation in range(3)]
PROMPTS = np.asarray([1024 * (turn + 1) for _, turn in TURNS])
BLOCKS = tuple(tuple(1000 * conversation + place for place in range(2 * (turn + 1))) for conversation, turn in TURNS)


def log(copies=1):
    number = len(TURNS) * copies
    blocks = [tuple(100_000 * copy + one for one in each) for copy in range(copies) for each in BLOCKS]
    return TracedArrivals(
        times=np.arange(float(number)),
        input_lengths=np.tile(PROMPTS, copies),
        output_lengths=np.full(number, 50),
        sha256="0" * 64,
        blocks=tuple(blocks),
    )


def test_a_prompt_shares_its_conversation_with_the_turn_before():
    held = prefix_tokens(log(), {"device": 10_000})
    # The turn before had 1,024 tokens less; of the first nothing is known
    assert held.device.tolist() == [1024 * turn for _, turn in TURNS]
    assert held.shares(PROMPTS) == {"device": held.device.sum() / PROMPTS.sum()}


def test_what_left_the_devices_is_found_in_the_tier_behind_them():
    # Three conversations of eight blocks: devices keep the last one alone, the host all
    held = prefix_tokens(log(), {"device": 8, "host": 24})
    # The second turns of two conversations find their first ones there: 2 + 4 and 4 + 2 of 8 blocks
    assert held.device.tolist() == [0, 0, 0, 1024, 1024, *[0] * 7]
    assert held.cached.tolist() == [1024 * turn for _, turn in TURNS]
    small = prefix_tokens(log(), {"device": 8, "host": 8, "ssd": 12})
    # 12 blocks hold the last two turns of 2 + 2 and 4 + 4 blocks, and part of longer ones
    assert (small.tiers["host"] == 0).all()
    assert 0 < small.tiers["ssd"].sum() < held.tiers["host"].sum()


def test_replicas_have_caches_of_their_own():
    everyone = prefix_tokens(log(), {"device": 10_000})
    apart = prefix_tokens(log(), {"device": 10_000}, np.asarray([number % 2 for number in range(len(TURNS))]))
    assert 0 < apart.device.sum() < everyone.device.sum()


def test_stated_shares_are_of_every_prompt_and_leave_a_token():
    workload = workload_of(
        input_length=1000, output_length=50, prefix_cache_hit_rate=0.25, tiers=(CacheTier(name="host", hit_rate=0.7),)
    )
    held = stated_tokens(np.asarray([1000, 7, 1]), workload)
    # 250 and 700 of 1,000; 1 and 5 of 7 (6.65 in all); of one token none
    assert held.device.tolist() == [250, 1, 0]
    assert held.tiers["host"].tolist() == [700, 5, 0]
    assert (held.cached < [1000, 7, 1]).all()


def scenario(engine="vllm", phase="aggregated", **changes):
    said = {
        "workload": workload_of(input_length=2000, output_length=50),
        "plan": Plan(tp=2),
        "device": load_device("h200_sxm", family="calibrated"),
    }
    return Scenario(
        **{"model": LLAMA_31_8B, "precision": Precision(), "phase": phase, "serving_model": engine, **said, **changes}
    )


def traced(one):
    return {trace: capture_operators(request) for trace, request in capture_requests(one).items()}


def player(one, trace, caches=None):
    model = serving_model_of(one)
    run = Run(
        scenario=one, operators=traced(one), source=model.source(one), cost=cost_of(one),
        batch_sizes=np.asarray([1], dtype=np.int64),
    )  # fmt: skip
    process = ArrivalProcess(kind="trace", requests=trace.times.size)
    return LoadPlayer(run, serving_engine(one), PlaySettings(process=process, caches=caches), trace)


def alone_ttft(one, caches=None, copies=10):
    """TTFT of every request where each is alone."""
    found = player(one, log(copies), caches)
    asked = at_rate(found.asked, 1e-3)
    return found.played(found.rules, asked).first_s - asked.arrive_s


def test_a_prompt_that_devices_hold_takes_what_is_left_of_it():
    whole, held = alone_ttft(scenario()), alone_ttft(scenario(), ())
    first = np.asarray([turn == 0 for _, turn in TURNS] * 10)
    assert np.allclose(held[first], whole[first], rtol=1e-12)
    assert (held[~first] < whole[~first]).all()
    # Of a prompt of 4,096 tokens the last 1,024 attend to all, so that they take more than the first prompt of as many
    last = np.asarray([turn == 3 for _, turn in TURNS] * 10)
    assert held[last].mean() > whole[first].mean()
    assert held[last].mean() < 0.5 * whole[last].mean()


def test_shares_of_the_devices_alone_are_those_of_their_own_requests():
    """One length: a log of it plays as a stream of it."""
    trace = TracedArrivals(
        times=np.arange(120.0), input_lengths=np.full(120, 2048), output_lengths=np.full(120, 50), sha256="0" * 64
    )
    one = scenario(workload=workload_of(input_length=2048, output_length=50, prefix_cache_hit_rate=0.5))
    found = player(one, trace)
    assert found.asked.cached.tolist() == [1024] * 120
    stream = LoadPlayer(found.run, found.engine, PlaySettings(process=ArrivalProcess(kind="constant", requests=120)))
    for asked in (found, stream):
        times = at_rate(asked.asked, 0.01)
        first = asked.played(asked.rules, times).first_s - times.arrive_s
        assert first[0] == pytest.approx(float(first.mean()), rel=1e-9)
        asked.alone = float(first[0])
    # What launching the attention of a first piece takes is not in pieces that follow it: 1 ms in 23
    assert found.alone == pytest.approx(stream.alone, rel=0.05)


@pytest.mark.parametrize("engine", ["vllm", "trtllm", "sglang"])
def test_prompts_wait_for_keys_that_come_from_a_tier(engine):
    one = scenario(engine)
    # Room for three conversations of eight blocks, but not for all thirty: a host that is slow to read
    room = CacheRoom(name="host", room_bytes=40 * block_bytes(one), bytes_per_s=1e9)
    slow = player(one, log(10), (room,))
    held = slow.held
    seconds = reading_seconds(one, held, reading_tiers(one, (room,)))
    host = held.tiers["host"]
    # Devices hold more than the host here, so that it adds nothing
    assert (host == 0).all()
    assert not seconds.any()
    # A prompt's half in the host, as stated: 32 layers, 4 of 8 heads a device, 128 numbers of two bytes, keys and values
    shared = replace(
        one, workload=workload_of(input_length=2048, output_length=50, tiers=(CacheTier(name="host", hit_rate=0.5, bytes_per_s=1e9),))
    )  # fmt: skip
    waiting = player(shared, log(10))
    bytes_read = waiting.held.tiers["host"] * 32 * 4 * 128 * 2 * 2
    read = bytes_read / 1e9
    beside = engine == "sglang"
    expected = np.maximum(read - waiting.asked.service_s, 0.0) if beside else read
    assert np.allclose(waiting.before.alone_s, expected)


def test_a_prompt_is_computed_again_with_its_answer_within_the_table():
    """Requests that lose their keys are longer than any prompt of the log: the tables go on."""
    one = scenario(device=replace(load_device("h200_sxm", family="calibrated"), memory_bytes=28e9))
    trace = replace(log(40), output_lengths=np.full(480, 900))
    found = player(one, trace, ())
    played = found.played(found.rules, at_rate(found.asked, 40.0))
    assert played.preempted > 0
    assert (played.end_s > played.first_s).all()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("logs")
    trace = log(20)
    with_hashes, without = folder / "hashes.jsonl", folder / "plain.jsonl"
    rows = [
        {"timestamp": 1000.0 * time, "input_length": int(prompt), "output_length": 50}
        for time, prompt in zip(trace.times, trace.input_lengths, strict=True)
    ]
    hashed = [json.dumps({**row, "hash_ids": list(each)}) for row, each in zip(rows, trace.blocks, strict=True)]
    with_hashes.write_text("\n".join(hashed))
    without.write_text("\n".join(map(json.dumps, rows)))
    return with_hashes, without


ASKED = {
    "device": "h200_sxm", "num_devices": 2, "tp_sizes": 2, "mode": "aggregated", "input_length": 2048, "output_length": 50,
    "batch_range": (1, 1), "rates": [2.0], "requests": 240,
}  # fmt: skip
MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def test_loads_say_what_was_found_where(files, tmp_path):
    url, hashed = f"sqlite:///{tmp_path}/s.sqlite", files[0]
    for more in ({}, {"trace_caches": "device"}, {"trace_caches": "device,host:800"}, {"host_hit_rate": 0.5}):
        sweepdb.evaluate(MODEL, store=url, arrivals=f"trace:{hashed}", **ASKED, **more)
    again = sweepdb.evaluate(MODEL, store=url, arrivals=f"trace:{hashed}", trace_caches="device", **ASKED)
    assert again.loads_stored == 0
    with sweepdb.open(url) as store:
        rows = store.sql("SELECT * FROM load").dicts()
        answers = store.best(by="goodput", ttft_limit=2000, tpot_limit=50).dicts()
    found = {(row["trace_caches"], row["host_prefix_share"]): row for row in rows}
    share = sum(1024 * turn for _, turn in TURNS) / PROMPTS.sum()
    assert found[None, None]["hit_rate"] is None
    assert found["device", None]["device_prefix_share"] == pytest.approx(share)
    assert found["device,host:800", 0.0]["device_prefix_share"] == pytest.approx(share)
    assert found[None, 0.5]["hit_rate"] == pytest.approx(0.5)
    times = {key: row["ttft_mean_ms"] for key, row in found.items()}
    assert times["device", None] < times[None, 0.5] < times[None, None]
    assert {row["arrivals"].rpartition("seed 1")[2] for row in answers} == {
        "",
        ", caches device",
        ", caches device,host:800",
    }


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"trace_caches": "device", "host_hit_rate": 0.5}, "`trace_caches` says what of a log's prompts is cached"),
        ({"trace_caches": "device", "prefill_policy": "cache"}, "a pool has caches of its own"),
        ({"trace_caches": "host"}, "'host' is not device, host:GB"),
        ({"trace_caches": "host:-1"}, "'host:-1' is not device"),
    ],
)
def test_what_is_refused(more, message, files, tmp_path):
    url = f"sqlite:///{tmp_path}/s.sqlite"
    asked = {**ASKED, **({"mode": "prefill"} if "prefill_policy" in more else {})}
    with pytest.raises(InputError, match=message):
        sweepdb.evaluate(MODEL, store=url, arrivals=f"trace:{files[0]}", **asked, **more)


def test_a_tier_whose_rate_nobody_states_is_named(files, tmp_path):
    url, asked = f"sqlite:///{tmp_path}/s.sqlite", {"arrivals": f"trace:{files[0]}", "trace_caches": "device,ssd:100"}
    done = sweepdb.evaluate(MODEL, store=url, **ASKED, **asked)
    assert "states no rate of its ssd" in str(done.unplayed)
    assert sweepdb.evaluate(MODEL, store=url, **ASKED, **asked, ssd_gb_per_s=3).loads_stored == 1


def test_a_log_without_hashes_takes_stated_shares_alone(files, tmp_path):
    url = f"sqlite:///{tmp_path}/s.sqlite"
    with pytest.raises(InputError, match="needs a log with hashes"):
        sweepdb.evaluate(MODEL, store=url, arrivals=f"trace:{files[1]}", trace_caches="device", **ASKED)
    with pytest.raises(InputError, match="`trace_caches` is about requests that arrive"):
        sweepdb.evaluate(MODEL, store=url, trace_caches="device", **{k: ASKED[k] for k in list(ASKED)[:7]})
    done = sweepdb.evaluate(MODEL, store=url, arrivals=f"trace:{files[1]}", prefix_cache_hit_rate=0.5, **ASKED)
    assert done.loads_stored == 1


def test_rooms_are_told_as_they_are_asked_for():
    rooms = rooms_of("ssd:2000, device,host:400")
    assert list(rooms.items()) == [("host", 400.0), ("ssd", 2000.0)]
    told = told_rooms([CacheRoom(name=name, room_bytes=1e9 * size) for name, size in rooms.items()])
    assert told == "device,host:400,ssd:2000"
