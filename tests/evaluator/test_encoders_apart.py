"""Encoders of images on devices of their own: seconds, rates, memory and queues, by hand and against text."""

from __future__ import annotations

import functools
from dataclasses import replace

import numpy as np
import pytest

from evaluator.arrivals.loads import LoadPlayer, PlaySettings
from evaluator.arrivals.streams import ArrivalProcess
from evaluator.canonical import content_key
from evaluator.evaluate import assumptions_of, capture_requests, cost_of, evaluate_scenario, unsupported
from evaluator.explain import encoder_rates, explain_step
from evaluator.graph.capture import capture_operators
from evaluator.identity import RecordBuilder
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.images import ImageRequest
from evaluator.inputs.launch import Plan
from evaluator.inputs.launchable import smaller_servers
from evaluator.inputs.models import load_model
from evaluator.inputs.plan_search import PlanSearch, plan_choices
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.inputs.workloads.workload import CacheTier, LengthBin, Workload, with_images
from evaluator.pricing.step import step_seconds
from evaluator.request import NamedModel, SweepRequest, planned_scenarios
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.encoding import embedding_bytes, image_sums, prompt_encoding_s
from evaluator.serving.engine.encoders_apart import encoder_stage
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of
from store.errors import InputError

MODEL = load_model("Qwen/Qwen3-VL-8B-Instruct")[1]
H200 = load_device("h200_sxm", family="theoretical")
FOUR = ImageRequest(count=4, width=1024, height=768)
TEXT = Workload(input_length=1000, output_length=200.0)
CONSTANT = ArrivalProcess(kind="constant", requests=400)


@functools.cache
def operators(request):
    return capture_operators(request)


def case(encoders=2, *, phase="prefill", asked=FOUR, dp=1, engine="vllm", workload=None, **more) -> Scenario:
    return Scenario(
        model=MODEL, device=H200, precision=Precision(linear="BF16"), plan=Plan(dp=dp, encoder_devices=encoders),
        workload=workload or with_images(TEXT, asked, MODEL), phase=phase, serving_model=engine, **more,
    )  # fmt: skip


def run_of(scenario) -> Run:
    assert unsupported(scenario) is None
    model = serving_model_of(scenario)
    sets = {trace: operators(request) for trace, request in capture_requests(scenario).items()}
    return Run(scenario=scenario, operators=sets, source=model.source(scenario), cost=cost_of(scenario),
               batch_sizes=np.asarray([1]))  # fmt: skip


def evaluated(scenario, batches=(1, 8)):
    return evaluate_scenario(scenario, np.asarray(batches), run_of(scenario).operators)


def stage(scenario, images):
    return encoder_stage(run_of(scenario), serving_engine(scenario), images)


def test_images_of_a_prompt_are_dealt_over_its_encoders():
    scenario = case(encoders=3)
    run, engine = run_of(scenario), serving_engine(scenario)
    # Of 4 images on 3 encoders one has 2; 768 tokens of 4,096 numbers of two bytes, four times (three for early layers).
    each = 768 * 4 * 4096 * 2
    assert embedding_bytes(MODEL, scenario.workload.images) == each == 25_165_824
    kernels = float(
        step_seconds(run.operators["encoder"], run.cost, image_sums(scenario.workload.images, np.asarray([2.0]))).total[
            0
        ]
    )
    host = engine.step_s() + engine.prompt_step_s() + 1e-3 * engine.step_per_prompt_ms
    link = H200.links[0]
    moving = 4 * each / (link.bandwidth_bytes_per_s * link.efficiency)
    found = stage(scenario, np.asarray([4.0, 0.0]))
    assert found.alone_s == pytest.approx([host + engine.prefill_factor * kernels + moving, 0.0], rel=1e-12)
    assert found.service_s == pytest.approx([max(host + engine.prefill_factor * kernels, moving), 0.0], rel=1e-12)
    assert (stage(case(encoders=1), [4.0]).alone_s > stage(case(encoders=4), [4.0]).alone_s).all()
    assert stage(case(encoders=4), [4.0]).alone_s == pytest.approx(stage(case(encoders=9), [4.0]).alone_s)


