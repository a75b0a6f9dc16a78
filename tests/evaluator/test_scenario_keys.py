"""Content keys: every input field of a scenario is changed, one at a time, and its key must change exactly when a
number does."""

from __future__ import annotations

import dataclasses
import functools
import json
from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import (
    DEEPSEEK_V3,
    GPT_OSS_20B,
    LLAMA_31_8B,
    OPT_125M,
    QWEN3_30B_A3B,
    QWEN3_32B,
    TEST_DEVICE,
    gqa,
    one_group,
)

from evaluator.evaluate import capture_requests, evaluate_scenario, unsupported
from evaluator.graph.capture import capture_operators
from evaluator.identity import RecordBuilder
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import engine_profile, list_engines
from evaluator.inputs.formats import Precision
from evaluator.inputs.images import Images, Projection, VisionTower
from evaluator.inputs.launch import Client, Launch, Plan
from evaluator.inputs.model import (
    CompressedAttention,
    DenseMlp,
    GatedDeltaNet,
    LatentAttention,
    LayerGroup,
    MoeMlp,
    StateSpace,
    TokenIndexer,
)
from evaluator.inputs.models import load_model
from evaluator.inputs.plan_search import PlanSearch, plan_choices
from evaluator.inputs.workloads.workload import CacheTier, LengthBin, Workload
from evaluator.inputs.workloads.workload_labels import workload_of
from evaluator.scenario import Scenario
from evaluator.together.ranges import batch_range

SIZES = np.asarray([1, 3, 40])
W8A8 = Precision(linear="W8A8_DYNAMIC")
SHORT = Workload(input_length=900, output_length=60.0)
SSD = CacheTier(name="ssd", hit_rate=0.5, bytes_per_s=1e8)
MIXED = workload_of(
    input_length=None,
    output_length=85.0,
    bins=[
        LengthBin(input_length=400, output_length=60.0, weight=0.25, min_input_length=300, max_input_length=500),
        LengthBin(input_length=2000, output_length=90.0, weight=0.75, min_input_length=1500, max_input_length=2500),
    ],
)


def case(model, plan, phase, workload=SHORT, *, precision=W8A8, device=TEST_DEVICE, **options) -> Scenario:
    return Scenario(
        model=model, device=device, precision=precision, plan=plan, workload=workload, phase=phase, **options
    )


COMPRESSED = replace(
    one_group(
        "deepseek_v4", 512, 1000, 2,
        CompressedAttention(
            query_heads=8, query_lora_rank=64, head_dim=128, rope_head_dim=32, output_groups=4, output_rank=64,
            ratio=4, chosen_entries=32, indexer=TokenIndexer(heads=4, head_dim=64),
        ),
        MoeMlp(experts=8, experts_per_token=2, intermediate_size=64, gated=False, latent_size=256),
        mtp_layers=1, residual_streams=2, stream_rounds=3,
    ),
    draft_layer=LayerGroup(count=1, attention=gqa(8, 2, 64), mlp=DenseMlp(intermediate_size=256)),
)  # fmt: skip
BLOCKS = one_group(
    "minimax_m3", 512, 1000, 2,
    gqa(8, 2, 64, chosen_keys=256, chosen_block=64, indexer=TokenIndexer(heads=2, head_dim=64), value_head_dim=32),
    DenseMlp(intermediate_size=512),
)  # fmt: skip
BLOCK_DRAFTS = replace(
    BLOCKS, mtp_layers=2, draft_states=2, draft_state_norms=True, draft_block=True, draft_markov=16,
    draft_layer=LayerGroup(
        count=1, mlp=DenseMlp(intermediate_size=256),
        attention=LatentAttention(
            query_heads=8, query_lora_rank=64, kv_lora_rank=64, nope_head_dim=32, rope_head_dim=16, value_head_dim=32
        ),
    ),
)  # fmt: skip
_SPACE = StateSpace(heads=8, head_dim=64, groups=2, state_size=64, convolution=4, convolution_bias=True, chunk=128)
_NET = GatedDeltaNet(key_heads=4, value_heads=8, key_head_dim=64, value_head_dim=64, convolution=4)
STATES = replace(
    BLOCKS,
    layers=(
        LayerGroup(count=2, attention=_SPACE, mlp=None),
        LayerGroup(count=2, attention=_NET, mlp=DenseMlp(intermediate_size=512)),
        LayerGroup(
            count=2,
            attention=gqa(8, 2, 64),
            mlp=MoeMlp(experts=8, experts_per_token=2, intermediate_size=64, shared_intermediate_size=128),
            beside=_SPACE,
        ),
    ),
)

