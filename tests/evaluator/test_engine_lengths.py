"""Engines under length distributions and seats: against a play with a clock, against fixed lengths, and their limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from clock_player import ClockPlayer, Request, played
from evaluator_cases import QWEN3_32B, TEST_DEVICE, W8A8, both_traces
from examples import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evaluator.evaluate import assumptions_of, composition_of, evaluate_scenario, unsupported
from evaluator.inputs.engines.engine_profiles import NUMBERS, EngineProfile, list_engines, unfitted_engine, with_numbers
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Launch, Plan
from evaluator.inputs.workloads.workload import LengthBin, Workload
from evaluator.inputs.workloads.workload_labels import workload_of
from evaluator.scenario import Scenario
from evaluator.serving.engine.closed_loop import ClosedLoop, marginal_prompt_s, simulate
from evaluator.serving.engine.closed_run import prompt_batches
from evaluator.serving.engine.request_kinds import RequestKind, even_order, merged, weights_of
from evaluator.serving.engine.step_tables import StepTable, TableExtents
from evaluator.together.ranges import batch_range

TP8 = Plan(tp=8)
LOOPED = ("ttft_ms", "tpot_exclusive_ms", "tpot_inclusive_ms", "e2e_ms", "makespan_ms")
VLLM = unfitted_engine("vllm")
KERNELS_ALONE = with_numbers(unfitted_engine("sglang"), {name: 0.0 for name in NUMBERS if name.endswith("_ms")})


def curved(kinds: tuple[RequestKind, ...]) -> StepTable:
    """Times that are proportional to nothing; cached tokens make a prompt's attention longer."""
    attention = [1e-6 * (one.new_tokens + one.cached) * np.linspace(0.0, 1.0, 9) ** 1.7 for one in kinds]
    return StepTable(
        spacing=256,
        linear=1e-5 * np.arange(70) ** 1.1,
        input_length=max(one.new_tokens for one in kinds),
        attention=np.concatenate(attention),
        decode_linear=5e-3 + 4e-6 * np.arange(300) ** 0.9,
        decode_own=1e-5 + 6e-6 * np.arange(300),
        kinds=kinds if len(kinds) > 1 else (),
    )


some_kinds = st.lists(
    st.builds(
        RequestKind,
        new_tokens=st.integers(1, 2000),
        cached=st.sampled_from([0, 300]),
        output_length=st.integers(1, 30).map(float),
        weight=st.floats(0.05, 1.0),
    ),
    min_size=2,
    max_size=5,
).map(merged)
loops = st.builds(
    ClosedLoop,
    users=st.integers(1, 9),
    output_length=st.just(12.0),
    prompts=st.none() | st.integers(1, 40),
    shortest=st.sampled_from([1.0, 0.99, 0.3]),
    poll_steps=st.sampled_from([1, 3, 10]),
    drafts=st.sampled_from([0, 0, 1, 3]),
    tokens_per_step=st.sampled_from([1.0, 1.7]),
    seats=st.none() | st.integers(1, 6),
)
engines = st.builds(
    lambda name, budget, slow, fast: with_numbers(
        unfitted_engine(name),
        {"token_budget": budget, "prefill_factor": slow, "decode_factor": fast, "request_ms": 0.0},
    ),
    st.sampled_from(list_engines()),
    st.sampled_from([64, 200, 1000, 4000]),
    st.floats(0.5, 2.0),
    st.floats(0.5, 2.0),
)


