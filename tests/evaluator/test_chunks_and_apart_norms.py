"""Attention within chunks (Llama 4), norms behind blocks and keys that are values (Gemma 4), gates of heads (Step-3.7)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import TEST_DEVICE, captured, gqa
from hypothesis import given
from hypothesis import strategies as st

from evaluator.canonical import canonical
from evaluator.evaluate import capture_requests, evaluate_scenario, unsupported
from evaluator.graph.capture import capture_operators
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.architectures import spec_from_config
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import DenseMlp, LayerGroup, ModelSpec, MoeMlp
from evaluator.inputs.models import load_model
from evaluator.inputs.parameters import parameter_count
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.kv_state import layer_bytes
from evaluator.restore import restored
from evaluator.scenario import Scenario
from evaluator.serving.waves.packing import PromptKind, pack
from store.errors import InputError

CHUNK = 64
LLAMA = ModelSpec(
    architecture="llama4_text",
    hidden_size=128,
    vocab_size=512,
    layers=(
        LayerGroup(
            count=3, attention=gqa(4, 2, 32, unscaled_norm="query_key"), mlp=DenseMlp(intermediate_size=160),
            window=CHUNK, chunked=True,
        ),
        LayerGroup(count=1, attention=gqa(4, 2, 32, rope_fraction=0.0), mlp=DenseMlp(intermediate_size=160)),
    ),
)  # fmt: skip
GEMMA = ModelSpec(
    architecture="gemma4_text",
    hidden_size=128,
    vocab_size=512,
    tie_word_embeddings=True,
    output_norms=True,
    layers=tuple(
        LayerGroup(
            count=2, attention=attention, window=window,
            mlp=MoeMlp(
                experts=8, experts_per_token=2, intermediate_size=64, shared_intermediate_size=96, apart_norms=True
            ),
        )
        for attention, window in (
            (gqa(4, 2, 32, qk_norm="per_head", unscaled_norm="value"), 64),
            (gqa(4, 2, 64, qk_norm="per_head", unscaled_norm="value", rope_fraction=0.25, values_are_keys=True), None),
        )
    ),
)  # fmt: skip
STEP = {
    "model_type": "step3p7", "hidden_size": 128, "intermediate_size": 192, "vocab_size": 512, "num_hidden_layers": 4,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "sliding_window": 64, "n_routed_experts": 8,
    "layer_types": ["full_attention", "sliding_attention"] * 2, "first_k_dense_replace": 1, "num_experts_per_tok": 2,
    "moe_intermediate_size": 64, "share_expert_dim": 96,
}  # fmt: skip


def seen_in_chunks(new, cached):
    """Pairs and keys of tokens that see their chunk, one token after the other."""
    ends = range(cached, cached + new)
    return sum(end % CHUNK + 1 for end in ends), cached % CHUNK + new


@given(new=st.integers(1, 300), cached=st.integers(0, 300))
def test_tokens_see_their_chunk_and_nothing_before(new, cached):
    _, pairs, keys = request_sums(float(new), float(cached), windows=(-CHUNK,)).windows[0]
    assert (float(pairs), float(keys)) == seen_in_chunks(new, cached)


@given(counts=st.lists(st.integers(1, 5), min_size=2, max_size=2), budget=st.integers(20, 400))
def test_packed_prompts_see_their_chunks_too(counts, budget):
    kinds = (PromptKind(new_tokens=30, cached=50), PromptKind(new_tokens=150, cached=20))
    sums = pack(np.asarray([counts]), kinds, budget, windows=(-CHUNK,)).sums.windows[0]
    assert float(sums[1].sum()) == sum(
        count * seen_in_chunks(kind.new_tokens, kind.cached)[0] for count, kind in zip(counts, kinds, strict=True)
    )


def test_requests_of_a_decode_are_anywhere_in_their_chunk():
    within = request_sums(1.0, 40.0, windows=(-CHUNK,), anywhere=True).windows[0]
    assert [float(part) for part in within[1:]] == [41.0, 41.0]
    beyond = request_sums(1.0, 4000.0, windows=(-CHUNK,), anywhere=True).windows[0]
    every = [seen_in_chunks(1, 4000 + shift)[0] for shift in range(CHUNK)]
    assert [float(part) for part in beyond[1:]] == [np.mean(every)] * 2


def test_a_layer_of_chunks_keeps_one_and_a_full_layer_turns_nothing():
    near, far = LLAMA.layers
    assert (layer_bytes(near, 16, 1, 1000.0), layer_bytes(far, 16, 1, 1000.0)) == (64 * 256, 1000 * 256)
    turned = [one.count for one in captured(LLAMA, Plan(), "prefill").operators if one.kind == "rope"]
    assert turned == [3]


@pytest.mark.parametrize("serving", ["waves", "vllm"])
@pytest.mark.parametrize("model", [LLAMA, GEMMA], ids=["llama4", "gemma4"])
def test_they_are_served_and_restored(model, serving):
    workload = Workload(input_length=100, output_length=20.0)
    scenario = Scenario(
        model=model, device=TEST_DEVICE, precision=Precision(), plan=Plan(tp=2, moe_tp=2) if model.routed else Plan(tp=2),
        workload=workload, phase="aggregated", serving_model=serving,
    )  # fmt: skip
    sets = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    assert (np.diff(evaluate_scenario(scenario, np.asarray([1, 8, 32]), sets).tpot_exclusive_ms) > 0).all()
    assert restored(canonical(model)) == model


def test_every_weight_of_gemma_is_resident_once():
    held = sum(one.count * one.weight_bytes for one in captured(GEMMA, Plan(), "prefill").operators)
    assert held == 2 * parameter_count(GEMMA).total


def test_sums_of_experts_are_normalised_when_they_are_whole():
    labels = [
        one.label.split(".", 1)[1]
        for one in captured(GEMMA, Plan(tp=2, moe_tp=2), "prefill").operators
        if "mlp." in one.label
    ]
    for reduced, normed in (
        ("routed_all_reduce", "routed_output_norm"),
        ("shared_experts.all_reduce", "shared_experts.output_norm"),
    ):
        assert labels.index(f"mlp.{reduced}") < labels.index(f"mlp.{normed}")
    assert "mlp.all_reduce" not in labels


def test_gemma_writes_keys_and_values_apart():
    # As engines store them: on H200 vLLM fits 1,007,303 tokens of the 31B into 103.92 GiB (108.2 KiB a token): 81,920
    # bytes in full layers, and windows of 1,023 tokens and a step of 8,192, whose 9,216 in blocks are shared out over the
    # longest context of 262,144.
    spec = spec_from_config(
        {
            "model_type": "gemma4_text", "hidden_size": 5376, "intermediate_size": 21504, "vocab_size": 262144,
            "num_hidden_layers": 60, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 256,
            "num_global_key_value_heads": 4, "global_head_dim": 512, "attention_k_eq_v": True, "sliding_window": 1024,
        },
        "config.json",
    )  # fmt: skip
    near, far = spec.layers
    full = far.count * layer_bytes(far, 16, 1, 1.0)
    assert full == 81_920
    shared_out = near.count * layer_bytes(near, 16, 1, 1.0) * 9216 / 262144
    assert (full + shared_out) / 1024 == pytest.approx(108.2, rel=1e-3)


def test_step_gates_heads_and_says_what_its_file_lacks():
    pytest.importorskip("transformers", minversion="5.0")
    torch = pytest.importorskip("torch")
    modeling = pytest.importorskip("transformers.models.step3p7.modeling_step3p7")
    configured = pytest.importorskip("transformers.models.step3p7.configuration_step3p7")
    with pytest.raises(InputError, match="num_sliding_attention_heads"):
        spec_from_config(STEP, "config.json")
    spec = spec_from_config({**STEP, "num_sliding_attention_heads": 6}, "config.json")
    assert {(group.attention.query_heads, group.window) for group in spec.layers} == {(4, None), (6, 64)}
    keys = {name: value for name, value in STEP.items() if name not in {"model_type", "first_k_dense_replace"}}
    parsed = configured.Step3p7TextConfig(
        **keys, num_sliding_attention_heads=6, mlp_layer_types=["dense", "sparse", "sparse", "sparse"]
    )
    parsed._attn_implementation = "eager"
    with torch.device("meta"):
        model = modeling.Step3p7TextModel(parsed)
    everything = sum(parameter.numel() for parameter in model.parameters()) + 512 * 128 + 3 * 8  # head, corrections
    assert parameter_count(spec).total == everything


# The hub's file of Step-3.7-Flash in its own words.
HUB = {
    "model_type": "step3p7", "vision_config": {"width": 1536}, "projector_bias": False, "image_token_id": 128001,
    "text_config": {
        "model_type": "step3p5", "vocab_size": 128896, "hidden_size": 4096, "intermediate_size": 11264,
        "num_hidden_layers": 45, "num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128,
        "max_position_embeddings": 65536, "moe_num_experts": 288, "moe_top_k": 8, "moe_intermediate_size": 1280,
        "share_expert_dim": 1280, "moe_layers_enum": ",".join(map(str, range(3, 45))), "moe_every_n_layer": 1,
        "moe_layer_offset": 0, "norm_expert_weight": True, "moe_router_activation": "sigmoid", "need_fp32_gate": True,
        "moe_router_scaling_factor": 3.0, "use_moe_router_bias": True, "use_moe": True, "att_impl_type": "GQA",
        "use_head_wise_attn_gate": True, "use_qk_norm": True, "sliding_window": 512, "use_rope_layers": [],
        "layer_types": ["full_attention", *["sliding_attention"] * 3] * 12, "num_nextn_predict_layers": 3,
        "attention_other_setting": {
            "attention_type": "sliding_attention", "num_attention_heads": 96, "num_attention_groups": 8, "head_dim": 128,
        },
        "rope_theta": [5e6, 1e4, 1e4, 1e4] * 12, "partial_rotary_factors": [0.5, 1.0, 1.0, 1.0] * 12,
        "yarn_only_types": ["full_attention"], "swiglu_limits": [0.0] * 48, "swiglu_limits_shared": [0.0] * 48,
    },
}  # fmt: skip


def test_the_hubs_file_of_step_and_the_catalogue_are_one_model():
    spec = spec_from_config(HUB, "config.json")
    known = load_model("stepfun-ai/Step-3.7-Flash")[1]
    assert replace(spec, architecture=known.architecture, vision=known.vision) == known
    # 196,428,160,256 of the class with 96 heads in layers with a window, a head of 128,896 x 4,096, 42 x 288 corrections
    assert parameter_count(known).total == 196_956_130_368


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"partial_rotary_factors": [0.5, 1.0, 0.5, 1.0] * 12}, "shares of a head that differ"),
        ({"use_head_wise_attn_gate": False}, "step3 without use_head_wise_attn_gate"),
        ({"use_rope_layers": [True, False] * 24}, "layers without positions"),
        ({"attention_other_setting": {"num_attention_heads": 96, "head_dim": 64}}, "another head_dim in layers"),
        ({"attention_other_setting": {"num_attention_heads": 90}}, "8 heads of keys for 90 queries"),
    ],
)
def test_other_files_of_step_are_refused_by_their_part(said, part):
    text = {**HUB["text_config"], **said}
    with pytest.raises(InputError, match=part):
        spec_from_config({**HUB, "text_config": text}, "config.json")


def test_layers_of_step_turn_as_much_of_a_head_as_the_file_says():
    spec = spec_from_config(HUB, "config.json")
    sums = repeated(request_sums(100.0, 0.0, windows=spec.spans), 1.0)
    read = {
        one.label: float(one.bytes_read.at(sums))
        for one in captured(spec, Plan(), "prefill").operators
        if one.kind == "rope" and one.label.startswith("layers")
    }
    # Queries and keys, and a cosine and a sine: half of 64 heads' and 8's 128 numbers, all of 96's and 8's
    assert sorted(set(read.values())) == [100 * 2 * 64 * (64 + 8 + 2), 100 * 2 * 128 * (96 + 8 + 2)]


def test_upstream_knows_neither():
    for model in (LLAMA, GEMMA):
        scenario = Scenario(
            model=model, device=TEST_DEVICE, precision=Precision(), plan=Plan(), phase="decode", convention="upstream",
            workload=Workload(input_length=100, output_length=20.0),
        )  # fmt: skip
        assert "upstream" in unsupported(scenario).message