IMAGES = Images(
    count=3, width=256, height=256, sequences=2, patches=256, tokens=65, views=1, view_patches=64,
    tower=VisionTower(
        hidden_size=256, layers=4, heads=4, head_dim=64, intermediate_size=512, patch_values=768, positions=512,
        position_taps=1, projections=(Projection(widths=(1024, 512, 512), merged=4, norm="layer"),),
        deep=(Projection(widths=(1024, 512, 512), merged=4, norm="layer"),),
    ),
)  # fmt: skip
PICTURED = Workload(input_length=1095, output_length=60.0, images=IMAGES)


def scenarios() -> dict[str, Scenario]:
    """Scenarios that together make use of every field."""
    drafts = Workload(input_length=900, output_length=60.0, mtp_tokens=2, mtp_acceptance=(0.9, 0.6))
    cached = replace(SHORT, prefix_cache_hit_rate=0.5)
    latent = Plan(tp=8, dp=2, ep=16)
    return {
        "dense": case(QWEN3_32B, Plan(tp=8), "prefill", cached, serving_cost_ms=2.0),
        "dense, two dimensions": case(QWEN3_32B, Plan(tp=16), "decode"),
        "rope table": case(LLAMA_31_8B, Plan(tp=2), "decode", convention="upstream"),
        "plain": case(OPT_125M, Plan(tp=2), "decode", precision=Precision(linear="BF16", attention="INT8")),
        "plain, eager": case(OPT_125M, Plan(tp=2), "aggregated", convention="upstream", launch=Launch(compile=False)),
        "experts": case(
            QWEN3_30B_A3B, Plan(tp=2, dp=2, ep=4), "decode", precision=Precision(linear="BF16", experts="MXFP4")
        ),
        "latent": case(DEEPSEEK_V3, latent, "decode", drafts),
        "latent, prefill": case(DEEPSEEK_V3, latent, "prefill"),
        "windows": case(GPT_OSS_20B, Plan(tp=2, ep=2), "decode"),
        "compressed": case(COMPRESSED, Plan(tp=2), "decode", drafts),
        "blocks": case(BLOCKS, Plan(tp=2), "decode"),
        "drafts in a block": case(BLOCK_DRAFTS, Plan(tp=2), "decode", drafts),
        "states": case(STATES, Plan(), "aggregated"),
        "pictures": case(LLAMA_31_8B, Plan(tp=2), "aggregated", PICTURED),
        "mixed": case(LLAMA_31_8B, Plan(tp=2), "prefill", MIXED),
        "mixed, aggregated": case(LLAMA_31_8B, Plan(tp=2), "aggregated", MIXED),
        "mixed, served": case(LLAMA_31_8B, Plan(tp=2), "aggregated", MIXED, serving_model="vllm"),
        "outside, by a slow link": case(
            LLAMA_31_8B,
            Plan(tp=2),
            "prefill",
            replace(SHORT, tiers=(CacheTier(name="host", hit_rate=0.5),)),
            device=replace(h200(), host_link_bytes_per_s=1e8),
            serving_model="sglang",
        ),
        "outside, on slow disks": case(
            LLAMA_31_8B, Plan(tp=2), "aggregated", replace(SHORT, tiers=(SSD,)), device=h200(), serving_model="vllm"
        ),
        "measured": case(LLAMA_31_8B, Plan(tp=4), "aggregated", precision=Precision(linear="BF16"), device=h200()),
        "measured experts, served": case(
            QWEN3_30B_A3B,
            Plan(tp=2, dp=2, ep=4),
            "aggregated",
            precision=Precision(linear="BF16"),
            device=h200(),
            serving_model="sglang",
            client=Client(shortest=0.8, prompts_per_user=3, poll_steps=10),
            launch=Launch(seats=20, wait_steps=2),
            routing="power_law_1.2",
        ),
    }


@functools.cache
def h200():
    return load_device("h200_sxm", family="calibrated")


@functools.cache
def operators(request):
    return capture_operators(request)


def key_of(scenario: Scenario) -> str:
    return RecordBuilder().scenario("some/name", scenario).key