@settings(max_examples=examples(60))
@given(engine=engines, loop=loops, kinds=some_kinds)
def test_the_priced_schedule_is_the_play_with_a_clock(engine: EngineProfile, loop: ClosedLoop, kinds) -> None:
    table = curved(kinds)
    times, players = simulate(table, engine, loop), played(table, engine, loop)
    requests = [one for player in players for one in player.ended]
    later = [one for one in requests if one.output > 1]
    gained, decodes = loop.tokens_per_step, max(1, sum(one.output - 1 for one in later))
    assert times.ttft_s == pytest.approx(sum(one.begun - one.arrived for one in requests) / len(requests), rel=1e-9)
    tpot = sum((one.end - one.begun) / (one.output - 1) for one in later) / max(1, len(later)) / gained
    assert times.tpot_exclusive_s == pytest.approx(tpot, rel=1e-9, abs=1e-15)
    alike = len({kind.output_length for kind in loop.kinds(table)}) == 1
    token = tpot if alike else sum(one.end - one.begun for one in later) / decodes / gained
    assert times.token_s == pytest.approx(token, rel=1e-9, abs=1e-15)
    assert times.makespan_s == pytest.approx(sum(one.clock for one in players) / len(players), rel=1e-9)


@settings(max_examples=examples(40))
@given(engine=engines, loop=loops, kinds=some_kinds)
def test_seats_change_numbers_exactly_where_there_are_fewer_than_users(engine, loop, kinds) -> None:
    longer = tuple(replace(kind, output_length=kind.output_length + 1.0) for kind in kinds)
    table, loop = curved(longer), replace(loop, shortest=1.0)  # every request keeps its seat for a decode at least
    open_loop = replace(loop, seats=None)
    plenty = simulate(table, engine, replace(loop, seats=loop.users))
    assert plenty == simulate(table, engine, open_loop)
    asked = loop.prompts or 10 * loop.users
    for seats in range(1, min(loop.users, asked)):
        seated = simulate(table, engine, replace(loop, seats=seats))
        assert seats > 1 or seated != plenty  # with more of them it may be that never as many are served at once
        # Whoever has a seat is served as if nobody else were there: only first tokens come later.
        alone = simulate(table, engine, replace(open_loop, users=seats, prompts=asked))
        assert seated.ttft_s > alone.ttft_s
        assert (seated.tpot_exclusive_s, seated.makespan_s) == (alone.tpot_exclusive_s, alone.makespan_s)


def test_two_users_of_one_seat_by_hand() -> None:
    """No kernels but 1 ms a token of a prompt and 1 ms a decode: prompts of 4 tokens and 3 answers take 6 ms."""
    engine = with_numbers(unfitted_engine("vllm"), {name: 0.0 for name in NUMBERS if name.endswith("_ms")})
    engine = with_numbers(engine, {"token_budget": 100, "prefill_factor": 1.0, "decode_factor": 1.0})
    table = StepTable(
        spacing=10, linear=1e-2 * np.arange(20), input_length=4, attention=np.zeros(3),
        decode_linear=1e-3 * (np.arange(9) > 0), decode_own=np.zeros(9),
    )  # fmt: skip
    times = simulate(table, engine, ClosedLoop(users=2, output_length=3, prompts=4, seats=1))
    # Served from 0, 6, 12 and 18 ms on, asked at 0, 0, 6 and 12: first tokens after 4, 10, 10 and 10 ms.
    assert times.ttft_s == pytest.approx(34e-3 / 4)
    assert times.tpot_exclusive_s == pytest.approx(1e-3)
    assert times.makespan_s == pytest.approx(24e-3)


@settings(max_examples=examples(40))
@given(kinds=some_kinds, budget=st.sampled_from([100, 1024, 4096]), name=st.sampled_from(list_engines()))
def test_prompts_of_every_batch_at_once_are_those_of_each_batch_played(kinds, budget: int, name: str):
    engine = with_numbers(
        # Without decodes beside them prompts are cut where the budget ends, whatever the engine does beside decodes.
        unfitted_engine(name),
        {"token_budget": budget, "prefill_factor": 1.3, "step_per_prompt_ms": 2.0, "whole_prompts": 0},
    )
    table, sizes = curved(kinds), np.arange(1, 41)
    found = prompt_batches(table, engine, sizes)
    order = even_order(table.kinds, 40).tolist() if table.kinds else [0] * 40
    for size in sizes.tolist():
        requests = [Request(kind, kinds[kind].new_tokens, 1) for kind in order[:size]]
        player = ClockPlayer(table, engine, ClosedLoop(users=size, output_length=1), requests)
        player.play()
        assert found.mean[size - 1] == pytest.approx(player.mean_ttft() + 1e-3 * engine.request_ms, rel=1e-9)
        assert found.makespan[size - 1] == pytest.approx(player.clock, rel=1e-9)


