"""Engines as serving models of scenarios: hand sums, sensible curves, and what interpolating between sizes costs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import DEEPSEEK_V3, LLAMA_31_8B, QWEN3_30B_A3B, QWEN3_32B, TEST_DEVICE, W8A8, both_traces
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from quick import quick

from evaluator.evaluate import assumptions_of, batch_source, cost_model, evaluate_scenario
from evaluator.identity import RecordBuilder
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import (
    NUMBERS,
    Client,
    EngineProfile,
    list_engines,
    unfitted_engine,
    with_numbers,
)
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.probe_block import ProbeBlock
from evaluator.scenario import Scenario
from evaluator.serving.engine.closed_loop import ClosedLoop, simulate
from evaluator.serving.engine.closed_run import closed_loop_times, prompt_batches
from evaluator.serving.engine.request_kinds import RequestKind
from evaluator.serving.engine.step_tables import StepTable, TableExtents, launched, step_table
from evaluator.serving.interface import Run
from store.errors import InputError

ENGINE = replace(
    with_numbers(
        unfitted_engine("vllm"),
        {
            "token_budget": 4096, "prefill_factor": 1.5, "decode_factor": 0.5, "step_ms": 2.0, "step_per_decode_ms": 0.5,
            "step_per_prompt_ms": 3.0, "prompt_step_ms": 1.0, "request_ms": 7.0,
        },
    ),
    name="mine",
    client=Client(),
)  # fmt: skip


TP8 = Plan(tp=8)


def scenario(
    model=QWEN3_32B, plan=TP8, engine: EngineProfile | None = ENGINE, *, lengths=(3584, 1500), **more
) -> Scenario:
    defaults = {
        "model": model, "device": TEST_DEVICE, "precision": Precision(linear="W8A8_DYNAMIC"), "plan": plan,
        "workload": Workload(input_length=lengths[0], output_length=float(lengths[1]), max_batched_tokens=4096),
        "phase": "aggregated", "serving_model": "waves" if engine is None else "mine@00000000", "engine": engine,
    }  # fmt: skip
    return Scenario(**(defaults | more))


def block(one: Scenario, sizes) -> ProbeBlock:
    return evaluate_scenario(one, np.asarray(sizes), both_traces(one.model, one.plan, linear=W8A8))


def test_one_user_is_the_hand_sum_of_kernels_and_host():
    kernels, served = (block(scenario(engine=engine), [1]) for engine in (None, ENGINE))
    # Kernels of Qwen3-32B, TP 8, on TEST_DEVICE: 3,584 tokens in 157.48 ms, a decode with 4,334 keys in 7.943 ms.
    assert kernels.prefill_step_ms[0] == pytest.approx(157.48, abs=0.01)
    assert kernels.decode_step_ms[0] == pytest.approx(7.943, abs=0.005)
    # 2 a step + 1 a step with prompts + 3 a prompt + 1.5 x 157.48 + 7 of HTTP
    assert served.ttft_ms[0] == pytest.approx(249.22, abs=0.02)
    # 2 a step + 0.5 a sequence + 0.5 x 7.943
    assert served.tpot_exclusive_ms[0] == pytest.approx(6.4715, abs=0.005)
    assert served.e2e_ms[0] == pytest.approx(249.22 + 1499 * 6.4715, rel=1e-3)
    assert served.makespan_ms[0] == pytest.approx(served.ttft_ms[0] - 7.0)


def test_phases_alone_are_the_hand_sum_too():
    prefill = block(scenario(phase="prefill", serving_cost_ms=4.0), [1, 2])
    decode = block(scenario(phase="decode", serving_cost_ms=4.0), [1])
    # Receiving a request on one of two sides: (7 + 190) / 2 = 98.5 ms in place of 7.
    assert prefill.ttft_ms[0] == pytest.approx(249.22 - 7.0 + 98.5 + 4.0, abs=0.02)
    # The second prompt is cut at 4,096 tokens: two steps, one more piece, and the two first tokens are means.
    assert prefill.makespan_ms[1] == pytest.approx(2 * prefill.makespan_ms[0] - 4.0 + 3.0, rel=0.01)
    assert prefill.ttft_ms[1] < prefill.makespan_ms[1] + 98.5
    assert decode.tpot_exclusive_ms[0] == decode.tpot_inclusive_ms[0] == pytest.approx(10.4715, abs=0.005)


KERNELS_ALONE = with_numbers(unfitted_engine("sglang_locked"), {name: 0.0 for name in NUMBERS if name.endswith("_ms")})


@pytest.mark.parametrize(
    "served",
    [
        {"prefix_cache_hit_rate": 0.5},
        {"mtp_tokens": 1, "mtp_acceptance": (0.8,)},
        {"mtp_tokens": 3, "mtp_acceptance": (0.9, 0.6, 0.4)},
    ],
)
def test_one_user_without_host_time_is_the_kernels_of_the_same_scenario(served):
    """Cached prompts attend what is cached; drafts take a pass each, and a step gains the tokens that hold."""
    model = replace(QWEN3_32B, mtp_layers=1)
    workload = Workload(input_length=3584, output_length=1500.0, max_batched_tokens=4096, **served)
    kernels, engine = (block(scenario(model, engine=one, workload=workload), [1]) for one in (None, KERNELS_ALONE))
    assert engine.ttft_ms[0] == pytest.approx(kernels.prefill_step_ms[0], rel=2e-3)
    expected = kernels.decode_step_ms[0] / kernels.tokens_per_step[0]
    assert engine.tpot_exclusive_ms[0] == pytest.approx(expected, rel=2e-3)
    alone = block(scenario(model, engine=KERNELS_ALONE, workload=workload, phase="decode"), [1])
    assert alone.tpot_exclusive_ms[0] == pytest.approx(engine.tpot_exclusive_ms[0], rel=2e-3)


def test_a_fitted_again_engine_is_another_scenario_of_one_subject():
    def record(engine: EngineProfile):
        return RecordBuilder().scenario("some/name", scenario(engine=engine))

    before, after = record(ENGINE), record(with_numbers(ENGINE, {"request_ms": 8.0}))
    assert before.subject.key == after.subject.key
    assert before.key != after.key
    assert record(replace(ENGINE, client=Client(shortest=0.9))).key not in {before.key, after.key}
    # The workload's token budget counts, so the profile's own changes no number and no key.
    assert record(with_numbers(ENGINE, {"token_budget": 100})).key == before.key


def test_the_engine_and_its_numbers_are_among_the_assumptions():
    one = scenario()
    said = assumptions_of(one, both_traces(one.model, one.plan, linear=W8A8))
    (line,) = [text for text in said if text.startswith("engine ")]
    assert "mine@" in line
    assert "mixed, token_budget 4096, prefill_factor 1.5, decode_factor 0.5, step_ms 2" in line
    assert "client: shortest 1, prompts_per_user 10, poll_steps 1" in line


@pytest.mark.parametrize("name", list_engines())
def test_more_users_get_more_tokens_and_wait_longer(name: str):
    found = block(scenario(engine=unfitted_engine(name)), np.arange(1, 201))
    users = np.arange(1, 201)
    rate = users / found.e2e_ms
    # A step of one more prompt can cost a little throughput, never more than 2 %; and a user never gains from company.
    assert (rate[1:] > 0.98 * rate[:-1]).all()
    assert rate[199] > 20 * rate[0]
    assert (np.diff(found.tpot_exclusive_ms) > -0.002 * found.tpot_exclusive_ms[:-1]).all()
    assert (found.ttft_ms[1:] > 0.9 * found.ttft_ms[:-1]).all()
    assert (found.e2e_ms >= found.ttft_ms).all()


@settings(max_examples=examples(10))
@given(first=st.integers(1, 150), length=st.integers(1, 30))
def test_a_batch_size_has_one_answer_whatever_range_it_is_asked_in(first: int, length: int):
    whole = block(scenario(), np.arange(1, 200))
    part = block(scenario(), np.arange(first, first + length))
    for column in ("ttft_ms", "tpot_exclusive_ms", "e2e_ms", "makespan_ms"):
        expected = getattr(whole, column)[first - 1 : first - 1 + length]
        assert getattr(part, column) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("model", "plan", "device", "lengths"),
    [
        (QWEN3_32B, Plan(tp=4), "h100_sxm", (8000, 1000)),
        (QWEN3_30B_A3B, Plan(dp=4, ep=4), "h100_sxm", (1000, 1000)),
        (LLAMA_31_8B, Plan(), "h100_sxm", (1024, 128)),
        (DEEPSEEK_V3, Plan(tp=8, ep=8), "h200_sxm", (3500, 1500)),
    ],
)
@pytest.mark.parametrize("name", ["vllm", "sglang"])
@pytest.mark.parametrize("shortest", quick([0.8, 1.0]))
def test_interpolating_costs_little(model, plan, device, lengths, name, shortest):  # noqa: PLR0917  a column each
    """Against playing every size: within 1 % on average; in the worst place first tokens 8 %, later ones 4 %."""
    engine = with_numbers(replace(unfitted_engine(name), client=Client(shortest=shortest)), {"token_budget": 4096})
    one = scenario(model, plan, engine, lengths=lengths, device=load_device(device))
    run = Run(
        scenario=one, operators=both_traces(model, plan, linear=W8A8), source=batch_source(one),
        cost=cost_model(one.device, "physical"), batch_sizes=np.arange(1, 160),
    )  # fmt: skip
    found = closed_loop_times(run, engine)
    table = step_table(
        run.steps, run.cost,
        TableExtents(
            kinds=(RequestKind(new_tokens=lengths[0], output_length=lengths[1]),), share=(1 + shortest) / 2,
            sequences=159, tokens=4096 + 159,
        ),
    )  # fmt: skip
    table = launched(table, engine, one.layers, one.latent_layers, one.state_layers)
    played = [
        simulate(table, engine, ClosedLoop(users=users, output_length=lengths[1], shortest=shortest, replicas=plan.dp))
        for users in run.batch_sizes.tolist()
    ]
    first = found.completion.mean / [one.ttft_s for one in played] - 1.0
    later = found.times.tpot_exclusive / [one.tpot_exclusive_s for one in played] - 1.0
    assert np.abs(first).mean() < 0.01
    assert np.abs(first).max() < 0.08
    assert np.abs(later).mean() < 0.01
    assert np.abs(later).max() < 0.04


@settings(max_examples=examples(40))
@given(
    length=st.sampled_from([1, 100, 999, 1000, 1001, 4100]),
    budget=st.sampled_from([1000, 1024, 4096]),
    name=st.sampled_from(list_engines()),
)
def test_prompts_of_every_batch_at_once_are_those_of_each_batch_played(length: int, budget: int, name: str):
    engine = with_numbers(
        # Without decodes beside them prompts are cut where the budget ends, whatever the engine does beside decodes.
        unfitted_engine(name),
        {"token_budget": budget, "prefill_factor": 1.3, "step_per_prompt_ms": 2.0, "whole_prompts": 0},
    )
    table = StepTable(
        spacing=128, linear=1e-5 * np.arange(80) ** 1.1, input_length=length,
        attention=1e-6 * length * np.linspace(0.0, 1.0, 9) ** 1.7, decode_linear=np.zeros(70),
        decode_own=1e-4 + 6e-6 * np.arange(70),
    )  # fmt: skip
    sizes = np.arange(1, 61)
    found = prompt_batches(table, engine, sizes)
    for size in sizes:
        times = simulate(table, engine, ClosedLoop(users=int(size), output_length=1, prompts=int(size)))
        assert found.mean[size - 1] == pytest.approx(times.ttft_s, rel=1e-9)
        assert found.makespan[size - 1] == pytest.approx(times.makespan_s, rel=1e-9)


@pytest.mark.parametrize("phase", ["aggregated", "prefill"])
def test_a_budget_that_no_server_has_is_refused_before_it_is_played(phase):
    tiny = replace(scenario(phase=phase), workload=Workload(input_length=3584, output_length=9.0, max_batched_tokens=8))
    assert block(tiny, [1]).ttft_ms[0] > 0
    with pytest.raises(InputError, match="steps of 8 tokens") as refused:
        block(tiny, [2000])
    assert "`max_num_batched_tokens`" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"convention": "upstream"}, "no upstream convention"),
    ],
)
def test_what_an_engine_lacks_is_an_error_with_a_way_out(changes, said):
    one = scenario()
    with pytest.raises(InputError, match=said) as refused:
        evaluate_scenario(replace(one, **changes), np.asarray([1]), both_traces(one.model, one.plan, linear=W8A8))
    assert "`serving_model=waves`" in (refused.value.hint or "")