def numbers_of(scenario: Scenario) -> np.ndarray:
    """Every stored number of a scenario, with the batch sizes worth storing and the memory that questions compare."""
    sets = {trace: operators(request) for trace, request in capture_requests(scenario).items()}
    worth = batch_range(scenario, sets)
    edges = [float(worth.last), float(worth.largest_fitting), float(scenario.device.memory_bytes)]
    columns = evaluate_scenario(scenario, SIZES, sets).columns().values()
    return np.concatenate([np.asarray(edges), *(np.asarray(column, dtype=float) for column in columns)])


# What else a text or an absent value can be; numbers and flags are changed by rule.
CHOICES = {
    "architecture": "another", "native_linear": "FP8", "native_experts": "FP8", "native_kv_cache": "FP8",
    "native_mixers": "FP8", "native_head": "FP8", "native_drafts": "FP8", "mixers": "FP8_BLOCK", "head": "FP8", "drafts": "FP8_BLOCK", "left_out": "another", "vendor": "another", "source": "another", "host_link_source": "another", "cache_source": "another", "fitted_from": "another",
    "watts": 700.0, "compute_units": 100, "max_positions": 4096, "window": 512, "query_lora_rank": 256,
    "norm": {"rms": "layer", "layer": "rms"}, "position": {"rope": "alibi", "learned": "rope"},
    "qk_norm": {"none": "per_head", "per_head": "per_layer"}, "topology": {"clos": "full_mesh", "full_mesh": "clos"},
    "phase": {"prefill": "decode", "decode": "prefill", "aggregated": "decode"},
    "convention": {"physical": "upstream", "upstream": "physical"},
    "linear": {"BF16": "W8A8_DYNAMIC", "W8A8_DYNAMIC": "W4A8_DYNAMIC"}, "experts": {None: "W4A16", "MXFP4": "FP8_BLOCK"},
    "attention": {"DISABLED": "FP8", "INT8": "DISABLED"}, "serving_model": {"waves": "seed002", "sglang": "vllm_v0", "vllm": "trtllm"},
    "routing": {"balanced": "power_law_1.2", "power_law_1.2": "balanced"}, "shortest": 0.9,
    "beside": _SPACE, "chosen_keys": 512, "chosen_entries": 64, "value_head_dim": 96, "latent_size": 512, "decay_rank": 32, "key_bits": 8, "gate_rank": 32, "rope_fraction": 0.5, "draft_vocab": 500,
    "unscaled_norm": {"": "value", "value": ""},
    "indexer": TokenIndexer(heads=4, head_dim=64), "mlp": DenseMlp(intermediate_size=64),
    "draft_layer": LayerGroup(count=1, attention=gqa(128, 8, 128), mlp=DenseMlp(intermediate_size=4096)),
    "images": IMAGES, "split": {"weights": "data"}, "rule": "padded",
    "prefix_cache_hit_rate": 0.25, "client": Client(shortest=0.85), "seats": 10,
}  # fmt: skip
# Fields that other tests change as a whole: they cannot change alone.
WHOLE = {
    "vision",
    "draft_model",
    "engine",
    "plan",
    "calibration",
    "family",
    "input_length",
    "bins",
    "mtp_tokens",
    "name",
}


# Vector work of a kernel that memory bounds here; a draft is as often as mtp_layers says, and this one has no blocks, no
# window to be cut into chunks, no head of its own, and no positions of its own to turn (its model's are narrower);
# each of its blocks reads a stream of its own.
HIDDEN = {
    "model.draft_vocab", "model.draft_layer.chunked", "model.draft_layer.attention.rope_fraction",
    "model.draft_layer.count", "model.draft_layer.parallel_mlp", "model.draft_layer.attention.chosen_block", "model.stream_rounds",
    "model.layers.attention.chunk", "model.layers.beside.chunk",
    # Of images, sizes behind the processor decide; those before it are what a client is told to send.
    "workload.images.width", "workload.images.height", "workload.images.tokens",
    "device.fitted_from",  # says whose servers the numbers beside it are fitted to
}  # fmt: skip


def leaves(record: object, path: tuple[str | int, ...] = ()):
    """(path, value) of every scalar inside frozen records and tuples."""
    if dataclasses.is_dataclass(record):
        for item in dataclasses.fields(record):
            if item.name not in WHOLE:
                yield from leaves(getattr(record, item.name), (*path, item.name))
    elif isinstance(record, tuple):
        for index, item in enumerate(record):
            yield from leaves(item, (*path, index))
    else:
        yield path, record