@pytest.mark.parametrize("phase", ["prefill", "aggregated"])
@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_prompt_alone_waits_for_its_embeddings(phase, engine):
    scenario = case(encoders=4, phase=phase, engine=engine)
    text = replace(scenario, plan=Plan(), workload=replace(scenario.workload, images=None))
    more = evaluated(scenario).ttft_ms[0] - evaluated(text).ttft_ms[0]
    assert more == pytest.approx(1e3 * float(stage(scenario, 4.0).alone_s), rel=1e-6)
    # Pairs take TTFT less makespan for receiving a request: embeddings are no part of it.
    received = [evaluated(one).ttft_ms[0] - evaluated(one).makespan_ms[0] for one in (scenario, text)]
    assert phase == "aggregated" or received[0] == pytest.approx(received[1])


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_images_of_a_prompt_are_explained_to_the_millisecond(engine):
    scenario = case(encoders=3, engine=engine)
    sets = run_of(scenario).operators
    rows = {row.label: row for row in explain_step(scenario, 8, sets, "encode")}
    found = stage(scenario, 4.0)
    assert sum(row.time_ms for row in rows.values()) == pytest.approx(1e3 * float(found.alone_s), rel=1e-9)
    # Two of four images on the busiest of three: 27 layers, 4 x 16 heads x 72 x 3,072^2 each; all four move.
    assert rows["encoder.layers.attention"].matrix_flops == 27 * 2 * 4 * 16 * 72 * 3072**2
    assert rows["embeddings to the instance"].moved_bytes == 4 * 25_165_824
    rates = encoder_rates(scenario, sets)
    assert (rates.devices, rates.replicas) == (3, 1)
    assert rates.images_per_s == pytest.approx(4 * rates.prompts_per_s) == pytest.approx(4 / float(found.service_s))
    # Where the instance encodes by itself, its kernels alone: the engine's share is of the prefill step
    inside = case(encoders=0, engine=engine)
    own = explain_step(inside, 8, run_of(inside).operators, "encode")
    assert encoder_rates(inside, sets) is None
    assert sum(row.time_ms for row in own) == pytest.approx(1e3 * prompt_encoding_s(run_of(inside)), rel=1e-9)
    text = replace(inside, workload=replace(inside.workload, images=None))
    with pytest.raises(InputError, match="without images has no encode step"):
        explain_step(text, 8, sets, "encode")


def test_prompts_take_the_longer_of_encoding_and_computing():
    # One encoder: its 4 images take longer than the prompt. Of four encoders, less: full steps of the instance decide.
    service = {number: float(stage(case(encoders=number), 4.0).service_s) for number in (1, 4)}
    inside = evaluated(case(encoders=0)).prompt_service_ms[0]
    text = case(encoders=4, workload=replace(case().workload, images=None))
    alone = evaluated(replace(text, plan=Plan())).prompt_service_ms[0]
    found = {number: evaluated(case(encoders=number)).prompt_service_ms[0] for number in (1, 4)}
    assert 1e3 * service[4] < alone
    assert found[4] == pytest.approx(alone, rel=1e-9)
    assert alone < inside
    assert found[1] == pytest.approx(max(alone, 1e3 * service[1]), rel=0.02)
    # Eight replicas share an encoder, each in turn.
    shared = evaluated(case(encoders=1, dp=8)).prompt_service_ms[0]
    assert 8e3 * service[1] > alone
    assert shared == pytest.approx(8e3 * service[1], rel=0.1)  # the host's time beside it
    assert shared > 8e3 * service[1]


def test_the_encoder_is_not_on_the_devices_of_the_instance():
    apart, inside = (evaluated(case(encoders=number)) for number in (2, 0))
    weights = sum(float(one.count) * float(one.weight_bytes) for one in run_of(case()).operators["encoder"].operators)
    assert inside.weight_bytes[0] - apart.weight_bytes[0] == pytest.approx(weights, rel=1e-6)
    assert (apart.activation_bytes <= inside.activation_bytes).all()
    assert Plan(tp=2, dp=2, encoder_devices=3).num_devices == 7
    record = RecordBuilder().scenario("m", case())
    assert (record.subject.plan.encoder_devices, record.subject.plan.num_devices) == (2, 3)


def test_plans_without_them_have_the_keys_that_they_had():
    assert content_key(Plan(tp=4, encoder_devices=0)) == content_key(Plan(tp=4))
    assert content_key(Plan(tp=4, encoder_devices=1)) != content_key(Plan(tp=4))
    assert "encoder_devices" not in str(RecordBuilder().scenario("m", case(encoders=0)).subject.key)
    traces = capture_requests(case(encoders=2)), capture_requests(case(encoders=0))
    assert [traces[0][name] for name in ("prefill",)] == [traces[1][name] for name in ("prefill",)]


