"""Layers whose attention and MLP stand side by side behind one norm (Command): their operators, sums over devices,
caches, and files as they are published."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import TEST_DEVICE, W8A8, captured

from evaluator.canonical import canonical
from evaluator.evaluate import capture_requests, evaluate_scenario, unsupported
from evaluator.graph.capture import capture_operators
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import _group, load_model
from evaluator.inputs.parameters import parameter_count
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.memory import transfer_bytes
from evaluator.restore import restored
from evaluator.scenario import Scenario

COMMAND_A = load_model("CohereLabs/c4ai-command-a-03-2025")[1]
COMMAND_R_PLUS = load_model("CohereLabs/c4ai-command-r-plus-08-2024")[1]
# As its file is published: keys of the class, and those that only describe what the class does anyway.
PUBLISHED = {
    "architectures": ["Cohere2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 5,
    "cache_implementation": "hybrid", "eos_token_id": 255001, "head_dim": 128, "hidden_act": "silu", "hidden_size": 12288,
    "initializer_range": 0.02, "intermediate_size": 36864, "layer_norm_eps": 1e-05, "layer_switch": 4, "logit_scale": 0.25,
    "max_position_embeddings": 131072, "model_type": "cohere2", "num_attention_heads": 96, "num_hidden_layers": 64,
    "num_key_value_heads": 8, "order_of_interleaved_layers": "local_attn_first", "pad_token_id": 0,
    "position_embedding_type": "rope_gptj", "rope_scaling": None, "rope_theta": 50000, "rotary_pct": 1.0,
    "sliding_window": 4096, "sliding_window_pattern": 4, "torch_dtype": "bfloat16", "use_cache": True,
    "use_embedding_sharing": True, "use_gated_activation": True, "use_parallel_block": True,
    "use_parallel_embedding": False, "use_qk_norm": False, "vocab_size": 256000,
}  # fmt: skip


def served(**options):
    return Scenario(
        **{
            "model": COMMAND_A,
            "device": TEST_DEVICE,
            "plan": Plan(tp=8),
            "phase": "aggregated",
            "precision": Precision(linear="BF16"),
            "workload": Workload(input_length=2000, output_length=200.0),
            "serving_model": "vllm",
            **options,
        }
    )


def labels_of_layers(operators, name="layers0"):
    return [one.label.removeprefix(f"{name}.") for one in operators if one.label.startswith(f"{name}.")]


def test_a_layer_reads_one_norm_and_sums_both_parts_over_devices():
    found = labels_of_layers(captured(COMMAND_A, Plan(tp=8)).operators)
    assert [label for label in found if "norm" in label] == ["input_norm"]
    assert [label for label in found if label.endswith("all_reduce")] == ["attention_all_reduce", "mlp.all_reduce"]
    assert [label for label in found if label.startswith("residual")] == ["residual.add_both"]
    assert not any("all_reduce" in label for label in labels_of_layers(captured(COMMAND_A).operators))


def test_what_both_parts_give_is_added_at_once_in_compiled_graphs():
    # Three rows are read and one written, and each number is added twice; eager graphs launch two additions.
    row, sums = 2 * COMMAND_A.hidden_size, repeated(request_sums(512.0, 0.0, windows=COMMAND_A.spans), 1.0)

    def additions(compiled):
        all_of_them = captured(COMMAND_A, Plan(), compile=compiled).operators
        return [one for one in all_of_them if one.label.startswith("layers0.residual.")]

    (fused,) = additions(compiled=True)
    assert float(fused.bytes_read.at(sums)) == 3 * 512 * row
    assert float(fused.bytes_written.at(sums)) == 512 * row
    assert float(fused.vector_flops.at(sums)) == 2 * 512 * COMMAND_A.hidden_size
    eager = additions(compiled=False)
    assert sum(float(one.bytes_read.at(sums)) * one.count for one in eager) == 48 * 2 * (2 * 512 * row)
    assert (fused.count, [one.count for one in eager]) == (48, [2 * 48])


def test_rows_are_quantised_once_where_both_parts_read_one_format():
    both = captured(COMMAND_A, Plan(), linear=W8A8).operators
    assert not [one.label for one in both if one.kind == "quantise" and one.label.split(".")[-1] == "qkv_proj"]
    # In different formats the norm gives 16 bits, and the part that reads fewer quantises them by itself.
    other = captured(COMMAND_A, Plan(), linear=W8A8, mixers=replace(W8A8, name="W8A8_STATIC", dynamic=False)).operators
    quantised = [one.label for one in other if one.kind == "quantise" and one.label.startswith("layers0.")]
    assert "layers0.qkv_proj" in quantised
    assert "layers0.mlp.gate_up_proj" in quantised


def test_full_layers_turn_no_positions_and_windows_do():
    operators = captured(COMMAND_A, Plan()).operators
    assert "rope" in labels_of_layers(operators, "layers0")
    assert "rope" not in labels_of_layers(operators, "layers1")
    assert [(group.count, group.window) for group in COMMAND_A.layers] == [(48, 4096), (16, None)]


@pytest.mark.parametrize("model", [COMMAND_A, COMMAND_R_PLUS], ids=["command-a", "command-r-plus"])
def test_weights_that_devices_hold_are_the_parameters(model):
    held = sum(one.count * one.weight_bytes for one in captured(model, Plan()).operators)
    assert held == 2 * parameter_count(model).total


def test_norms_of_heads_have_weights_of_every_head_and_no_sum_over_devices():
    whole = {one.label: one for one in captured(COMMAND_R_PLUS, Plan()).operators}
    assert whole["layers.query_norm"].weight_bytes == 2 * 96 * 128
    assert whole["layers.key_norm"].weight_bytes == 2 * 8 * 128
    shared = {one.label: one for one in captured(COMMAND_R_PLUS, Plan(tp=8)).operators}
    assert shared["layers.query_norm"].weight_bytes == 2 * 12 * 128
    assert not [label for label in shared if "squares" in label or "norm_all_reduce" in label]


@pytest.mark.parametrize("tokens", [1024, 131_072])
def test_caches_hold_windows_and_whole_prompts(tokens):
    a_token = 2 * 8 * 128 * 2
    assert transfer_bytes(COMMAND_A, 16, float(tokens)) == a_token * (48 * min(tokens, 4096) + 16 * tokens)


def test_a_published_file_is_what_the_catalogue_has(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(PUBLISHED), encoding="utf-8")
    assert load_model(str(tmp_path))[1] == COMMAND_A
    said = ["full_attention" if (layer + 1) % 4 == 0 else "sliding_attention" for layer in range(64)]
    newer = {key: value for key, value in PUBLISHED.items() if key not in {"layer_switch", "sliding_window_pattern"}}
    (tmp_path / "config.json").write_text(json.dumps({**newer, "layer_types": said}), encoding="utf-8")
    assert load_model(str(tmp_path))[1] == COMMAND_A


def test_it_is_served_restored_and_refused_upstream():
    scenario = served()
    sets = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    block = evaluate_scenario(scenario, np.asarray([1, 8, 32]), sets)
    assert (np.diff(block.tpot_exclusive_ms) > 0).all()
    assert restored(canonical(COMMAND_A)) == COMMAND_A
    upstream = served(serving_model="waves", convention="upstream")
    assert "parts side by side" in unsupported(upstream).message


def test_what_an_entry_of_the_catalogue_says_is_a_field_or_an_error():
    attention = {"query_heads": 4, "kv_heads": 2, "head_dim": 32}
    space = {"heads": 8, "head_dim": 32, "groups": 2, "state_size": 32, "convolution": 4, "convolution_bias": True}
    said = {"count": 2, "mlp": {"intermediate_size": 64}}
    group = _group({**said, "beside": {**space, "chunk": 16}}, attention)
    assert group.beside is not None
    assert group.beside.state_size == 32
    with pytest.raises(TypeError, match="besides"):
        _group({**said, "besides": {}}, attention)
