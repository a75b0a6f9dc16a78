"""Images of requests: sizes behind processors, the encoder's time and memory, and what of both is in answers."""

from __future__ import annotations

import ast
import functools
import math
from collections import defaultdict
from dataclasses import replace
from importlib import util
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from evaluator_cases import QWEN3_32B
from hypothesis import given
from hypothesis import strategies as st

from evaluator.canonical import canonical
from evaluator.evaluate import assumptions_of, capture_requests, cost_of, evaluate_scenario, unsupported
from evaluator.explain import explain_step
from evaluator.graph.capture import capture_operators
from evaluator.identity import RecordBuilder, workload_record
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import engine_profile
from evaluator.inputs.formats import Precision
from evaluator.inputs.images import ImageRequest, VisionTower, best_grid, check_images, images_of
from evaluator.inputs.launch import Launch, Plan
from evaluator.inputs.models import load_model
from evaluator.inputs.workloads.workload import LengthBin, Workload, with_images
from evaluator.pricing.occurrence import operator_seconds
from evaluator.request import NamedModel, SweepRequest, planned_scenarios
from evaluator.restore import restored
from evaluator.scenario import Scenario
from evaluator.serving.encoding import encoded_images, image_sums, on_busiest_rank
from store.errors import InputError

QWEN_VL = load_model("Qwen/Qwen3-VL-8B-Instruct")[1]
BF16 = Precision(linear="BF16")
TEXT = Workload(input_length=1000, output_length=200.0)
TWO = ImageRequest(count=2, width=1024, height=768)
H200 = load_device("h200_sxm", family="calibrated")
SIZES = np.asarray([1, 3, 16])


OF_VLLM = engine_profile("vllm").prefill_factor  # prompts over their kernels


def tower(name: str) -> VisionTower:
    found = load_model(name)[1].vision
    assert isinstance(found, VisionTower)
    return found


def sizes(name: str, width: int, height: int) -> tuple[int, int, int]:
    images = images_of(ImageRequest(count=1, width=width, height=height), tower(name))
    return images.sequences, images.patches, images.tokens


@functools.cache
def operators(request):
    return capture_operators(request)


def sets_of(scenario: Scenario):
    return {trace: operators(request) for trace, request in capture_requests(scenario).items()}


def case(workload=TEXT, *, phase="prefill", plan=None, serving_model="waves", model=QWEN_VL, **options) -> Scenario:
    return Scenario(
        model=model, device=H200, precision=BF16, plan=plan or Plan(), workload=workload, phase=phase,
        serving_model=serving_model, **options,
    )  # fmt: skip


def block(scenario: Scenario, batch_sizes=SIZES):
    return evaluate_scenario(scenario, batch_sizes, sets_of(scenario))


def pictured(request: ImageRequest = TWO, text: Workload = TEXT) -> Workload:
    return with_images(text, request, QWEN_VL)


@pytest.mark.parametrize(
    ("name", "width", "height", "wanted"),
    [
        # Tokens of 32 pixels: 1024 x 768 is 32 x 24; 600 x 1000 rounds to 19 x 31; 100 x 100 grows to 256 x 256.
        ("Qwen/Qwen3-VL-8B-Instruct", 1024, 768, (1, 3072, 768)),
        ("Qwen/Qwen3-VL-8B-Instruct", 600, 1000, (1, 4 * 19 * 31, 19 * 31)),
        ("Qwen/Qwen3.5-27B", 100, 100, (1, 256, 64)),
        # 5000 x 5000 shrinks to 4096 x 4096: 128 x 128 tokens.
        ("Qwen/Qwen3.5-27B", 5000, 5000, (1, 65_536, 16_384)),
        # Tokens of 28 pixels, padded: 1000 is 36, 600 is 22.
        ("moonshotai/Kimi-K2.5", 1000, 600, (1, 4 * 36 * 22, 36 * 22)),
        # 280 x 9 patches, whatever it is: 1000 x 600 becomes 21 x 12 tokens, and begin and end stand around them.
        ("google/gemma-4-26B-A4B", 1000, 600, (1, 2520, 21 * 12 + 2)),
        # Tokens of 28 pixels within 451,584 of them: 1024 x 1024 becomes 24 x 24, with begin and end.
        ("nvidia/MiniMax-M3-NVFP4", 1024, 1024, (1, 4 * 576, 576 + 2)),
        # 336 x 336 is one tile of 24 x 24 patches: 144 tokens, begin, image and end.
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 336, 336, (1, 576, 144 + 3)),
        # 1008 x 672: 2 rows of 3 tiles and the whole, 7 x 144 tokens; 2 separators within each row and 1 behind it.
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", 1008, 672, (7, 576, 7 * 144 + 6 + 3)),
    ],
)  # fmt: skip
def test_patches_and_tokens_of_an_image(name, width, height, wanted):
    assert sizes(name, width, height) == wanted