@settings(max_examples=examples(30))
@given(kinds=some_kinds, name=st.sampled_from(["vllm", "sglang"]))
def test_one_more_prompt_adds_its_service_to_full_steps(kinds, name: str):
    """The slope of long runs of prompts; prompts that do not fill steps cost up to a step of host time more."""
    engine = with_numbers(unfitted_engine(name), {"token_budget": 8192})
    makespan = prompt_batches(curved(kinds), engine, np.asarray([500, 2500])).makespan
    slope = float(makespan[1] - makespan[0]) / 2000
    assert marginal_prompt_s(curved(kinds), engine, alone=True) == pytest.approx(slope, rel=0.15)


@settings(max_examples=examples(20))
@given(kinds=some_kinds, users=st.sampled_from([1, 3, 8, 40]), name=st.sampled_from(["vllm", "sglang"]))
def test_mean_keys_stand_for_the_keys_that_sequences_hold(kinds, users: int, name: str):
    """Steps that read every key: 0.1 us each beside 5 ms of weights, and outputs of eight tokens and more, of which the
    first takes no decode. TTFT and TPOT within 2 %."""
    kinds = merged(replace(kind, output_length=kind.output_length + 7.0) for kind in kinds)
    assume(len(kinds) > 1)  # requests of one kind have the loop's own output length
    mean = float(TableExtents(kinds=kinds, sequences=1, tokens=1).decoding(1.0, ()).keys)
    table = replace(curved(kinds), decode_own=1e-7 * mean * np.arange(300))
    loop = ClosedLoop(users=users, output_length=12.0)
    engine = with_numbers(unfitted_engine(name), {"token_budget": 1000, "request_ms": 0.0})
    exact = [one for run in played(table, engine, loop, lambda keys: 1e-7 * sum(keys)) for one in run.ended]
    times = simulate(table, engine, loop)
    later = [one for one in exact if one.output > 1]
    tpot = sum((one.end - one.begun) / (one.output - 1) for one in later) / max(1, len(later))
    assert times.ttft_s == pytest.approx(sum(one.begun - one.arrived for one in exact) / len(exact), rel=0.02)
    assert times.tpot_exclusive_s == pytest.approx(tpot, rel=0.02)


# Whole scenarios: Qwen3-32B, TP 8, on TEST_DEVICE.


def bin_of(length, output, weight=1.0, hit=None) -> LengthBin:
    return LengthBin(
        input_length=length, output_length=output, weight=weight, min_input_length=int(length),
        max_input_length=int(length), prefix_cache_hit_rate=hit,
    )  # fmt: skip


def scenario(bins, phase="aggregated", engine: EngineProfile | None = VLLM, **more) -> Scenario:
    total = sum(one.weight for one in bins)
    output = sum(one.weight * one.output_length for one in bins) / total
    workload = workload_of(input_length=None, output_length=output, bins=tuple(bins), **more.pop("served", {}))
    defaults = {"model": QWEN3_32B, "client": Client(), "serving_model": f"{engine.name}@00000000", "engine": engine}
    return Scenario(
        device=TEST_DEVICE, precision=Precision(linear="W8A8_DYNAMIC"), plan=TP8, workload=workload, phase=phase,
        **(defaults | more),
    )  # fmt: skip


def columns(one: Scenario, sizes) -> dict[str, np.ndarray]:
    return dict(evaluate_scenario(one, np.asarray(sizes), both_traces(one.model, one.plan, linear=W8A8)).columns())


BINS = (bin_of(500, 200, 0.5), bin_of(2000, 40, 0.3), bin_of(9000, 400, 0.2))


