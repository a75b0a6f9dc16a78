"""Keys and values outside the devices: bytes, seconds and what prefill hides of them, by literal arithmetic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import DEEPSEEK_V3, LLAMA_31_8B
from hypothesis import given
from hypothesis import strategies as st

from evaluator.arrivals.loads import LoadPlayer, PlaySettings
from evaluator.arrivals.streams import ArrivalProcess
from evaluator.canonical import canonical, content_key
from evaluator.evaluate import assumptions_of, batch_source, capture_requests, cost_of, evaluate_scenario, unsupported
from evaluator.explain import explain_step
from evaluator.graph.capture import capture_operators
from evaluator.identity import RecordBuilder, workload_record
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import CacheTier, LengthBin, Workload, cache_tiers
from evaluator.inputs.workloads.workload_labels import label_of, workload_of
from evaluator.restore import restored
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.engine.request_kinds import RequestKind
from evaluator.serving.engine.step_tables import StepTable
from evaluator.serving.engine.tier_loads import device_bytes, load_seconds, with_loads
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
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


CONSTANT = ArrivalProcess(kind="constant", requests=400)


def player_of(settings, *tiers, engine="vllm", **more):
    """Requests that arrive at an instance."""
    scenario = scenario_of(*tiers, engine=engine, **{"phase": "aggregated", **more})
    assert unsupported(scenario) is None
    operators = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    model = serving_model_of(scenario)
    run = Run(scenario=scenario, operators=operators, source=model.source(scenario), cost=cost_of(scenario),
              batch_sizes=np.asarray([1]))  # fmt: skip
    return LoadPlayer(run, serving_engine(scenario), settings)


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
    staged = scenario_of(HOST, engine="waves", plan=Plan(tp=2, pp=2))
    assert "for pipeline stages" in unsupported(staged).message
    assert "states no rate" in unsupported(scenario_of(replace(SSD, bytes_per_s=0.0), engine="waves")).message
    upstream = replace(scenario_of(HOST, engine="waves"), convention="upstream")
    assert "no keys outside the devices" in unsupported(upstream).message
    for rates, gb, said in (
        ({"host": 1.0}, {}, "must lie in"), ({"host": 0.1}, {"host": 0.0}, "must be above 0"),
        ({"ssd": -0.1}, {}, "must lie in"),
    ):  # fmt: skip
        with pytest.raises(InputError, match=said):
            cache_tiers(rates, gb)
    with pytest.raises(InputError, match=r"in caches for 1\.1 of their length"):
        workload_of(input_length=100, output_length=1.0, prefix_cache_hit_rate=0.6, tiers=(HOST,))
    for settings, said in (
        (PlaySettings(process=CONSTANT, dispatch="least"), "`dispatch=least`"),
        (PlaySettings(process=CONSTANT, reject_ms=100.0), "`reject_ttft`"),
    ):
        with pytest.raises(InputError, match=said):
            player_of(settings, HOST, plan=Plan(dp=2))


def seconds_of(*tiers, batches=(1, 3), engine="waves", **more):
    """TTFT and makespan in seconds, and the probe block."""
    found = evaluated(scenario_of(*tiers, engine=engine, **more), batches)
    return 1e-3 * found.ttft_ms, 1e-3 * found.makespan_ms, found


@pytest.mark.parametrize("engine", ["waves", "seed002"])
@pytest.mark.parametrize("phase", ["prefill", "aggregated"])
def test_waves_take_the_longer_of_computing_and_reading(engine, phase):
    # Prompts of 16,384 tokens, an eighth in the cache and half in the host: 6,144 to prefill, one a wave of 8,192, and
    # 536,870,912 bytes for each of two devices. At 0.5 GB/s a prompt reads 1,073.7 ms, far more than it computes.
    reading = 536_870_912 / 0.5e9
    cached, _, found = seconds_of(HOST, engine=engine, phase=phase)
    assert (cached < reading).all()
    slow, last, late = seconds_of(replace(HOST, bytes_per_s=0.5e9), engine=engine, phase=phase)
    # Waves of one prompt end at 1, 2 and 3 times that; the mean of three is twice it.
    assert slow == pytest.approx([reading, 2 * reading], rel=1e-12)
    assert last == pytest.approx([reading, 3 * reading], rel=1e-12)
    waited = late.prefill_step_overhead_ms - found.prefill_step_overhead_ms
    assert waited == pytest.approx(1e3 * reading - found.prefill_step_ms, rel=1e-9)
    # A host link that is fast enough is free: the same as a hit in the devices.
    fast, _, _ = seconds_of(replace(HOST, bytes_per_s=1e15), engine=engine, phase=phase)
    held = evaluated(
        replace(scenario_of(engine=engine, phase=phase), workload=Workload(
            input_length=16_384, output_length=200.0, prefix_cache_hit_rate=0.625)),
        (1, 3),
    )  # fmt: skip
    assert fast.tolist() == pytest.approx((1e-3 * held.ttft_ms).tolist(), rel=1e-12)


def test_chunks_of_a_prompt_read_their_share_under_formulas():
    # 65,536 tokens, three eighths to prefill: 24,576 in chunks of 8,192, each of which reads a third of half a prompt.
    slow = replace(HOST, bytes_per_s=0.5e9)
    reading = 65_536 / 2 * 32 * 4 * 2 * 128 * 2 / 0.5e9
    ttft, _, found = seconds_of(slow, length=65_536, batches=(1,))
    assert found.prefill_chunks.tolist() == [3.0]
    assert ttft == pytest.approx([reading], rel=1e-12)
    shared, _, _ = seconds_of(slow, length=65_536, batches=(1,), phase="aggregated")
    assert shared == pytest.approx([reading], rel=1e-12)


def test_what_no_computing_hides_is_a_line_of_the_step():
    scenario = scenario_of(replace(HOST, bytes_per_s=0.5e9), engine="waves")
    operators = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    rows = {row.label: row.time_ms for row in explain_step(scenario, 1, operators, "prefill")}
    assert sum(rows.values()) == pytest.approx(evaluated(scenario, (1,)).prefill_step_ms[0], rel=1e-12)
    assert rows["keys from outside the devices"] > 700
    assert any("reads 0.537 GB" in one and "layer by layer" in one for one in assumptions_of(scenario, operators))


def test_distributions_read_what_their_tokens_read_in_the_mean_under_formulas():
    bins = tuple(
        LengthBin(input_length=length, output_length=100.0, weight=0.5, min_input_length=1, max_input_length=99_999)
        for length in (4_000, 12_000)
    )
    workload = workload_of(input_length=None, output_length=100.0, bins=bins, max_batched_tokens=8192,
                           tiers=(replace(HOST, bytes_per_s=0.5e9),))  # fmt: skip
    for phase in ("prefill", "aggregated"):
        found = evaluated(replace(scenario_of(engine="waves", phase=phase), workload=workload), (2,))
        # Two prompts of 16,000 tokens together, half of which is read: 8,000 x 65,536 bytes at 0.5 GB/s.
        assert found.makespan_ms[0] == pytest.approx(8_000 * 65_536 / 0.5e9 * 1e3, rel=1e-9)


def test_requests_wait_for_their_keys_on_the_way_to_vllm():
    """Alone, a request has its first token by so much later as its keys take; its decodes are as they were."""
    settings = PlaySettings(process=CONSTANT)
    slow = replace(HOST, bytes_per_s=2e9)
    times = [
        player_of(settings, *tiers).load(0.2, keep_requests=True).request_times
        for tiers in ((replace(HOST, bytes_per_s=1e15),), (slow,))
    ]
    # 8,192 tokens of 65,536 bytes on a device at 2 GB/s: 268.4 ms.
    assert times[1].ttft - times[0].ttft == pytest.approx(np.full(380, 268.435456), rel=1e-5)
    assert times[1].tpot == pytest.approx(times[0].tpot, rel=1e-9)


def test_links_carry_one_prompt_after_another():
    """Requests faster than their link: each waits one reading more than the one before, however idle the devices."""
    slow = replace(HOST, bytes_per_s=0.5e9)  # 1,073.7 ms a prompt
    player = player_of(PlaySettings(process=CONSTANT), slow)
    assert player.saturation_per_s == pytest.approx(1 / 1.073741824, rel=0.02)
    ttft = player.load(2.0, keep_requests=True).request_times.ttft
    assert np.diff(ttft) == pytest.approx(np.full(379, 1_073.741824 - 500.0), rel=1e-6)
    # Two replicas have a link each.
    apart = player_of(PlaySettings(process=CONSTANT), slow, plan=Plan(dp=2))
    assert apart.saturation_per_s > 1.7 * player.saturation_per_s / 2  # one device reads all heads: half as fast


def test_sglang_reads_layer_by_layer_beside_computing():
    settings = PlaySettings(process=CONSTANT)
    fast, hidden, slow = (
        player_of(settings, replace(HOST, bytes_per_s=rate), engine="sglang").load(0.2, keep_requests=True)
        for rate in (1e15, 10e9, 0.5e9)
    )
    assert hidden.ttft_mean_ms == pytest.approx(fast.ttft_mean_ms, rel=1e-9)
    # All of a prompt's computing is hidden in reading 1,073.7 ms, not the host's own time.
    assert fast.ttft_mean_ms < 1_000
    assert 1_073 < slow.ttft_mean_ms < 1_073 + fast.ttft_mean_ms
    assert slow.saturation_per_s < 1 / 1.07


def test_decode_instances_read_nothing():
    settings = PlaySettings(process=CONSTANT)
    found = [player_of(settings, replace(HOST, bytes_per_s=rate), phase="decode").load(1.0) for rate in (1e15, 1e9)]
    assert found[0].tpot_mean_ms == found[1].tpot_mean_ms
    assert found[0].saturation_per_s == found[1].saturation_per_s


def test_a_pair_has_the_wait_for_keys_once():
    """Pairs take TTFT less makespan, at one prompt, for receiving a request: keys are no part of it."""
    slow, fast = (evaluated(scenario_of(replace(HOST, bytes_per_s=rate), engine="vllm"), (1,)) for rate in (2e9, 1e15))
    assert slow.ttft_ms[0] - fast.ttft_ms[0] == pytest.approx(268.435456, rel=1e-5)
    assert slow.ttft_ms - slow.makespan_ms == pytest.approx(fast.ttft_ms - fast.makespan_ms)
