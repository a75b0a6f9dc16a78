"""Kernels that SGLang runs for some models alone, priced as they were measured on B200."""

import pytest
from shared_data import shared_data

from evaluator.calibration import SEED
from evaluator.evaluate import capture_requests
from evaluator.explain import explain_step
from evaluator.graph.shipped import operators_of_request
from evaluator.inputs import (
    Plan,
    Workload,
    load_device,
    load_model,
    shipped_calibration,
    with_any_kernels_of,
    with_kernels_of,
)
from evaluator.inputs.devices.calibration_record import calibration_from_json
from evaluator.inputs.formats import Precision
from evaluator.inputs.models import published_precision
from evaluator.inputs.triton_kernels import triton_kernels
from evaluator.scenario import Scenario
from tools.engine_kernels import fit_triton_kernels

CODER, FLASH, LARGE = "Qwen/Qwen3-Coder-Next", "zai-org/GLM-4.7-Flash", "Qwen/Qwen3-235B-A22B"


def model_of(name):
    return load_model(name)[1]


def step_us(name, keys, *, tp=1, engine="sglang", attention=None):
    """Microseconds of each operator of a layer by label, one sequence."""
    model = model_of(name)
    scenario = Scenario(
        model=model,
        device=with_kernels_of(load_device("b200_sxm"), engine, (model, published_precision(model)), attention),
        precision=published_precision(model),
        plan=Plan(tp=tp, moe_tp=tp),
        workload=Workload(input_length=keys, output_length=1),
        phase="decode",
        serving_model=engine,
        routing="power_law_1.2",
    )
    operators = {trace: operators_of_request(request) for trace, request in capture_requests(scenario).items()}
    return {row.label: 1000 * row.time_ms / row.count for row in explain_step(scenario, 1, operators, "decode")}


def test_attention_beside_running_states_is_tritons():
    """Two B200 of Qwen3-Coder-Next: 8 query heads, 1 KV head, 256 numbers. Tables: 49.3 us for 4,096 keys, others 12.5."""
    assert step_us(CODER, 4096, tp=2)["layers1.attention"] == pytest.approx(49.3, rel=0.15)
    assert step_us(CODER, 4096, tp=2, engine="vllm")["layers1.attention"] < 20


def test_latent_vectors_are_read_as_keys_and_again_as_values():
    """From 2,048 to 16,384 keys Triton's 512 numbers a token take 26.8 to 160 us, 133 more: 576 + 512 take 283 more."""
    shorter, longer = (step_us(FLASH, keys, attention="triton")["layers1.attention"] for keys in (2048, 16_384))
    assert longer - shorter == pytest.approx(133 * (576 + 512) / 512, rel=0.15)
    usual = [step_us(FLASH, keys)["layers1.attention"] for keys in (2048, 16_384)]
    assert usual[1] - usual[0] < 30


def test_experts_of_16_bits_are_tritons_but_those_of_qwen():
    """The smallest of its table takes 30 us, the other kernel's 14. One token of GLM-4.7-Flash reads 4 experts of 19 MB:
    10 us at 7.7 TB/s on top."""
    found = step_us(FLASH, 1000)
    assert found["layers1.mlp.experts.gate_up"] + found["layers1.mlp.experts.down"] == pytest.approx(45, abs=10)
    coder = step_us(CODER, 1000, tp=2)
    assert coder["layers0.mlp.experts.gate_up"] + coder["layers0.mlp.experts.down"] < 25


@pytest.mark.parametrize(
    ("name", "linear", "attention", "begun"),
    [
        (CODER, "BF16", None, {"decode_attention", "prefill_attention", "mla_decode", "mla_prefill"}),
        (CODER, "BF16", "trtllm_mha", set()),
        (LARGE, "BF16", None, set()),
        ("meta-llama/Llama-3.1-8B-Instruct", "BF16", None, set()),
        (FLASH, "BF16", None, {"moe"}),
        (FLASH, "FP8", None, set()),
        (FLASH, "BF16", "triton", {"moe", "decode_attention", "prefill_attention", "mla_decode", "mla_prefill"}),
    ],
)
def test_the_engine_chooses_by_model_and_a_flag_by_name(name, linear, attention, begun):
    served = (model_of(name), Precision(linear=linear))
    assert {one.partition(".")[0] for one in triton_kernels("sglang", *served, attention)} == begun
    assert triton_kernels("vllm", *served, attention) == ()


def test_only_what_was_measured_takes_another_place():
    """Triton's tables are of B200, whose kernels GB300 carries. Hopper runs others for these models."""
    served = (model_of(CODER), Precision(linear="BF16"))
    for name in ("b200_sxm", "gb300"):
        device = load_device(name)
        usual, chosen = (
            calibration_from_json(with_kernels_of(device, "sglang", one).calibration) for one in (None, served)
        )
        changed = {one for one in usual.kernels | chosen.kernels if usual.kernels.get(one) != chosen.kernels.get(one)}
        assert {one.partition(".")[0] for one in changed} == {
            "decode_attention", "prefill_attention", "mla_decode", "mla_prefill",
        }  # fmt: skip
        assert chosen.hash != usual.hash
    hopper = load_device("h200_sxm")
    assert with_kernels_of(hopper, "sglang", served) == with_kernels_of(hopper, "sglang")


def test_answers_know_every_choice_as_the_profile_that_ships():
    """An expected error is of the profile whose key the store's list holds."""
    device = load_device("b200_sxm")
    every = with_any_kernels_of(device, "sglang")
    for name in (CODER, FLASH, LARGE):
        assert with_kernels_of(device, "sglang", (model_of(name), Precision(linear="BF16"))) in every
    assert with_any_kernels_of(device, "trtllm") == (device,)


@pytest.mark.long
def test_the_command_yields_what_ships():
    again = fit_triton_kernels(shared_data("kernels_by_engine"), "b200_sxm")
    served = (model_of(FLASH), Precision(linear="BF16"))
    shipped = with_kernels_of(load_device("b200_sxm"), "sglang", served, "triton").calibration
    kernels = calibration_from_json(shipped).kernels
    assert again.seed == SEED
    for name, values in again.kernels.items():
        assert kernels[name] == pytest.approx(values, rel=1e-3), name
    assert shipped_calibration("b200_sxm") is not None