@pytest.mark.parametrize("phase", ["prefill", "decode", "aggregated"])
@pytest.mark.parametrize("hit", [0.0, 0.25])
def test_one_bin_is_the_fixed_length_and_so_are_two_equal_ones(phase, hit):
    fixed = scenario((bin_of(3500, 300),), phase, served={"prefix_cache_hit_rate": hit})
    fixed = replace(fixed, workload=Workload(input_length=3500, output_length=300.0, prefix_cache_hit_rate=hit))
    expected = columns(fixed, range(1, 40))
    for bins in ((bin_of(3500, 300),), (bin_of(3500, 300, 0.5), bin_of(3500, 300, 0.5))):
        found = columns(scenario(bins, phase, served={"prefix_cache_hit_rate": hit}), range(1, 40))
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=name)


@settings(max_examples=examples(5))
@given(
    lengths=st.lists(
        st.tuples(st.integers(100, 9000), st.integers(2, 300), st.integers(1, 9)), min_size=2, max_size=5,
        unique_by=lambda one: one[0],
    ),
    data=st.data(),
    phase=st.sampled_from(["prefill", "decode", "aggregated"]),
)  # fmt: skip
def test_neither_the_order_of_bins_nor_splitting_them_matters(lengths, data, phase):
    bins = [bin_of(*one) for one in lengths]
    halves = [replace(one, weight=one.weight / 2) for one in bins for _ in range(2)]
    expected = columns(scenario(bins, phase), [1, 2, 7, 30])
    for others in (data.draw(st.permutations(bins)), data.draw(st.permutations(halves))):
        found = columns(scenario(others, phase), [1, 2, 7, 30])
        for name, values in expected.items():
            np.testing.assert_allclose(found[name], values, rtol=1e-9, err_msg=name)


def test_first_tokens_of_one_user_are_those_of_every_length_with_its_own_cache():
    bins = (bin_of(1000, 20, 0.5), bin_of(4000, 20, 0.25, 0.5), bin_of(4000, 20, 0.25))
    found = columns(scenario(bins), [1])["ttft_ms"][0]
    alone = []
    for one in bins:
        rate = one.prefix_cache_hit_rate or 0.0
        workload = Workload(input_length=one.input_length, output_length=20.0, prefix_cache_hit_rate=rate)
        alone.append(columns(replace(scenario(bins), workload=workload), [1])["ttft_ms"][0])
    # 640 requests of one user: 320, 160 and 160; half of a prompt in the cache halves its linear work, not its keys.
    assert found == pytest.approx(0.5 * alone[0] + 0.25 * alone[1] + 0.25 * alone[2], rel=2e-3)
    assert 0.5 * alone[2] < alone[1] < 0.7 * alone[2]


def test_a_decode_instance_holds_long_outputs_more_often():
    bins = (bin_of(1000, 100, 0.5), bin_of(3000, 300, 0.5))
    found = columns(scenario(bins, "decode", KERNELS_ALONE), [1, 8, 64])
    kernels = columns(scenario(bins, "decode", KERNELS_ALONE), [1, 8, 64])["decode_step_ms"]
    # shares 1 : 3, so 0.25 x 1050 + 0.75 x 3150 keys on average: a fixed prompt of 2525 with 200 more to come
    mean = Workload(input_length=2525, output_length=200.0)
    fixed = columns(replace(scenario(bins, "decode", KERNELS_ALONE), workload=mean), [1, 8, 64])
    assert found["tpot_exclusive_ms"] == pytest.approx(fixed["tpot_exclusive_ms"], rel=1e-9)
    assert found["tpot_exclusive_ms"] == pytest.approx(kernels, rel=2e-3)
    assert (found["decode_step_p50_ms"] < found["decode_step_p99_ms"]).all()