def put(record, path, value):
    """The record with the scalar at `path` replaced."""
    if not path:
        return value
    head, *rest = path
    if isinstance(head, int):
        return (*record[:head], put(record[head], rest, value), *record[head + 1 :])
    return replace(record, **{head: put(getattr(record, head), rest, value)})


def changed(path: tuple[str | int, ...], value: object) -> object:
    """Another valid value; `value` itself where there is none."""
    name = next(part for part in reversed(path) if isinstance(part, str))
    if isinstance(value, bool):
        return not value
    if isinstance(value, str) and name.endswith("flops_per_s"):
        return "int4"  # a rate of another dtype
    if isinstance(value, str) or value is None or name == "prefix_cache_hit_rate":
        choice = CHOICES[name]
        return choice.get(value, value) if isinstance(choice, dict) else choice
    if isinstance(value, int):
        return 2 * value or 64
    return 0.75 * value or 1.5e-6


def field_of(path: tuple[str | int, ...]) -> str:
    return ".".join(part for part in path if isinstance(part, str))


def moves(wanted):
    """By field, whether a key and whether a number changes with it in any of these scenarios."""
    key_moves: dict[str, bool] = {}
    number_moves: dict[str, bool] = {}
    for name, scenario in wanted:
        key, numbers = key_of(scenario), numbers_of(scenario)
        for path, value in leaves(scenario):
            other = put(scenario, path, changed(path, value))
            if other == scenario or unsupported(other) is not None:
                continue
            other_key, other_numbers = key_of(other), numbers_of(other)
            moved = not np.array_equal(numbers, other_numbers, equal_nan=True)
            # In every single scenario: no two numbers under one key.
            assert not (moved and other_key == key), f"{name}: {path} changes numbers, and not the key"
            field = field_of(path)
            key_moves[field] = key_moves.get(field, False) or other_key != key
            number_moves[field] = number_moves.get(field, False) or moved
    return key_moves, number_moves


@pytest.mark.survival
def test_no_two_numbers_have_one_key():
    key_moves, number_moves = moves(list(scenarios().items())[::10])
    changing = {field for field, changes in number_moves.items() if changes}
    assert len(changing) > 20
    assert changing <= {field for field, changes in key_moves.items() if changes}


@pytest.mark.long  # every field of every scenario: most of a minute
def test_a_key_changes_exactly_when_a_number_does():
    key_moves, number_moves = moves(scenarios().items())
    # Over all scenarios: what is in the key makes a difference somewhere.
    assert {field for field, changes in key_moves.items() if changes} - HIDDEN == {
        field for field, changes in number_moves.items() if changes
    }
    assert {field for field, changes in key_moves.items() if not changes} == {
        "model.architecture", "model.native_linear", "model.native_experts", "model.native_kv_cache", "model.native_mixers",
        "model.native_head", "model.native_drafts", "model.left_out", "device.vendor", "device.source", "device.watts",
        "device.host_link_source", "device.cache_bytes", "device.cache_source",
        "workload.images.tower.patch_size", "workload.images.tower.resizing.rule",
        "workload.images.tower.resizing.most", "workload.images.tower.resizing.least",
        "workload.images.tower.resizing.side", "workload.images.tower.resizing.marks",
    }  # fmt: skip


def one_of(name: str) -> Scenario:
    return scenarios()[name]


def assert_both_change(scenario: Scenario, other: Scenario) -> None:
    assert key_of(scenario) != key_of(other)
    before, after = numbers_of(scenario), numbers_of(other)
    assert not np.array_equal(before, after, equal_nan=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"input_length": 901},
        {"bins": MIXED.bins, "input_length": None},
        {"mtp_tokens": 1, "mtp_acceptance": (0.9,)},
    ],
)
def test_what_is_served_is_in_the_key(changes):
    scenario = case(DEEPSEEK_V3, Plan(tp=8, dp=2, ep=16), "aggregated")
    assert_both_change(scenario, replace(scenario, workload=replace(SHORT, **changes)))


