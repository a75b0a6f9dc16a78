"""LongCat-Flash: experts beside two MLPs, added behind the second, and experts that give back what they read."""

from __future__ import annotations

import json

import numpy as np
import pytest
from evaluator_cases import TEST_DEVICE, captured

from evaluator.canonical import canonical
from evaluator.evaluate import capture_requests, evaluate_scenario, unsupported
from evaluator.graph.capture import capture_operators
from evaluator.graph.capture.capture_request import layers_of_stages
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import load_model
from evaluator.inputs.parameters import parameter_count
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.kv_state import layer_bytes
from evaluator.restore import restored
from evaluator.scenario import Scenario
from store.errors import InputError

# The published hyper-parameters of LongCat-Flash-Chat (Meituan 2025, arXiv 2509.01322; its class has them as defaults).
CONFIG = {
    "model_type": "longcat_flash", "attention_method": "MLA", "attention_bias": False, "hidden_size": 6144,
    "ffn_hidden_size": 12288, "expert_ffn_hidden_size": 2048, "n_routed_experts": 512, "zero_expert_num": 256,
    "zero_expert_type": "identity", "moe_topk": 12, "num_layers": 28, "num_attention_heads": 64, "q_lora_rank": 1536,
    "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "vocab_size": 131072,
    "max_position_embeddings": 131072, "mla_scale_q_lora": True, "mla_scale_kv_lora": True, "router_bias": False,
    "routed_scaling_factor": 6.0, "rms_norm_eps": 1e-5, "rope_theta": 1e7, "use_cache": True,
}  # fmt: skip
LONGCAT = load_model("meituan-longcat/LongCat-Flash-Chat")[1]


def test_its_file_and_the_catalogue_are_one_model(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
    assert load_model(str(tmp_path))[1] == LONGCAT
    # 741,053,585,408 of the class and 28 x 768 corrections, less 28 x 256 x 2 x 2,048 x 6,144 that it sets aside for experts without weights
    assert parameter_count(LONGCAT).total == 560_664_980_480
    assert restored(canonical(LONGCAT)) == LONGCAT
    assert "idle_experts" not in canonical(load_model("deepseek-ai/DeepSeek-V3")[1])


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"moe_topk": 11}, "11 of 768 experts, of whom 512 compute: no whole number a token"),
        ({"zero_expert_type": "copy"}, "zero_expert_type 'copy'"),
        ({"attention_method": "LSA"}, "attention_method 'LSA'"),
        ({"router_bias": True}, "a router with biases"),
        ({"num_hidden_layers": 30}, "num_hidden_layers 30 beside num_layers 28"),
        ({"ngram_vocab_size_ratio": 78}, "ngram_vocab_size_ratio: not read"),
    ],
)
def test_its_relatives_are_refused_by_their_part(tmp_path, said, part):
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, **said}), encoding="utf-8")
    with pytest.raises(InputError, match=part):
        load_model(str(tmp_path))


def test_a_token_is_scored_by_all_and_computed_by_two_thirds():
    found = {one.label: one for one in captured(LONGCAT, Plan(), "prefill").operators}
    assert found["layers0.mlp.router"].gemm.n == 768
    # 8 of 12 experts a token compute: two products of 2,048, two of them at once, of 6,144
    sums = repeated(request_sums(96.0, 0.0), 1.0)
    grouped = [one for one in captured(LONGCAT, Plan(), "prefill").operators if one.kind == "moe_grouped_gemm"]
    assert [one.experts.experts_per_token for one in grouped] == [8, 8]
    assert sum(float(one.matrix_flops.at(sums)) for one in grouped) == 96 * 8 * 2 * 3 * 2048 * 6144
    # What idle ones give back is one reading and one writing more
    assert found["layers0.mlp.idle_experts.add"].count == 28
    assert float(found["layers0.mlp.idle_experts.add"].bytes_read.at(sums)) == 2 * 96 * 6144 * 2


def test_experts_are_summed_over_devices_apart_from_the_mlp_beside_them():
    labels = [one.label for one in captured(LONGCAT, Plan(tp=8, moe_tp=8), "decode").operators]
    assert [label for label in labels if label.startswith("layers") and label.endswith("all_reduce")] == [
        "layers0.attention_all_reduce", "layers0.mlp.routed_all_reduce", "layers0.mlp.shared_experts.all_reduce",
        "layers1.attention_all_reduce", "layers1.mlp.all_reduce",
    ]  # fmt: skip


@pytest.mark.parametrize("stages", [2, 3, 8])
def test_pairs_of_layers_stay_on_one_stage(stages):
    first, second = layers_of_stages(LONGCAT, stages)
    assert first == second
    assert sum(first) == 28
    assert max(first) - min(first) <= 1


def test_its_cache_is_a_latent_of_each_attention():
    # 2 x 28 x (512 + 64) x 2
    assert sum(group.count * layer_bytes(group, 16, 8, 1000.0) for group in LONGCAT.layers) == 64_512_000


def test_it_is_served():
    scenario = Scenario(
        model=LONGCAT,
        device=load_device("h200_sxm", family="calibrated"),
        precision=Precision(linear="FP8_BLOCK"),
        plan=Plan(tp=8, ep=8),
        workload=Workload(input_length=4000, output_length=200.0),
        phase="aggregated",
        serving_model="sglang",
    )
    sets = {trace: capture_operators(request) for trace, request in capture_requests(scenario).items()}
    block = evaluate_scenario(scenario, np.asarray([1, 8, 32]), sets)
    assert (np.diff(block.tpot_exclusive_ms) > 0).all()
    upstream = Scenario(
        model=LONGCAT,
        device=TEST_DEVICE,
        precision=Precision(),
        plan=Plan(tp=8, ep=8),
        workload=Workload(input_length=400, output_length=20.0),
        phase="decode",
        convention="upstream",
    )
    assert unsupported(upstream) is not None