def test_drafts_gain_tokens_of_every_length():
    model = replace(QWEN3_32B, mtp_layers=1)
    plain = scenario(BINS, model=model)
    drafting = scenario(BINS, model=model, served={"mtp_tokens": 1, "mtp_acceptance": (0.8,)})
    one, two = (columns(each, [4])["tpot_exclusive_ms"][0] for each in (plain, drafting))
    assert 1 / 1.8 < two / one < 0.75  # 1.8 tokens a step, which a draft's pass makes a little longer


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_more_users_get_more_tokens_and_wait_longer(name: str):
    users = np.arange(1, 65)
    found = columns(scenario(BINS, engine=unfitted_engine(name), client=Client(shortest=0.99)), users)
    rate = users / found["e2e_ms"]
    assert (rate[1:] > 0.97 * rate[:-1]).all()
    assert rate[-1] > 6 * rate[0]
    assert (found["ttft_ms"][1:] > 0.9 * found["ttft_ms"][:-1]).all()
    assert (found["e2e_ms"] >= found["ttft_ms"]).all()
    # Two of three requests have 40 or 200 tokens; e2e is the mean over requests, of 192 tokens on average.
    assert found["tpot_inclusive_ms"] == pytest.approx(found["e2e_ms"] / 192.0)


@settings(max_examples=examples(5))
@given(first=st.integers(1, 90), length=st.integers(1, 20))
def test_a_batch_size_has_one_answer_whatever_range_it_is_asked_in(first: int, length: int):
    one = scenario(BINS, launch=Launch(seats=24))
    whole, part = columns(one, np.arange(1, 120)), columns(one, np.arange(first, first + length))
    for column in LOOPED:
        expected = whole[column][first - 1 : first - 1 + length]
        assert part[column] == pytest.approx(expected, rel=1e-9), column


def test_the_composition_is_that_of_the_first_requests():
    one = scenario(BINS[::-1], "prefill")
    batch, index, samples = composition_of(one, np.asarray([10]))
    # 0.2, 0.3 and 0.5 of ten, the longest first
    assert list(zip(batch.tolist(), index.tolist(), samples.tolist(), strict=True)) == [
        (10, 0, 2),
        (10, 1, 3),
        (10, 2, 5),
    ]
    mean = columns(one, [10])["realised_input_length_mean"][0]
    assert mean == pytest.approx(0.5 * 500 + 0.3 * 2000 + 0.2 * 9000)


def test_seats_of_a_scenario_bound_its_memory_and_what_is_evaluated():
    plain, seated = scenario(BINS), scenario(BINS, launch=Launch(seats=6))
    sizes = np.arange(1, 25)
    free, bound = columns(plain, sizes), columns(seated, sizes)
    for name in ("kv_cache_bytes", "kv_cache_mean_bytes", "activation_bytes", "decode_step_ms"):
        assert (bound[name] == free[name][np.minimum(sizes, 6) - 1]).all(), name
    for name in LOOPED:
        assert bound[name][:6] == pytest.approx(free[name][:6], rel=1e-12), name
    assert (bound["ttft_ms"][6:] > 1.2 * free["ttft_ms"][6:]).all()
    # The rate of six seats, however many wait: users over the time of a request. More of them are a longer run, whose
    # last round, which empties the server, weighs less.
    rate = sizes / bound["e2e_ms"]
    assert rate[5:] == pytest.approx(rate[5], rel=0.06)
    found = batch_range(seated, both_traces(QWEN3_32B, TP8, linear=W8A8))
    assert (found.largest_fitting, found.last) == (24, 24)
    said = assumptions_of(seated, both_traces(QWEN3_32B, TP8, linear=W8A8))
    assert "at most 6 requests of a replica are served at once; others wait" in said


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_seats_are_the_loops_alone(phase):
    plain, seated = (columns(scenario(BINS, phase, launch=one), [1, 9]) for one in (Launch(), Launch(seats=2)))
    for name, values in plain.items():
        np.testing.assert_array_equal(seated[name], values, err_msg=name)


def test_engines_refuse_no_lengths():
    assert unsupported(scenario(BINS)) is None


def test_weights_are_probabilities():
    kinds = merged([RequestKind(new_tokens=1, weight=3.0), RequestKind(new_tokens=2, weight=1.0)])
    assert weights_of(kinds).tolist() == [0.75, 0.25]