def test_requests_wait_for_encoders_one_after_another():
    """Eight replicas share an encoder, which is slower than they are: each request waits for those before it."""
    scenario = case(encoders=1, dp=8, phase="aggregated", asked=replace(FOUR, count=30))
    player = LoadPlayer(run_of(scenario), serving_engine(scenario), PlaySettings(process=CONSTANT))
    service, late = (float(getattr(stage(scenario, 30.0), name)) for name in ("service_s", "alone_s"))
    text = replace(scenario, plan=Plan(dp=8), workload=replace(scenario.workload, images=None))
    bare = LoadPlayer(run_of(text), serving_engine(text), PlaySettings(process=CONSTANT))
    assert 0.95 / service < player.saturation_per_s < 1.0 / service  # the last is computed when all are encoded
    assert bare.saturation_per_s > 1.5 / service
    slow = [one.load(0.05, keep_requests=True).request_times.ttft for one in (player, bare)]
    assert slow[0] - slow[1] == pytest.approx(np.full(380, 1e3 * late))
    # At 1.2 times what the encoder takes, each waits a sixth of a service more than the one before.
    fast = player.load(1.2 / service, keep_requests=True).request_times.ttft
    assert np.polyfit(np.arange(380), fast, 1)[0] == pytest.approx(1e3 * service / 6, rel=0.05)


def test_requests_without_images_pass_those_that_wait():
    """A log in which each second request has images, more of them than the encoder takes: the others never wait."""
    count = 400
    trace = TracedArrivals(
        times=np.arange(count) * 1.0, input_lengths=np.full(count, 24_000), output_lengths=np.full(count, 2),
        sha256="0" * 64, images=np.asarray([30, 0] * (count // 2)),
    )  # fmt: skip
    process = ArrivalProcess(kind="trace", requests=count, trace_sha256="0" * 64)
    scenario = case(encoders=1, dp=64, phase="aggregated", asked=replace(FOUR, count=30))
    service = float(stage(scenario, 30.0).service_s)
    player = LoadPlayer(run_of(scenario), serving_engine(scenario), PlaySettings(process=process), trace)
    times = player.load(2.4 / service, keep_requests=True).request_times.ttft
    pictured, text = times[::2], times[1::2]
    assert pictured[-1] - pictured[0] == pytest.approx(189 * 1e3 * service / 6, rel=0.05)
    assert text.max() < 3 * text.min() < pictured[-1]


def test_what_cannot_have_encoders_apart_says_so():
    refused = {
        "has no encoders on devices of their own": case(engine="waves"),
        "`encoder_split=data` is of encoders inside": case(asked=replace(FOUR, split="data")),
        "not with a distribution": case(workload=with_images(Workload(
            input_length=None, output_length=100.0,
            bins=(LengthBin(input_length=100, output_length=9, weight=1, min_input_length=1, max_input_length=200),),
        ), FOUR, MODEL)),
        "beside keys outside the devices": case(
            workload=replace(case().workload, tiers=(CacheTier(name="host", hit_rate=0.5),))
        ),
    }  # fmt: skip
    for said, scenario in refused.items():
        assert said in unsupported(scenario).message
    run = run_of(case(phase="aggregated", dp=2))
    with pytest.raises(InputError, match="`dispatch=least`"):
        LoadPlayer(run, serving_engine(run.scenario), PlaySettings(process=CONSTANT, dispatch="least"))


def test_encoders_stand_beside_what_takes_prompts():
    request = SweepRequest(
        models=(NamedModel(name="m", spec=MODEL),), devices=(H200,), workloads=(TEXT,),
        precisions=(Precision(linear="BF16"),), num_devices=2, phases=("prefill", "decode", "aggregated"),
        serving_model="vllm", images=FOUR, search=PlanSearch(tp_sizes=(2,), encoder_devices=(0, 3)),
    )  # fmt: skip
    plans = {(one.scenario.phase, one.scenario.plan.encoder_devices) for one in planned_scenarios(request)}
    assert plans == {(phase, number) for phase in ("prefill", "aggregated") for number in (0, 3)} | {("decode", 0)}
    text = {one.scenario.plan.encoder_devices for one in planned_scenarios(replace(request, images=None))}
    assert text == {0}
    with pytest.raises(InputError, match="`encoder_devices` must be between 0 and 64"):
        plan_choices(MODEL, 2, PlanSearch(encoder_devices=(65,)))
    # Two replicas with two encoders are two of one each; with three they are not.
    assert smaller_servers(Plan(dp=2, encoder_devices=2)) == (Plan(dp=1, encoder_devices=1),)
    assert smaller_servers(Plan(dp=2, encoder_devices=3)) == ()


def test_what_was_assumed_says_where_images_are_encoded():
    scenario = case()
    said = assumptions_of(scenario, run_of(scenario).operators)
    assert any("2 devices of their own encode" in one and "25.2 MB" in one for one in said)
    assert any("before its prompt" in one for one in said)
