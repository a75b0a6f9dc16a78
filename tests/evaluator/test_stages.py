"""Pipeline stages under an engine's scheduler: hand sums of rounds, and a play of every micro-batch with a clock."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from arrival_cases import EDGES
from evaluator_cases import QWEN3_32B, TEST_DEVICE, W8A8, both_traces
from pipeline_player import Asked, Pipeline

from evaluator.arrivals.loads import LoadPlayer, PlaySettings
from evaluator.arrivals.play_rules import AskedRequests, PlayRules
from evaluator.arrivals.playing import play, play_in_python
from evaluator.arrivals.prices import with_engine
from evaluator.arrivals.streams import ArrivalProcess
from evaluator.evaluate import assumptions_of, cost_model, evaluate_scenario
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import EngineProfile, unfitted_engine, with_numbers
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Launch, Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.probe_block import ProbeBlock
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.engine.closed_loop import ClosedLoop, simulate
from evaluator.serving.engine.request_kinds import RequestKind
from evaluator.serving.engine.stages import round_table, table_of_rounds
from evaluator.serving.engine.step_tables import StepTable, TableExtents, step_table
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of

HOSTLESS = {
    "step_ms": 0.0, "step_per_decode_ms": 0.0, "step_per_prompt_ms": 0.0, "prompt_step_ms": 0.0, "request_ms": 0.0,
    "prefill_factor": 1.0, "decode_factor": 1.0,
}  # fmt: skip


def stage(prompt: int, share: float = 1.0) -> StepTable:
    """20 ms to read the weights or 80 us a token, 50 us a decoding sequence, and attention of a prompt."""
    return StepTable(
        spacing=128,
        linear=share * np.maximum(20e-3, 80e-6 * 128 * np.arange(200)) * (np.arange(200) > 0),
        input_length=prompt,
        attention=share * 5e-6 * prompt * np.linspace(0.0, 1.0, 9) ** 1.7,
        decode_linear=share * np.maximum(20e-3, 80e-6 * np.arange(300)),
        decode_own=share * 50e-6 * np.arange(300.0),
    )


def rounds(stages: list[StepTable], budget: int, output: int, sequences: int = 256) -> StepTable:
    kind = RequestKind(new_tokens=stages[0].input_length, output_length=output)
    tokens = len(stages) * budget + sequences
    return table_of_rounds(stages, budget, TableExtents(kinds=(kind,), sequences=sequences, tokens=tokens))


def engine(admission: str, budget: int, ahead: int = 0) -> EngineProfile:
    numbers = {**HOSTLESS, "token_budget": budget, "ahead_steps": ahead}
    return replace(with_numbers(unfitted_engine("vllm"), numbers), admission=admission)


def test_a_round_of_decodes_is_one_way_through_all_stages_or_the_slowest_of_them_in_turn():
    table = rounds([stage(1000), stage(1000, 1.5)], 4096, 100)
    step = table.decode_linear + table.decode_own
    # One sequence: 20.05 + 1.5 x 20.05 = 50.125 ms, and the other stage waits.
    assert step[1] == pytest.approx(50.125e-3)
    # Two micro-batches of one: the slow stage takes 30.075 ms for each.
    assert step[2] == pytest.approx(60.15e-3)
    # 200 in two of 100: 2 x 1.5 x (20 + 5) ms.
    assert step[200] == pytest.approx(75e-3)
    even = rounds([stage(1000)] * 2, 4096, 100)
    # Two equal stages: each of two micro-batches takes what one alone does, so two users have twice the tokens.
    assert (even.decode_linear + even.decode_own)[1] == pytest.approx(40.1e-3)
    assert (even.decode_linear + even.decode_own)[2] == pytest.approx(40.1e-3)


def test_a_prompt_alone_passes_every_stage_and_many_share_them():
    prompt, budget = 2048, 4096
    table = rounds([stage(prompt)] * 2, budget, 100)
    # 2,048 tokens: 163.84 ms a stage; attention 2 x 10.24 ms.
    assert table.linear_s(prompt) + table.attention_s(prompt) == pytest.approx(2 * (163.84e-3 + 10.24e-3))
    # Four of them in two full micro-batches: each stage computes each prompt once.
    together = table.linear_s(4 * prompt) + 4 * table.attention_s(prompt)
    assert together == pytest.approx(2 * (4096 * 80e-6 + 2 * 10.24e-3))


# (stages, users, prompt, output, budget, relative error of TTFT, and of TPOT and tokens/s)
LOOPS = [
    (2, 1, 4000, 100, 4096, 0.02, 0.01),
    (2, 4, 4000, 100, 4096, 0.10, 0.05),
    (2, 16, 4000, 100, 4096, 0.12, 0.05),
    (2, 64, 4000, 60, 4096, 0.13, 0.09),
    (4, 8, 4000, 60, 4096, 0.12, 0.08),
    (4, 32, 4000, 60, 4096, 0.15, 0.12),
    (2, 8, 20_000, 60, 4096, 0.12, 0.10),
    (2, 32, 500, 100, 4096, 0.20, 0.06),
]


@pytest.mark.parametrize("admission", ["mixed", "prefill_first"])
@pytest.mark.parametrize("loop", LOOPS)
def test_a_closed_loop_is_that_of_micro_batches_with_a_clock(loop, admission):
    (stages, users, prompt, output, budget), (first, others) = loop[:5], loop[5:]
    tables, draws = [stage(prompt)] * stages, random.Random(1)
    lengths = [[round(most * draws.uniform(0.9, 1.0)) for most in (prompt, output)] for _ in range(10 * users)]
    done = Pipeline(tables, budget, mixed=admission == "mixed").run([Asked(0.0, *each) for each in lengths], users)
    asked = ClosedLoop(users=users, output_length=output, shortest=0.9, prompts=10 * users)
    said = simulate(rounds(tables, budget, output), engine(admission, stages * budget), asked)
    span = max(one.end for one in done)
    assert said.ttft_s == pytest.approx(np.mean([one.first - one.arrive for one in done]), rel=first)
    measured = np.mean([(one.end - one.first) / (one.output - 1) for one in done])
    assert said.tpot_exclusive_s == pytest.approx(measured, rel=others)
    assert said.output_tokens / said.makespan_s == pytest.approx(sum(one.output for one in done) / span, rel=others)


@pytest.mark.parametrize("admission", ["mixed", "prefill_first"])
@pytest.mark.parametrize(("stages", "share"), [(2, 0.1), (2, 0.5), (4, 0.15)])
def test_requests_that_arrive_are_those_of_micro_batches_with_a_clock(stages, share, admission):
    prompt, output, budget, count, draws = 4000, 100, 4096, 300, random.Random(2)
    tables = [stage(prompt)] * stages
    table, one = rounds(tables, budget, output), engine(admission, stages * budget)
    lengths = np.asarray([[round(most * draws.uniform(0.5, 1.0)) for most in (prompt, output)] for _ in range(count)])
    # A stage is busy for 0.24 s of a mean prompt of 3,000 tokens.
    arrive = np.cumsum([draws.expovariate(share / 0.24) for _ in range(count)])
    asked = AskedRequests(
        arrive_s=arrive, new_tokens=lengths[:, 0], cached=np.zeros(count, dtype=np.int64), steps=lengths[:, 1],
        node=np.zeros(count, dtype=np.int64), stretch=np.full(count, table.stretches / prompt),
        service_s=np.ones(count), replica=np.zeros(count, dtype=np.int64),
    )  # fmt: skip
    rules = PlayRules(admission=one.admission, token_budget=one.token_budget, seats=256)
    prices = with_engine(table, one, table.decode_own, np.zeros(table.decode_own.size))
    said = play(rules, prices, asked, EDGES)
    assert said.end_s.tobytes() == play_in_python(rules, prices, asked, EDGES).end_s.tobytes()
    coming = [Asked(float(moment), *map(int, each)) for moment, each in zip(arrive, lengths, strict=True)]
    done = Pipeline(tables, budget, mixed=admission == "mixed").run(coming, None)
    first = np.mean([request.first - request.arrive for request in done])
    assert np.mean(said.first_s - arrive) == pytest.approx(first, rel=0.08)
    token = np.mean([(request.end - request.first) / (request.output - 1) for request in done])
    assert np.mean((said.end_s - said.first_s) / (lengths[:, 1] - 1)) == pytest.approx(token, rel=0.10)


def scenario(plan: Plan, serving_model: str = "vllm", **more) -> Scenario:
    defaults = {
        "model": QWEN3_32B, "device": TEST_DEVICE, "precision": Precision(linear="W8A8_DYNAMIC"), "plan": plan,
        "workload": Workload(input_length=2000, output_length=300.0, max_batched_tokens=4096), "phase": "aggregated",
        "serving_model": serving_model,
    }  # fmt: skip
    return Scenario(**(defaults | more))


def block(one: Scenario, sizes) -> ProbeBlock:
    return evaluate_scenario(one, np.asarray(sizes), both_traces(one.model, one.plan, linear=W8A8))


def test_one_stage_is_the_table_of_steps_to_the_bit():
    traces = both_traces(QWEN3_32B, Plan(tp=4), linear=W8A8)
    extents = TableExtents(kinds=(RequestKind(new_tokens=2000, output_length=300),), sequences=8, tokens=4096)
    cost = cost_model(TEST_DEVICE, "physical")
    one, other = step_table(traces, cost, extents), round_table(traces, cost, extents, 4096)
    for name in ("linear", "attention", "decode_linear", "decode_own"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


def test_the_last_stage_of_a_node_sends_to_the_next_node():
    """Four stages of 4 devices on nodes of 8: one of three sends goes over the network."""
    device, plan = load_device("h100_sxm", family="theoretical"), Plan(tp=4, pp=4)
    kind = RequestKind(new_tokens=2048, output_length=300)
    traces, extents = both_traces(QWEN3_32B, plan, linear=W8A8), TableExtents(kinds=(kind,), sequences=4, tokens=4096)
    cost = cost_model(device, "physical")
    inside, across = (round_table(traces, cost, extents, 16384, node_devices=one).linear_s(2048) for one in (32, 8))
    network, nvlink = (
        # 2,048 tokens of 5,120 numbers of 2 bytes
        link.latency_s + 2048 * 5120 * 2 / (link.bandwidth_bytes_per_s * link.efficiency)
        for link in device.links
    )
    assert across - inside == pytest.approx(network - nvlink, rel=1e-6)


@pytest.mark.parametrize("serving_model", ["vllm", "sglang", "trtllm"])
def test_decodes_alone_are_the_formulas_of_a_pipeline(serving_model):
    """Waves know the period of a full pipeline; an engine without host time has no other."""
    sizes, plan = [1, 7, 32], Plan(tp=2, pp=4)
    profile = replace(with_numbers(unfitted_engine(serving_model), HOSTLESS), client=Client(shortest=1.0))
    mine = block(scenario(plan, f"{serving_model}@1", engine=profile, phase="decode"), sizes)
    waves = block(scenario(plan, "waves", phase="decode"), sizes)
    assert mine.tpot_exclusive_ms == pytest.approx(waves.decode_step_ms, rel=5e-4)  # half a token of keys apart
    assert mine.concurrency.tolist() == [4, 28, 128]  # a micro-batch for every stage


def test_answers_say_that_stages_have_no_errors_of_their_own():
    one = scenario(Plan(tp=4, pp=2))
    said = assumptions_of(one, both_traces(one.model, one.plan, linear=W8A8))
    assert any(line.startswith("2 pipeline stages") for line in said)
    other = replace(one, plan=Plan(tp=4))
    assert not any("stages" in line for line in assumptions_of(other, both_traces(one.model, other.plan, linear=W8A8)))


def test_stages_carry_more_users_than_the_devices_of_one_stage_would():
    """Twice the devices in two stages: a step little longer, for twice the users, of half the weights each."""
    whole, halves = block(scenario(Plan(tp=4)), [16]), block(scenario(Plan(tp=4, pp=2)), [16])
    assert halves.concurrency[0] == 2 * whole.concurrency[0]
    assert halves.tpot_exclusive_ms[0] < 1.5 * whole.tpot_exclusive_ms[0]
    # 64 layers in two stages: 32 each, with the keys of twice the users. Each stage has the embedding or the head.
    assert halves.kv_cache_bytes[0] == pytest.approx(whole.kv_cache_bytes[0], rel=1e-3)
    assert 0.5 < halves.weight_bytes[0] / whole.weight_bytes[0] < 0.57


def test_seats_are_of_all_micro_batches():
    """`--max-num-seqs 16` on two stages: 8 in each, whoever else asks."""
    sizes, limited = [8, 20], Launch(seats=16)
    mine, free = (block(scenario(Plan(tp=4, pp=2), launch=one), sizes) for one in (limited, Launch()))
    assert mine.tpot_exclusive_ms[1] == pytest.approx(mine.tpot_exclusive_ms[0], rel=0.1)
    assert mine.ttft_ms[1] > 5 * free.ttft_ms[1]
    assert mine.kv_cache_bytes[1] == mine.kv_cache_bytes[0]


def test_loads_of_stages_saturate_where_their_closed_loop_does():
    """With answers of several lengths: equal ones end together, and their prompts fill rounds."""
    one = scenario(Plan(tp=4, pp=2), client=Client(shortest=0.3))
    run = Run(
        scenario=one, operators=both_traces(QWEN3_32B, one.plan, linear=W8A8),
        source=serving_model_of(one).source(one), cost=cost_model(TEST_DEVICE, "physical"), batch_sizes=np.asarray([1]),
    )  # fmt: skip
    profile = serving_engine(one)
    player = LoadPlayer(run, profile, PlaySettings(process=ArrivalProcess(kind="poisson", requests=500), seats=64))
    looped = block(one, [32])
    # 64 users with answers of 195 tokens in the mean, the first one with the prompt.
    served = 64 / (1e-3 * (looped.ttft_ms[0] + 194 * looped.tpot_exclusive_ms[0]))
    assert player.saturation_per_s == pytest.approx(served, rel=0.05)
    assert player.rules.token_budget == 8192  # of a round: 4,096 in each micro-batch