@pytest.mark.parametrize("field", ["input_length", "output_length", "weight", "prefix_cache_hit_rate"])
def test_every_figure_of_a_length_bin_is_in_the_key(field):
    scenario = one_of("mixed, aggregated")
    first, *rest = MIXED.bins
    new = replace(first, **{field: 0.5 * (getattr(first, field) or 0.5)})
    assert_both_change(scenario, replace(scenario, workload=replace(MIXED, bins=(new, *rest))))


def test_the_scale_of_weights_and_the_users_name_are_in_no_key():
    doubled = [replace(bin_, weight=4 * bin_.weight) for bin_ in MIXED.bins]
    again = workload_of(input_length=None, output_length=85.0, bins=doubled, name="mine")
    scenario = one_of("mixed")
    assert again.bins == MIXED.bins
    assert key_of(replace(scenario, workload=again)) == key_of(scenario)


def test_every_plan_is_a_key_of_its_own():
    plans = [choice.plan for choice in plan_choices(QWEN3_30B_A3B, 8, PlanSearch(pp_sizes=()))]
    keys = {key_of(case(QWEN3_30B_A3B, plan, "decode")) for plan in plans}
    assert len(keys) == len(plans) > 40


def test_compiled_and_eager_graphs_are_two_keys_and_two_numbers():
    scenario = one_of("rope table")
    assert_both_change(scenario, replace(scenario, launch=Launch(compile=False)))


def test_a_calibration_is_in_the_key():
    scenario = one_of("measured")
    document = json.loads(h200().calibration)
    document.pop("hash")  # of the untouched coefficients
    document["kernels"]["gemm.bf16"]["memory_efficiency"] *= 0.9
    other = replace(h200(), calibration=json.dumps(document, sort_keys=True, separators=(",", ":")))
    assert_both_change(scenario, replace(scenario, device=other))
    assert_both_change(scenario, replace(scenario, device=load_device("h200_sxm", family="theoretical")))


def test_another_profile_under_the_same_name_is_another_scenario_of_one_subject():
    scenario = one_of("dense")
    builder = RecordBuilder()
    faster = replace(scenario, device=replace(TEST_DEVICE, memory_efficiency=0.7))
    before, after = (builder.scenario("some/name", item) for item in (scenario, faster))
    assert before.subject.key == after.subject.key
    assert before.key != after.key


def test_two_ids_with_the_same_hyper_parameters_are_one_model():
    scenario = one_of("dense")
    quantised = load_model("Qwen/Qwen3-32B-FP8")[1]
    assert quantised.native_linear == "FP8_BLOCK"
    keys = {key_of(replace(scenario, model=model)) for model in (quantised, QWEN3_32B)}
    assert len(keys) == 1


def test_defaults_written_out_and_left_out_are_one_key():
    scenario = case(QWEN3_32B, Plan(tp=8), "decode")
    written = replace(
        scenario,
        precision=Precision(linear="W8A8_DYNAMIC", experts="W8A8_DYNAMIC"),
        workload=replace(SHORT, output_length=60),
    )
    assert key_of(scenario) == key_of(written)


def test_kinds_of_records_with_equal_fields_are_told_apart():
    dense = one_group("a", 64, 100, 2, QWEN3_32B.layers[0].attention, QWEN3_32B.layers[0].mlp)
    group = dense.layers[0]
    other = replace(dense, layers=(replace(group, attention=DEEPSEEK_V3.layers[0].attention),))
    keys = {RecordBuilder().scenario("n", case(model, Plan(), "decode")).key for model in (dense, other)}
    assert len(keys) == 2


@pytest.mark.parametrize("engine", list_engines())
@pytest.mark.parametrize("phase", ["prefill", "decode", "aggregated"])
def test_a_subject_names_what_was_said_of_its_service_and_nothing_of_the_usual(engine, phase):
    usual = engine_profile(engine).client
    scenario = case(QWEN3_32B, Plan(tp=8), phase, serving_model=engine)

    def said(**changes):
        return RecordBuilder().scenario("n", replace(scenario, **changes)).subject.unusual_service

    assert said() == said(client=usual) == ""
    lengths = said(client=replace(usual, shortest=0.8))
    assert lengths == "shortest_length"
    prompts = said(client=replace(usual, prompts_per_user=3))
    assert prompts == ("" if phase == "decode" else "prompts_per_user")
    assert said(launch=Launch(seats=8)) == ("seats" if phase == "aggregated" else "")
