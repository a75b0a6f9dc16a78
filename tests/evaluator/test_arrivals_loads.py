"""Scenarios played at rates: the same steps as the closed loop and the one user of probes, and what is kept of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from arrival_cases import EDGES, asking
from evaluator_cases import LLAMA_31_8B, QWEN3_32B, W8A8, both_traces
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.arrivals.histograms import BATCHES, BINS, bins_of, counted_cells, counted_parts, edges_ms
from evaluator.arrivals.loads import Load, LoadPlayer, PlaySettings, ladder, unplayable
from evaluator.arrivals.play_rules import PlayRules
from evaluator.arrivals.playing import play
from evaluator.arrivals.prices import mean_keys, prices_of, with_engine
from evaluator.arrivals.streams import ArrivalProcess
from evaluator.evaluate import cost_model, evaluate_scenario, traces_of
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import unfitted_engine, with_numbers
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Launch, Plan
from evaluator.inputs.workloads.workload import LengthBin, Workload
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.engine.closed_loop import ClosedLoop, simulate
from evaluator.serving.engine.request_kinds import RequestKind
from evaluator.serving.engine.step_tables import StepTable
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from store.errors import InputError

PLAN = Plan(tp=4)
POISSON = ArrivalProcess(kind="poisson", requests=2_000)
EVEN = ArrivalProcess(kind="constant", requests=2_000)


def run_of(phase="aggregated", *, model=QWEN3_32B, plan=PLAN, lengths=(2000, 300.0), bins=(), **more) -> Run:
    scenario = Scenario(
        model=model,
        device=load_device("h100_sxm"),
        precision=Precision(linear="W8A8_DYNAMIC"),
        plan=plan,
        workload=Workload(
            input_length=None if bins else lengths[0], output_length=lengths[1], max_batched_tokens=4096, bins=bins
        ),
        phase=phase,
        **{"serving_model": "vllm", "client": Client(), **more},
    )
    traces = both_traces(model, plan, linear=W8A8)
    return Run(
        scenario=scenario,
        operators={name: traces[name] for name in traces_of(phase)},
        source=serving_model_of(scenario).source(scenario),
        cost=cost_model(scenario.device, "physical"),
        batch_sizes=np.arange(1, 2),
    )


def loads(run: Run, rates=None, *, process=POISSON, **more) -> list[Load]:
    engine = serving_engine(run.scenario)
    player = LoadPlayer(run, engine, PlaySettings(process=process, **more))
    return [player.load(rate) for rate in player.rates(rates)]


@settings(max_examples=examples(80))
@given(
    admission=st.sampled_from(["mixed", "prefill_first"]),
    budget=st.sampled_from([300, 1000, 4096]),
    users=st.integers(1, 40),
    seats=st.sampled_from([None, 1, 7]),
    output=st.integers(2, 60),
    poll=st.sampled_from([1, 5]),
)
def test_all_at_once_takes_the_time_of_the_closed_loop(admission, budget, users, seats, output, poll) -> None:  # noqa: PLR0917
    """Users who ask once each from the start are requests that all arrive at 0."""
    table = StepTable(
        spacing=256,
        linear=1e-5 * np.arange(70) ** 1.1,
        input_length=1000,
        attention=1e-3 * np.linspace(0.0, 1.0, 9) ** 1.7,
        decode_linear=5e-3 + 4e-6 * np.arange(300) ** 0.9,
        decode_own=1e-5 + 6e-6 * np.arange(300),
    )
    poll = poll if admission == "prefill_first" else 1
    # Where seats are fewer, a seat that is left is given a step later in the loop of an engine that works ahead.
    engine = replace(with_numbers(unfitted_engine("vllm_sync"), {"token_budget": budget}), admission=admission)
    loop = ClosedLoop(users=users, output_length=output, prompts=users, seats=seats, poll_steps=poll)
    rules = PlayRules(admission=admission, token_budget=budget, seats=seats or users, poll_steps=poll)
    asked = asking(np.zeros(users), 1000, output)
    prices = with_engine(table, engine, table.decode_own, np.zeros(table.decode_own.size))
    played = play(rules, prices, asked, EDGES)
    times = simulate(table, engine, loop)
    assert played.end_s.max() == pytest.approx(times.makespan_s, rel=1e-9)
    assert played.first_s.mean() + 1e-3 * engine.request_ms == pytest.approx(times.ttft_s, rel=1e-9)
    assert ((played.end_s - played.first_s) / (output - 1)).mean() == pytest.approx(times.tpot_exclusive_s, rel=1e-9)


@pytest.mark.parametrize("engine", ["vllm", "vllm_v0"])
def test_a_rate_near_zero_is_the_one_user_of_probes(engine: str) -> None:
    run = run_of(serving_model=engine)
    probe = evaluate_scenario(run.scenario, np.asarray([1]), run.operators)
    (load,) = loads(run, [1e-3], process=EVEN)
    assert load.ttft_mean_ms + load.outside_ms == pytest.approx(probe.ttft_ms[0], rel=1e-6)
    # The loop holds the mean number of keys in every step, the play those that there are; prices are lines.
    assert load.tpot_mean_ms == pytest.approx(probe.tpot_exclusive_ms[0], rel=2e-3)


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_side_alone_is_the_lone_request_of_probes(phase: str) -> None:
    run = run_of(phase)
    probe = evaluate_scenario(run.scenario, np.asarray([1]), run.operators)
    (load,) = loads(run, [1e-3], process=EVEN)
    if phase == "prefill":
        assert load.ttft_mean_ms + load.outside_ms == pytest.approx(probe.ttft_ms[0], rel=1e-6)
        assert set(load.cells.tpot_bin.tolist()) == {0}
    else:
        assert load.tpot_mean_ms == pytest.approx(probe.tpot_exclusive_ms[0], rel=2e-3)
        assert set(load.cells.ttft_bin.tolist()) == {0}


def test_prices_of_decodes_are_those_of_the_table_at_its_mean() -> None:
    run = run_of()
    engine = serving_engine(run.scenario)
    kinds = (RequestKind(new_tokens=2000, output_length=300.0),)
    prices, table = prices_of(run, engine, 64, kinds)
    for sequences in (1, 8, 64):
        keys = sequences * mean_keys(kinds)
        own = prices.own_s[sequences] + prices.own_key_s[sequences] * keys
        assert own == pytest.approx(table.decode_own[sequences], rel=0.02)


def test_bins_of_lone_requests_are_kept_in_parts() -> None:
    """Nine in ten take 10.01 ms, at the beginning of a bin; the rest lies evenly over two decades."""
    times = np.concatenate((np.full(9_000, 10.01), np.geomspace(1.0, 100.0, 1_000)))
    parts = counted_parts(times, np.zeros(times.size))
    # 10 ms is three decades above 0.01 ms: bin 96. Evenly spread, each of 64 bins holds 16 of 10,000: no parts.
    assert set(parts[:, 0]) == {0}
    assert set((parts[:, 1] // 16).tolist()) == {96}
    assert parts[0, 1] == 96 * 16
    assert parts[:, 2].sum() == (bins_of(times) == 96).sum()
    assert parts[0, 2] >= 9_000
    assert np.array_equal(edges_ms(16)[::16], edges_ms())


def test_the_ladder_is_even_between_its_ends() -> None:
    rates = np.asarray(ladder(100.0))
    assert rates.size == 24
    assert (rates[0], rates[7], rates[19], rates[23]) == pytest.approx((2.5, 22.0, 90.0, 99.0))
    # Goodput is wanted to so many percent of itself: the lowest rates are a factor apart, (22 / 2.5)^(1/7)
    assert rates[1:8] / rates[:7] == pytest.approx(np.full(7, 8.8 ** (1 / 7)))
    assert np.diff(rates[7:20]) == pytest.approx(np.full(12, 68.0 / 12.0))
    # 1 - fraction falls by the same factor each time: 0.1, 0.056, ... 0.01
    assert (100.0 - rates[19:-1]) / (100.0 - rates[20:]) == pytest.approx(np.full(4, 10.0**0.25))


def test_more_load_is_a_longer_wait_and_saturation_is_the_most() -> None:
    played = loads(run_of())
    ttft = [load.ttft_mean_ms for load in played]
    assert ttft[-1] > 1.2 * ttft[0]
    assert all(load.rate_per_s < load.saturation_per_s for load in played)
    assert all(0.0 < load.busy_share <= 1.0 for load in played)
    assert {load.requests for load in played} == {1_900}
    for load in played:
        assert int(load.cells.requests.sum()) + load.rejected == 1_900
        assert load.cells.requests.sum(axis=0).tolist() == [380] * BATCHES


def test_two_replicas_take_twice_the_rate_and_least_waits_less() -> None:
    one, two = run_of(model=LLAMA_31_8B, plan=Plan(tp=1)), run_of(model=LLAMA_31_8B, plan=Plan(tp=1, dp=2))
    (alone,), (random,), (least,) = (
        loads(one, [3.0]), loads(two, [6.0]), loads(two, [6.0], dispatch="least")
    )  # fmt: skip
    assert random.saturation_per_s == pytest.approx(2.0 * alone.saturation_per_s, rel=0.1)
    assert least.ttft_mean_ms < random.ttft_mean_ms


def test_rejected_requests_are_counted_and_in_no_cell() -> None:
    (load,) = loads(run_of(), [1000.0], reject_ms=500.0)
    assert 0 < load.rejected < 1_900
    assert int(load.cells.requests.sum()) == 1_900 - load.rejected


def test_kinds_of_requests_come_by_their_weights() -> None:
    bins = tuple(
        LengthBin(input_length=i, output_length=o, weight=w, min_input_length=i, max_input_length=i)
        for i, o, w in ((200, 50.0, 0.75), (3000, 400.0, 0.25))
    )
    (load,) = loads(run_of(bins=bins, lengths=(0, 137.5)), [0.01])
    # At a rate near zero, prompts of two lengths take two times.
    counts = np.bincount(load.cells.ttft_bin, load.cells.requests.sum(axis=1))
    assert np.sort(counts[counts > 0])[-1] == pytest.approx(0.75 * 1_900, rel=0.05)


def test_bins_are_logarithmic_and_hold_everything() -> None:
    edges = edges_ms()
    assert (edges[0], edges[32], edges[-1]) == pytest.approx((0.01, 0.1, 1e7))
    assert bins_of(np.asarray([0.0, 0.01, 0.0999, 0.1001, 1e9])).tolist() == [0, 0, 31, 32, BINS - 1]
    cells = counted_cells(np.asarray([1.0, 1.0, 5.0]), np.asarray([2.0, 2.0, 2.0]), np.asarray([0, 4, 4]))
    assert cells.requests.tolist() == [[1, 0, 0, 0, 1], [0, 0, 0, 0, 1]]


def test_prefill_first_launches_that_wait_cannot_be_played() -> None:
    run = run_of(launch=Launch(wait_steps=3))
    error = unplayable(run, serving_engine(run.scenario))
    assert isinstance(error, InputError)
    assert "wait_steps" in error.message
