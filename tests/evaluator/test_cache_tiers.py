"""Keys and values outside the devices: bytes, seconds and what prefill hides of them, by literal arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import DEEPSEEK_V3, LLAMA_31_8B
from hypothesis import given
from hypothesis import strategies as st

from evaluator.arrivals.loads import unplayable
from evaluator.canonical import canonical, content_key
from evaluator.evaluate import assumptions_of, batch_source, capture_requests, cost_of, evaluate_scenario, unsupported
from evaluator.graph.capture import capture_operators
from evaluator.identity import RecordBuilder, workload_record
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import engine_profile
from evaluator.inputs.plan import Plan
from evaluator.inputs.precision import Precision
from evaluator.inputs.workloads.cache_tiers import CacheTier, cache_tiers
from evaluator.inputs.workloads.workload import LengthBin, Workload
from evaluator.inputs.workloads.workload_labels import label_of, workload_of
from evaluator.restore import restored
from evaluator.scenario import Scenario
from evaluator.serving.engine.request_kinds import RequestKind
from evaluator.serving.engine.step_tables import StepTable
from evaluator.serving.engine.tier_loads import device_bytes, load_seconds, with_loads
from evaluator.serving.interface import Run
from store.errors import InputError

H200 = load_device("h200_sxm", family="theoretical")
HOST = CacheTier(name="host", hit_rate=0.5)
TWO = Plan(tp=2)
SSD = CacheTier(name="ssd", hit_rate=0.25, bytes_per_s=6e9)


def scenario_of(*tiers, engine="sglang", plan=TWO, phase="prefill", model=LLAMA_31_8B, length=16_384):
    """Prompts of which an eighth lies in the devices' own cache."""
    workload = Workload(input_length=length, output_length=200.0, prefix_cache_hit_rate=0.125, tiers=tiers)
    return Scenario(
        model=model, device=H200, precision=Precision(linear="BF16", attention="DISABLED"), plan=plan,
        workload=workload, phase=phase, serving_model=engine,
    )  # fmt: skip


def evaluated(scenario, batches=(1, 4)):
    """Its probes."""
    assert unsupported(scenario) is None
    operators = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    return evaluate_scenario(scenario, np.asarray(batches), operators)


def test_a_device_reads_its_heads_of_what_a_tier_holds():
    scenario = scenario_of(HOST, SSD)
    kind = RequestKind(new_tokens=2_048, cached=14_336)
    # 8,192 and 4,096 tokens; 32 layers, 4 heads of 128 numbers of two bytes on each of two devices, keys and values
    assert device_bytes(scenario, kind) == {"host": 8192 * 32 * 4 * 2 * 128 * 2, "ssd": 4096 * 32 * 4 * 2 * 128 * 2}
    # The SSD's 268,435,456 bytes at 6 GB/s take longer than all 805,306,368 at 0.8 x 64 GB/s
    assert load_seconds(scenario, kind) == pytest.approx(268_435_456 / 6e9, rel=1e-12)
    assert load_seconds(scenario_of(HOST), kind) == pytest.approx(536_870_912 / 51.2e9, rel=1e-12)
    # Of latent attention every device reads the whole vector, of shares of a context an eighth
    latent = scenario_of(HOST, model=DEEPSEEK_V3, plan=Plan(tp=8, ep=8))
    assert device_bytes(latent, kind)["host"] == 8192 * 61 * 576 * 2
    shared = replace(latent, plan=Plan(tp=8, ep=8, dcp=8))
    assert device_bytes(shared, kind)["host"] == 8192 * 61 * 576 * 2 / 8


def test_tables_hold_what_computing_does_not_hide():
    # 4 ms for 1,024 new tokens and 2 ms of attention: reading 5 ms is hidden, reading 15 ms adds 9
    table = StepTable(
        spacing=128, linear=np.arange(9) * 0.5e-3, input_length=1024, attention=np.linspace(0.0, 2e-3, 9),
        decode_linear=np.ones(2), decode_own=np.ones(2),
    )  # fmt: skip
    kind = RequestKind(new_tokens=1024, cached=3072)

    def read_in(seconds, engine="sglang"):
        scenario = scenario_of(replace(HOST, bytes_per_s=2048 * 32 * 4 * 2 * 128 * 2 / seconds), engine=engine)
        return with_loads(scenario, table, (kind,), 1024)

    assert read_in(5e-3).table.attention.tolist() == table.attention.tolist()
    assert read_in(15e-3).table.attention[-1] == pytest.approx(11e-3)
    assert read_in(15e-3).table.attention[4] == pytest.approx(5.5e-3)
    assert read_in(5e-3).wait_s == read_in(15e-3).wait_s == 0.0
    # vLLM starts a prompt when its keys are there: it waits, while others compute
    assert read_in(5e-3, "vllm").wait_s == pytest.approx(5e-3)
    assert read_in(15e-3, "vllm").wait_s == pytest.approx(6e-3)
    assert read_in(15e-3, "vllm").table.attention[-1] == pytest.approx(11e-3)


