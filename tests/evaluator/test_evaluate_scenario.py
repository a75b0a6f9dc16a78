"""Scenarios as a whole: which columns a phase has, what conventions change, distributions through their seam, bad
input."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from evaluator_cases import DEEPSEEK_V3, QWEN3_30B_A3B, QWEN3_32B, TEST_DEVICE, W8A8, both_traces

from evaluator.evaluate import assumptions_of, capture_requests, evaluate_scenario, traces_of
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.probe_block import ProbeBlock
from evaluator.scenario import Scenario
from store.errors import InputError
from store.schema.tables import MEASURES

BASE = Scenario(
    model=QWEN3_32B,
    device=TEST_DEVICE,
    precision=Precision(linear="W8A8_DYNAMIC"),
    plan=Plan(tp=8),
    workload=Workload(input_length=3500, output_length=1500.0, max_batched_tokens=14000),
    phase="aggregated",
)
SIZES = np.asarray([1, 2, 4, 7, 16, 100])


def block(scenario=BASE, sizes=SIZES):
    operators = both_traces(scenario.model, scenario.plan, linear=W8A8, convention=scenario.convention)
    return evaluate_scenario(scenario, sizes, operators)


def changed(**changes):
    workload = {key: value for key, value in changes.items() if key in {field.name for field in fields(Workload)}}
    rest = {key: value for key, value in changes.items() if key not in workload}
    return replace(BASE, workload=replace(BASE.workload, **workload), **rest)


def test_a_block_has_every_stored_column():
    assert [field.name for field in fields(ProbeBlock)] == ["batch_size", *(column.name for column in MEASURES)]
    assert list(block().columns()) == [column.name for column in MEASURES]


@pytest.mark.parametrize("phase", ["prefill", "decode", "aggregated"])
def test_a_phase_has_its_columns_and_no_others(phase):
    columns = block(replace(BASE, phase=phase)).columns()
    absent = {name for name, values in columns.items() if np.isnan(np.asarray(values, dtype=float)).any()}
    of_lengths = {"realised_input_length_mean", "decode_step_p50_ms", "decode_step_p90_ms", "decode_step_p99_ms"}
    prefill = {name for name in columns if name.startswith("prefill")} | {"ttft_ms", "makespan_ms"}
    decode = {name for name in columns if name.startswith("decode")} - of_lengths
    served = {"tokens_per_step", "tpot_inclusive_ms", "tpot_exclusive_ms"}
    missing = {"prefill": decode | served | {"e2e_ms"}, "decode": prefill | {"e2e_ms"}, "aggregated": set()}[phase]
    # Formulas say nothing of what one more prompt adds to an instance that is never idle, nor of users in step.
    others = of_lengths | {"prompt_service_ms", "ttft_in_step_ms"}
    assert absent == missing | others
    assert missing == {column.name for column in MEASURES if phase not in column.phases} - others
    for column in MEASURES:
        assert column.nullable or column.name not in absent


@pytest.mark.parametrize("step", ["prefill", "decode"])
def test_kinds_add_up_to_the_step(step):
    columns = block().columns()
    parts = sum(
        columns[f"{step}_step_{kind}_ms"] for kind in ("matrix", "vector", "memory", "communication", "overhead")
    )
    assert parts == pytest.approx(columns[f"{step}_step_ms"], rel=1e-12)


def test_waves_of_the_budget():
    got = block()
    # 14000 // 3500 = 4 prompts a wave: 7 prompts are a wave of 4 and one of 3
    wave, rest = got.prefill_step_ms[2], block(sizes=np.asarray([3])).prefill_step_ms[0]
    assert got.ttft_ms[3] == pytest.approx((4 * wave + 3 * (wave + rest)) / 7)
    assert got.makespan_ms[4] == pytest.approx(4 * wave)
    assert got.ttft_ms[4] == pytest.approx(2.5 * wave)
    assert list(got.concurrency) == list(SIZES)


def test_conventions_differ_where_they_say():
    physical, upstream = block(), block(replace(BASE, convention="upstream"))
    # Full squares of scores against causal halves: at least as slow, and slower by what attention is
    assert (upstream.prefill_step_ms > physical.prefill_step_ms).all()
    # ttft + D (O - 1) against ttft + D O
    assert physical.e2e_ms == pytest.approx(physical.ttft_ms + physical.decode_step_ms * 1499)
    assert upstream.e2e_ms == pytest.approx(upstream.ttft_ms + upstream.decode_step_ms * 1500)
    assert physical.tpot_exclusive_ms == pytest.approx((physical.e2e_ms - physical.ttft_ms) / 1499)


def test_a_cached_prefix_is_read_or_ignored():
    hit = changed(prefix_cache_hit_rate=0.5, phase="prefill")
    # The same new tokens with and without 1750 cached ones before them
    short = changed(input_length=1750, phase="prefill")
    assert (block(hit).prefill_step_ms > block(short).prefill_step_ms)[:2].all()
    upstream = [block(replace(one, convention="upstream")).prefill_step_ms for one in (hit, short)]
    assert upstream[0] == pytest.approx(upstream[1])


def test_serving_cost_by_phase():
    for phase, column in (("prefill", "makespan_ms"), ("decode", "decode_step_ms"), ("decode", "tpot_inclusive_ms")):
        plain, costly = (block(replace(BASE, phase=phase, serving_cost_ms=cost)) for cost in (0.0, 7.0))
        assert getattr(costly, column) == pytest.approx(getattr(plain, column) + 7.0)
    plain, costly = (block(replace(BASE, serving_cost_ms=cost)) for cost in (0.0, 7.0))
    assert costly.e2e_ms == pytest.approx(plain.e2e_ms)


def test_drafts_fold_the_decode_step():
    scenario = replace(BASE, model=DEEPSEEK_V3, plan=Plan(tp=8, dp=2, ep=16), phase="decode")
    drafting = replace(scenario, workload=replace(BASE.workload, mtp_tokens=2, mtp_acceptance=(0.9, 0.6, 0.4, 0.2)))
    plain, folded = block(scenario), block(drafting)
    assert folded.tokens_per_step == pytest.approx(2.5)
    assert (folded.decode_step_ms > plain.decode_step_ms).all()
    assert folded.tpot_inclusive_ms == pytest.approx(folded.decode_step_ms / 2.5)
    assert folded.weight_bytes[0] > plain.weight_bytes[0]
    # Two drafts cost far less than two more steps of 61 layers
    assert (folded.decode_step_ms < 2 * plain.decode_step_ms).all()


def test_a_pipeline_has_a_micro_batch_for_every_stage():
    piped = replace(BASE, plan=Plan(tp=2, pp=4), phase="decode")
    got = block(piped)
    assert list(got.concurrency) == [4 * size for size in SIZES]
    # Every micro-batch of the four is served once a round by the slowest stage
    upstream = block(replace(piped, convention="upstream"))
    assert (got.decode_step_ms >= upstream.decode_step_ms * (1 - 1e-9)).all()
    prefill = block(replace(piped, phase="prefill"))
    alone = block(replace(BASE, plan=Plan(tp=2), phase="prefill"))
    # 4 x 100 prompts in waves of 4: one goes through in about the time it takes on one stage of all the layers, 25
    # waves of four are a quarter of the work each device had
    assert prefill.prefill_step_ms[-1] == pytest.approx(alone.prefill_step_ms[-1], rel=0.02)
    assert prefill.makespan_ms[-1] < 1.1 * alone.makespan_ms[-1]


def test_chunked_prompts_share_steps_with_decodes():
    long = changed(input_length=20000, max_batched_tokens=8192)
    got = block(long, sizes=np.arange(1, 41))
    assert (got.prefill_chunks == 3).all()
    # One prompt alone meets no interference: three chunks, then its decodes
    assert got.ttft_ms[0] == pytest.approx(got.prefill_step_ms[0])
    assert got.e2e_ms[0] == pytest.approx(got.ttft_ms[0] + 1499 * got.decode_step_ms[0], rel=1e-6)
    assert (np.diff(got.ttft_ms) > 0).all()
    assert (np.diff(got.makespan_ms) > 0).all()
    # With others prefilling beside it, a request waits longer than for prefill and decode apart
    assert (got.makespan_ms[1:] > got.makespan_ms[0] * np.arange(2, 41)).all()


def test_upstream_runs_the_first_chunks_of_all_prompts_before_the_second():
    # Chunks of 8,192, 8,192 and 3,616 tokens. One prompt takes its three; of many, every first chunk is a step alone.
    long = replace(changed(input_length=20000, max_batched_tokens=8192), convention="upstream")
    upstream = block(long, sizes=np.arange(1, 30))
    assert (upstream.prefill_chunks == 3).all()
    alone = block(replace(long, phase="prefill"), sizes=np.arange(1, 30))
    assert upstream.ttft_ms[0] == pytest.approx(alone.ttft_ms[0], rel=1e-12)
    # The first of 29 has its first token after 28 chunks more of each of the first two rounds.
    assert (upstream.ttft_ms > 2 * np.arange(1, 30) * upstream.prefill_step_ms).all()
    assert upstream.tpot_inclusive_ms == pytest.approx(upstream.tpot_exclusive_ms, rel=1e-12)


def test_batch_sizes_do_not_disturb_each_other():
    for scenario in (BASE, changed(input_length=20000), replace(BASE, plan=Plan(tp=2, pp=4))):
        together = block(scenario)
        for index, size in enumerate(SIZES):
            alone = block(scenario, sizes=np.asarray([size]))
            for name, values in together.columns().items():
                expected = np.asarray(alone.columns()[name], dtype=float)[0]
                assert float(values[index]) == pytest.approx(expected, rel=1e-12, nan_ok=True), name


def test_an_unknown_serving_model_is_named():
    with pytest.raises(InputError, match="unknown serving model 'oracle'"):
        block(replace(BASE, serving_model="oracle"))


def test_requests_for_operators_follow_the_phase():
    assert traces_of("aggregated") == ("prefill", "decode")
    requests = capture_requests(replace(BASE, phase="decode"))
    assert set(requests) == {"decode"}
    assert requests["decode"].linear.name == "W8A8_DYNAMIC"
    other = capture_requests(replace(BASE, phase="decode", device=replace(TEST_DEVICE, name="X")))
    assert other["decode"].key == requests["decode"].key  # known operators serve every device
    longer = capture_requests(changed(phase="decode", input_length=9, mtp_tokens=2))
    assert longer["decode"].key == requests["decode"].key  # and every workload


def test_missing_dtypes_are_said():
    operators = both_traces(QWEN3_32B, Plan(tp=8), linear=W8A8)
    assert assumptions_of(BASE, operators) == ()
    without = replace(TEST_DEVICE, matrix_flops_per_s=(("bf16", 300e12),))
    assert assumptions_of(replace(BASE, device=without), operators) == (
        "TEST_DEVICE has no int8 unit: products run in bf16",
    )
    said = assumptions_of(replace(BASE, device=without, convention="upstream"), operators)
    assert said == ("TEST_DEVICE has no int8 unit: its compute time is dropped, as upstream does",)
    unmodelled = {trace: replace(one, unmodelled=("layers: aten::foo",)) for trace, one in operators.items()}
    assert assumptions_of(BASE, unmodelled) == ("not priced, no formula: layers: aten::foo",)


def test_experts_see_the_tokens_of_every_replica():
    scenario = replace(BASE, model=QWEN3_30B_A3B, plan=Plan(dp=8, ep=8), phase="decode")
    got = block(scenario)
    assert list(got.concurrency) == [8 * size for size in SIZES]
    assert (got.decode_step_communication_ms > 0).all()