def functions_of(module: str, *names: str):
    """Functions of a module that cannot be imported without an imaging library, on what they need of it."""
    spec = util.find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("transformers is not installed")
    text = (Path(spec.submodule_search_locations[0]) / "models" / module).read_text()
    wanted = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef) and node.name in names]
    assert len(wanted) == len(names)
    known = {
        "math": math, "torch": torch, "defaultdict": defaultdict, "lru_cache": functools.lru_cache,
        "SizeDict": SimpleNamespace,
    }  # fmt: skip
    exec(compile(ast.Module(body=wanted, type_ignores=[]), module, "exec"), known)
    return [known[name] for name in names]


SIDES = st.integers(min_value=30, max_value=4000)


@given(SIDES, SIDES)
def test_qwens_rule_is_that_of_the_processor(width, height):
    (resize,) = functions_of("qwen2_vl/image_processing_qwen2_vl.py", "smart_resize")
    rows, columns = (side // 32 for side in resize(height, width, 32, 65_536, 16_777_216))
    assert sizes("Qwen/Qwen3-VL-8B-Instruct", width, height) == (1, 4 * rows * columns, rows * columns)


@given(SIDES, SIDES)
def test_minimaxs_rule_is_that_of_the_processor(width, height):
    (resize,) = functions_of("minimax_m3_vl/image_processing_minimax_m3_vl.py", "smart_resize")
    rows, columns = (side // 28 for side in resize(height, width, 28, 4 * 28 * 28, 451_584))
    assert sizes("nvidia/MiniMax-M3-NVFP4", width, height) == (1, 4 * rows * columns, rows * columns + 2)


@given(SIDES, st.integers(min_value=30, max_value=12_000))
def test_kimis_rule_is_that_of_the_processor(width, height):
    (resize,) = functions_of("kimi_k25/image_processing_kimi_k25.py", "navit_resize")
    _, padded = resize(height, width, 14, 2, 16_384, 512)
    rows, columns = (side // 28 for side in padded)
    assert sizes("moonshotai/Kimi-K2.5", width, height) == (1, 4 * rows * columns, rows * columns)


@given(SIDES, SIDES)
def test_gemmas_rule_is_that_of_the_processor(width, height):
    (resize,) = functions_of("gemma4/image_processing_gemma4.py", "get_aspect_ratio_preserving_size")
    rows, columns = (side // 48 for side in resize(height, width, 16, 2520, 3))
    assert sizes("google/gemma-4-26B-A4B", width, height) == (1, 2520, rows * columns + 2)


@given(SIDES, SIDES)
def test_llamas_tiles_are_those_of_the_processor(width, height):
    supported, best, _ = functions_of(
        "llama4/image_processing_llama4.py", "find_supported_resolutions", "get_best_fit", "get_factors"
    )
    grids = torch.tensor(all_grids(supported))
    rows, columns = (side // 336 for side in best((height, width), grids).tolist())
    assert best_grid(height, width, tower("meta-llama/Llama-4-Scout-17B-16E-Instruct").resizing) == (rows, columns)


@given(st.integers(min_value=8, max_value=8000), st.integers(min_value=8, max_value=8000))
def test_steps_windows_are_those_of_the_processor(width, height):
    """One view of 52 x 52 patches, windows of 36 x 36; 16 patches a token, marks around each, rows of windows ended."""
    plan, narrow = methods_of("step3p7/image_processing_step3p7.py", "_plan_patches", "_is_extreme_aspect")
    processor = SimpleNamespace(max_image_size=3024, _is_extreme_aspect=narrow)
    _, _, window, columns, rows, _ = plan(processor, width, height, 728, 504)
    number = columns * rows if window else 0
    seen = images_of(ImageRequest(count=1, width=width, height=height), tower("stepfun-ai/Step-3.7-Flash"))
    assert (seen.sequences, seen.patches, seen.views) == (1, 52 * 52, number)
    assert seen.view_patches == (36 * 36 if number else 0)
    assert seen.tokens == 169 + 2 + number * (81 + 2) + (rows - 1 if number else 0)
    sums = image_sums(seen, np.asarray([3.0]))
    assert sums.tokens[0] == 3 * (2704 + number * 1296) == 3 * seen.all_patches
    assert sums.pairs[0] == 3 * (2704**2 + number * 1296**2)


def methods_of(module: str, *names: str):
    """Methods of the one class of such a module that has them."""
    spec = util.find_spec("transformers")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("transformers is not installed")
    text = (Path(spec.submodule_search_locations[0]) / "models" / module).read_text()
    held = [node for one in ast.parse(text).body if isinstance(one, ast.ClassDef) for node in one.body]
    wanted = [node for node in held if isinstance(node, ast.FunctionDef) and node.name in names]
    for node in wanted:
        node.decorator_list = []
    known: dict[str, object] = {}
    exec(compile(ast.Module(body=wanted, type_ignores=[]), module, "exec"), known)
    return [known[name] for name in names]


@functools.cache
def all_grids(supported):
    class Side(SimpleNamespace):
        __hash__ = object.__hash__

    return supported(16, Side(height=336, width=336))


def test_prompts_grow_by_the_tokens_of_their_images():
    workload = pictured()
    assert workload.input_length == 1000 + 2 * 768
    assert workload.images is not None
    assert workload.images.tower == QWEN_VL.vision
    record = workload_record(workload)
    assert record.label == "2536/200 with 2 x 1024x768"
    columns = ("images", "image_width", "image_height", "image_patches", "image_tokens", "encoder_split")
    assert [getattr(record, name) for name in columns] == [2, 1024, 768, 3072, 768, "weights"]
    assert (record.input_length, record.input_length_mean) == (2536, 2536.0)
    assert restored(canonical(workload)) == replace(
        workload, images=replace(workload.images, tower=restored(canonical(QWEN_VL.vision)))
    )


def test_a_workload_without_images_is_what_it_was():
    assert workload_record(TEXT).key == "c778322d9c7630e1ae89f156dc4f7bb4c070cdc5b9fa54565d42b2b9918a0d3e"
    spec = workload_record(TEXT).spec
    assert "images" not in spec
    assert (
        RecordBuilder().scenario("some/name", case()).subject.model.key
        == RecordBuilder().scenario("some/name", case(model=replace(QWEN_VL, vision=None))).subject.model.key
    )
    assert "language part only: no image encoder" in assumptions_of(case(), sets_of(case()))
    assert set(capture_requests(case())) == {"prefill"}


def test_the_sums_of_an_encoders_step_are_patches_within_images():
    llama = tower("meta-llama/Llama-4-Scout-17B-16E-Instruct")
    images = images_of(ImageRequest(count=1, width=1008, height=672), llama)
    sums = image_sums(images, 2.0)
    # 2 images of 7 tiles of 576 patches and a class patch.
    assert float(sums.tokens) == 2 * 7 * 576
    assert float(sums.sequences) == 14
    assert float(sums.pairs) == 14 * 577**2
    assert float(sums.keys) == 14 * 577


def brute_force_s(scenario: Scenario, images: int) -> float:
    """Seconds of the encoder over so many images of 3,072 patches, operator by operator."""
    sums = image_sums(replace(scenario.workload.images, count=1), float(images))
    assert float(sums.pairs) == images * 3072**2
    operators = sets_of(scenario)["encoder"].operators
    cost = cost_of(scenario)
    return sum(one.count * float(operator_seconds(one, cost, sums).total()) for one in operators)


@pytest.mark.parametrize("tp", [1, 2])
def test_a_wave_of_prompts_takes_the_encoders_time_beside_its_own(tp):
    # 3 prompts of 2,536 tokens are one wave of the budget: 6 images in one batch.
    plan = Plan(tp=tp)
    seen, alone = (block(case(one, plan=plan)) for one in (pictured(), replace(TEXT, input_length=2536)))
    added = 1e-3 * (seen.prefill_step_ms - alone.prefill_step_ms)
    wanted = [brute_force_s(case(pictured(), plan=plan), images) for images in (2, 6, 6)]
    assert added == pytest.approx(wanted, rel=1e-9)
    assert seen.ttft_ms[0] - alone.ttft_ms[0] == pytest.approx(1e3 * wanted[0], rel=1e-9)
    # 16 prompts are 5 waves of 3 and one of 1.
    makespan = 1e-3 * (seen.makespan_ms[2] - alone.makespan_ms[2])
    assert makespan == pytest.approx(5 * wanted[1] + wanted[0], rel=1e-9)


def test_an_engine_prefills_a_prompt_behind_its_images():
    plan = Plan()
    seen, alone = (
        block(case(one, plan=plan, serving_model="vllm")) for one in (pictured(), replace(TEXT, input_length=2536))
    )
    added = 1e-3 * (seen.ttft_ms[0] - alone.ttft_ms[0])
    assert added == pytest.approx(OF_VLLM * brute_force_s(case(pictured()), 2), rel=1e-9)
    assert (seen.prompt_service_ms - alone.prompt_service_ms) == pytest.approx(1e3 * added, rel=1e-9)


def test_prompts_of_several_lengths_have_the_same_images():
    bins = tuple(
        LengthBin(input_length=length, output_length=200, weight=0.5, min_input_length=length, max_input_length=length)
        for length in (800, 1200)
    )
    text = Workload(input_length=None, output_length=200.0, bins=bins)
    seen = pictured(text=text)
    assert [(one.input_length, one.max_input_length) for one in seen.bins] == [(2336, 2336), (2736, 2736)]
    assert workload_record(seen).label == "~2536/200 (2 bins) with 2 x 1024x768"
    blind = replace(seen, images=None)
    for phase in ("prefill", "aggregated"):
        with_them, without = (block(case(one, phase=phase, serving_model="vllm")) for one in (seen, blind))
        assert (with_them.ttft_ms > without.ttft_ms).all()
    one_more = [block(case(one, serving_model="vllm")).prompt_service_ms[0] for one in (seen, blind)]
    assert one_more[0] - one_more[1] == pytest.approx(1e3 * OF_VLLM * brute_force_s(case(pictured()), 2), rel=1e-9)
    first = [1e-3 * block(case(one, serving_model="vllm")).prefill_step_ms[2] for one in (seen, blind)]
    # A step of 8,192 tokens begins four prompts of 2,336: eight images.
    assert first[0] - first[1] == pytest.approx(brute_force_s(case(pictured()), 8), rel=1e-9)
    decoding = [block(case(one, phase="decode", serving_model="vllm")).tpot_exclusive_ms for one in (seen, blind)]
    assert np.array_equal(*decoding)


def test_a_prompt_in_chunks_encodes_its_images_once():
    long = replace(TEXT, input_length=20_000)
    seen, alone = (
        block(case(one), np.asarray([1])) for one in (pictured(text=long), replace(long, input_length=21_536))
    )
    added = 1e-3 * (seen.ttft_ms - alone.ttft_ms)
    assert added == pytest.approx([brute_force_s(case(pictured(text=long)), 2)], rel=1e-9)


@pytest.mark.parametrize("serving_model", ["waves", "vllm", "sglang"])
def test_decodes_alone_are_as_fast_and_have_the_encoder_in_memory(serving_model):
    text = replace(TEXT, input_length=2536)
    seen, alone = (block(case(one, phase="decode", serving_model=serving_model)) for one in (pictured(), text))
    assert np.array_equal(seen.tpot_exclusive_ms, alone.tpot_exclusive_ms)
    parameters = tower("Qwen/Qwen3-VL-8B-Instruct").parameters
    assert (seen.weight_bytes - alone.weight_bytes == 2 * parameters).all()
    assert np.array_equal(seen.kv_cache_bytes, alone.kv_cache_bytes)


@pytest.mark.parametrize("serving_model", ["waves", "vllm", "sglang"])
def test_in_one_instance_decodes_wait_for_images_of_others(serving_model):
    text = replace(TEXT, input_length=2536)
    seen, alone = (block(case(one, phase="aggregated", serving_model=serving_model)) for one in (pictured(), text))
    assert (seen.ttft_ms > alone.ttft_ms).all()
    assert (seen.tpot_inclusive_ms > alone.tpot_inclusive_ms).all()
    assert np.array_equal(seen.decode_step_ms, alone.decode_step_ms)


def test_a_long_prompt_beside_decodes_encodes_in_the_step_of_its_first_chunk():
    long = replace(TEXT, input_length=20_000)
    seen, alone = (
        block(case(one, phase="aggregated")) for one in (pictured(text=long), replace(long, input_length=21_536))
    )
    added = 1e-3 * (seen.makespan_ms[0] - alone.makespan_ms[0])
    assert added == pytest.approx(brute_force_s(case(pictured(text=long)), 2), rel=1e-6)


def test_what_the_prefix_cache_holds_is_not_encoded():
    # Half of a prompt of 2,536 is new: 1,268 of its tokens, and half of its images.
    half = replace(TEXT, prefix_cache_hit_rate=0.5)
    assert encoded_images(pictured(text=half)) == 2 * 1268 / 2536 == 1.0
    seen = block(case(pictured(text=half)), np.asarray([1]))
    alone = block(case(replace(half, input_length=2536)), np.asarray([1]))
    added = 1e-3 * (seen.ttft_ms - alone.ttft_ms)
    assert added == pytest.approx([brute_force_s(case(pictured()), 1)], rel=1e-9)


def test_ranks_with_images_of_their_own_wait_for_the_busiest():
    images = pictured(replace(TWO, split="data")).images
    assert images is not None
    # 5 images over 4 ranks: 2 on one of them; without that split every rank sees all.
    assert on_busiest_rank(images, np.asarray([1.0, 4.0, 5.0, 8.0]), 4).tolist() == [1, 1, 2, 2]
    assert on_busiest_rank(replace(images, split="weights"), np.asarray([5.0]), 4).tolist() == [5]
    plan = Plan(tp=4)
    many = replace(TWO, count=8)
    shared, own = (
        block(case(pictured(replace(many, split=split)), plan=plan), np.asarray([1])) for split in ("weights", "data")
    )
    # Two reductions a layer cost more than four ranks save on the merger; all weights are everywhere.
    assert own.ttft_ms < shared.ttft_ms
    assert own.weight_bytes > shared.weight_bytes
    alone = block(case(pictured(replace(TWO, count=1)), plan=Plan()), np.asarray([1]))
    assert alone.weight_bytes > own.weight_bytes
    keys = {RecordBuilder().scenario("x", case(pictured(replace(many, split=one)))).key for one in ("weights", "data")}
    assert len(keys) == 2


@given(
    st.integers(min_value=1, max_value=12),
    st.integers(min_value=8, max_value=60),
    st.integers(min_value=8, max_value=60),
)
def test_time_and_memory_grow_with_images_and_their_sides(count, rows, columns):
    one = block(case(pictured(ImageRequest(count=count, width=32 * columns, height=32 * rows))))
    for more in (
        ImageRequest(count=count + 1, width=32 * columns, height=32 * rows),
        ImageRequest(count=count, width=64 * columns, height=32 * rows),
    ):
        larger = block(case(pictured(more)))
        assert (larger.makespan_ms > one.makespan_ms).all()
        assert (larger.kv_cache_bytes[0] >= one.kv_cache_bytes[0]).all()
        if larger.prefill_chunks[0] == 1:  # of more than one, each is shorter
            assert larger.activation_bytes[0] >= one.activation_bytes[0]
    assert (one.ttft_ms > block(case(TEXT)).ttft_ms).all()


def test_tokens_of_images_are_in_cache_and_on_the_way_between_instances():
    seen, alone = (block(case(one)) for one in (pictured(), replace(TEXT, input_length=2536)))
    assert np.array_equal(seen.kv_cache_bytes, alone.kv_cache_bytes)
    assert np.array_equal(seen.kv_bytes_per_request, alone.kv_bytes_per_request)


def test_a_step_is_explained_with_the_operators_of_its_encoder():
    scenario = case(pictured())
    sets = sets_of(scenario)
    rows = explain_step(scenario, 3, sets, "prefill")
    assert sum(row.time_ms for row in rows) == pytest.approx(block(scenario).prefill_step_ms[1], rel=1e-9)
    (attention,) = (row for row in rows if row.label == "encoder.layers.attention")
    # 27 layers, 6 images of 3,072 patches that all attend to all: 4 x 16 heads x 72 x 3,072^2 each.
    assert attention.matrix_flops == 27 * 6 * 4 * 16 * 72 * 3072**2
    assert attention.count == 27
    said = " ".join(assumptions_of(scenario, sets))
    assert "2 images of 1024x768 a request: 3072 patches and 768 prompt tokens each" in said
    assert "language part only" not in said


def test_attention_of_patches_takes_heads_by_sixteen_dimensions():
    # 1 image of 1,024 patches, 16 heads of 72: products as of 80, bytes of 72. Fixed 14.06 us; 989.4 TFLOP/s x 0.5358
    # and 4.8 TB/s x 0.5654, one after the other.
    scenario = case(pictured(ImageRequest(count=1, width=512, height=512)))
    (operator,) = (one for one in sets_of(scenario)["encoder"].operators if one.kind == "encoder_attention")
    seconds = operator_seconds(operator, cost_of(scenario), image_sums(scenario.workload.images, np.ones(1)))
    products, moved = 4 * 16 * 80 * 1024**2, 8 * 16 * 72 * 1024
    wanted = 14.06e-6 + products / (989.4e12 * 0.5358) + moved / (4.8e12 * 0.5654)
    assert float(np.asarray(seconds.total())[0]) == pytest.approx(wanted, rel=2e-3)


def test_what_has_no_images_is_refused_by_name():
    with pytest.raises(InputError, match="reads text alone"):
        with_images(TEXT, TWO, QWEN3_32B)
    with pytest.raises(InputError, match="kimi_k3"):
        with_images(TEXT, TWO, load_model("moonshotai/Kimi-K3")[1])
    bins = (LengthBin(input_length=9, output_length=9, weight=1, min_input_length=1, max_input_length=9),)
    mixed = with_images(replace(TEXT, input_length=None, bins=bins), TWO, QWEN_VL)
    for one, options, said in (
        (mixed, {}, "not with a distribution"),
        (replace(mixed, prefix_cache_hit_rate=0.5), {"serving_model": "vllm"}, "not of a distribution"),
        (pictured(), {"plan": Plan(tp=32)}, "16 heads of the image encoder do not divide over tp 32"),
    ):
        told = unsupported(case(one, **options))
        assert told is not None
        assert said in told.message
    assert unsupported(case(mixed, serving_model="vllm")) is None
    assert unsupported(case(pictured(replace(TWO, split="data")), plan=Plan(tp=32))) is None
    with pytest.raises(InputError, match="more than"):
        with_images(TEXT, replace(TWO, count=10_000, width=4096, height=4096), QWEN_VL)
    for wrong in (replace(TWO, count=0), replace(TWO, width=0), replace(TWO, width=9999, height=9)):
        with pytest.raises(InputError):
            check_images(wrong)
    refused = unsupported(case(pictured(), convention="upstream", launch=Launch()))
    assert refused is not None
    assert "no images" in refused.message


def test_a_sweep_lays_the_same_images_before_every_model():
    other = load_model("moonshotai/Kimi-K2.5")[1]
    request = SweepRequest(
        models=(NamedModel(name="a", spec=QWEN_VL), NamedModel(name="b", spec=other)),
        devices=(H200,), workloads=(TEXT,), precisions=(BF16,), num_devices=8, phases=("prefill",), images=TWO,
    )  # fmt: skip
    lengths = {one.model_name: one.scenario.workload.input_length for one in planned_scenarios(request)}
    # Kimi pads 1024 x 768 to 37 x 28 tokens of 28 pixels.
    assert lengths == {"a": 1000 + 2 * 768, "b": 1000 + 2 * 37 * 28}