@pytest.mark.parametrize("engine", ["sglang", "vllm", "trtllm"])
@pytest.mark.parametrize("phase", ["prefill", "aggregated"])
def test_reading_costs_less_than_computing_and_more_than_a_hit(engine, phase):
    slow = replace(HOST, bytes_per_s=2e9)
    ttft = [
        evaluated(scenario).ttft_ms
        for scenario in (
            replace(scenario_of(engine=engine, phase=phase), workload=Workload(
                input_length=16_384, output_length=200.0, prefix_cache_hit_rate=0.625)),
            scenario_of(HOST, engine=engine, phase=phase),
            scenario_of(slow, engine=engine, phase=phase),
        )
    ]  # fmt: skip
    assert (ttft[0] <= ttft[1]).all()
    assert (ttft[1] < ttft[2]).all()
    assert (ttft[1] < evaluated(scenario_of(engine=engine, phase=phase)).ttft_ms).all()


def test_keys_of_half_a_prompt_wait_for_their_link():
    # 268 MB at 2 GB/s x 2 (8,192 tokens of 65,536 bytes on a device): 268 ms, far more than computing 6,144 tokens
    found = evaluated(scenario_of(replace(HOST, bytes_per_s=2e9)))
    assert found.prompt_service_ms[0] == pytest.approx(8192 * 65_536 / 2e9 * 1e3, rel=0.02)
    assert found.ttft_ms[0] > 268


@given(rate=st.floats(0.01, 0.85), gb=st.floats(0.5, 500.0))
def test_faster_tiers_never_make_prompts_later(rate, gb):
    kind = RequestKind(new_tokens=2_048, cached=14_336)
    slow, fast = (
        load_seconds(scenario_of(CacheTier(name="host", hit_rate=rate, bytes_per_s=1e9 * speed)), kind)
        for speed in (gb, 2 * gb)
    )
    assert fast == pytest.approx(slow / 2)


@pytest.mark.parametrize("phase", ["prefill", "decode", "aggregated"])
def test_where_nothing_lies_outside_nothing_moves(phase):
    usual = scenario_of(phase=phase)
    none = replace(usual, workload=workload_of(
        input_length=16_384, output_length=200.0, prefix_cache_hit_rate=0.125,
        tiers=cache_tiers({"host": 0.0, "ssd": 0.0}, {"host": 50.0}),
    ))  # fmt: skip
    first, second = (RecordBuilder().scenario("m", one) for one in (usual, none))
    assert (first.key, first.device.key) == (second.key, second.device.key)
    assert "host_link" not in first.device.spec
    assert "tiers" not in first.subject.workload.spec
    for name, values in evaluated(usual).columns().items():
        assert np.array_equal(values, evaluated(none).columns()[name], equal_nan=True), name


def test_tiers_are_said_and_kept():
    scenario = scenario_of(HOST, SSD)
    record = RecordBuilder().scenario("m", scenario)
    assert restored(record.subject.workload.spec) == scenario.workload
    assert restored(record.device.spec).host_link_bytes_per_s == 64e9
    assert (record.subject.workload.host_hit_rate, record.subject.workload.ssd_hit_rate) == (0.5, 0.25)
    assert label_of(scenario.workload) == "16384/200 hit 0.125 host 0.5 ssd 0.25 at 6 GB/s"
    operators = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    assert any("reads 0.805 GB of a prompt's keys in 44.7 ms, layer by layer" in one
               for one in assumptions_of(scenario, operators))  # fmt: skip
    assert content_key(scenario.workload) != content_key(scenario_of(HOST).workload)
    assert "remote" in canonical(scenario_of(CacheTier(name="remote", hit_rate=0.1)).workload)


def test_bins_find_their_own_share_and_the_tiers_in_addition():
    bins = tuple(
        LengthBin(input_length=length, output_length=100.0, weight=0.5, min_input_length=1, max_input_length=99_999,
                  prefix_cache_hit_rate=own)
        for length, own in ((8_000, 0.25), (16_000, None))
    )  # fmt: skip
    workload = workload_of(
        input_length=None, output_length=100.0, bins=bins, prefix_cache_hit_rate=0.125, tiers=(HOST,)
    )
    source = batch_source(replace(scenario_of(HOST), workload=workload))
    assert [prompt.new_tokens for prompt in source.prompts] == [2_000, 6_000]
    assert workload_record(workload).bins[0].prefix_cache_hit_rate == 0.25


def test_what_cannot_be_read_is_refused():
    told = unsupported(scenario_of(replace(SSD, bytes_per_s=0.0)))
    assert "h200_sxm states no rate of its ssd, which holds 0.25 of each prompt" in told.message
    assert "ssd_gb_per_s" in told.hint
    assert "reads no keys from outside the devices" in unsupported(scenario_of(HOST, engine="waves")).message
    for rates, gb, said in (
        ({"host": 1.0}, {}, "must lie in"), ({"host": 0.1}, {"host": 0.0}, "must be above 0"),
        ({"ssd": -0.1}, {}, "must lie in"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            cache_tiers(rates, gb)
    with pytest.raises(InputError, match=r"in caches for 1\.1 of their length"):
        workload_of(input_length=100, output_length=1.0, prefix_cache_hit_rate=0.6, tiers=(HOST,))
    scenario = scenario_of(HOST, phase="aggregated")
    run = Run(scenario=scenario, operators={}, source=batch_source(scenario), cost=cost_of(scenario),
              batch_sizes=np.asarray([1]))  # fmt: skip
    assert "outside the devices" in unplayable(run, engine_profile("sglang")).message
