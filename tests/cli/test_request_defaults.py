"""What `evaluate` takes where nothing is said: who serves, formats, plans; sizes of instances; client and launch."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from conftest_cli import sweepdb
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluator.inputs.devices.device_profiles import list_shipped, load_device
from evaluator.inputs.engines.engine_profiles import engine_profile
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Launch, Plan
from evaluator.request import planned_scenarios
from store.errors import InputError
from sweepdb.evaluating.requests import build_request
from sweepdb.evaluating.sweep_options import SweepOptions

DENSE, MOE, FP8 = "Qwen/Qwen3-32B", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-32B-FP8"
GPT_OSS = "openai/gpt-oss-120b"


def built(**said):
    return build_request(
        SweepOptions(
            **{"models": (DENSE,), "devices": ("TEST_DEVICE",), "input_length": "3500", "output_length": 1500.0, **said}
        ),
        None,
        None,
    )


def one(**said):
    (part,) = built(**said).parts
    return part


def test_a_real_device_is_served_by_an_engine_in_published_formats():
    part = one(models=(FP8,), devices=("h200_sxm",), num_devices=(8,))
    assert part.serving_model == "vllm"
    assert part.precisions == (Precision(linear="FP8_BLOCK", experts="FP8_BLOCK"),)
    assert (part.search.rule, part.search.engine) == ("launchable", "vllm")
    # The engine's own token budget goes with it.
    assert part.workloads[0].max_batched_tokens == part.engine.token_budget
    assert (part.client, part.launch, part.routing) == (None, Launch(), None)


@pytest.mark.parametrize("device", ["TEST_DEVICE", "ATLAS_800_A2_376T_64G", "ascend_910c"])
def test_a_device_without_an_engine_is_served_by_formulas(device):
    part = one(devices=(device,), num_devices=(8,))
    assert (part.serving_model, part.engine) == ("waves", None)
    assert part.precisions == (Precision(linear="BF16", experts="BF16"),)
    assert (part.search.rule, part.search.engine) == ("every", None)
    assert part.workloads[0].max_batched_tokens == 8192


def test_every_shipped_device_has_a_usual_serving_model_by_its_vendor():
    parts = built(devices=tuple(list_shipped())).parts
    served = {device.name: part.serving_model for part in parts for device in part.devices}
    vendors = {name: load_device(name).vendor.lower() for name in served}
    assert {vendors[name] for name, label in served.items() if label == "vllm"} == {"nvidia", "amd", "intel"}
    assert {vendors[name] for name, label in served.items() if label == "waves"} == {
        "huawei", "google", "aws", "test_vendor",
    }  # fmt: skip


def test_the_upstream_convention_keeps_its_own_defaults():
    part = one(models=(FP8,), devices=("h200_sxm",), num_devices=(8,), convention="upstream")
    assert (part.serving_model, part.engine, part.search.rule) == ("waves", None, "every")
    assert part.precisions == (Precision(linear="W8A8_DYNAMIC", experts="W8A8_DYNAMIC"),)
    assert built(models=(FP8,), devices=("h200_sxm",), convention="upstream").notes == ()


@pytest.mark.parametrize(
    ("said", "precision"),
    [
        ({}, Precision(linear="BF16", experts="MXFP4")),
        ({"linear": ("NATIVE",)}, Precision(linear="BF16", experts="MXFP4")),
        ({"linear": ("FP8",)}, Precision(linear="FP8", experts="FP8")),
        ({"linear": ("FP8",), "experts": "native"}, Precision(linear="FP8", experts="MXFP4")),
        ({"experts": "BF16"}, Precision(linear="BF16", experts="BF16")),
        ({"attention": "INT8"}, Precision(linear="BF16", experts="MXFP4", attention="INT8")),
        ({"convention": "upstream"}, Precision(linear="W8A8_DYNAMIC", experts="W8A8_DYNAMIC")),
        ({"convention": "upstream", "linear": ("NATIVE",)}, Precision(linear="BF16", experts="MXFP4")),
    ],
)
def test_formats_that_are_named_and_formats_that_are_published(said, precision):
    assert one(models=(GPT_OSS,), **said).precisions == (precision,)


def test_a_published_kv_cache_is_the_default(tmp_path):
    config = {
        "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "vocab_size": 1000,
        "num_attention_heads": 8, "num_key_value_heads": 8, "rms_norm_eps": 1e-6,
        "quantization_config": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    found = built(models=(str(tmp_path),))
    assert found.parts[0].precisions == (Precision(linear="FP8", experts="FP8", attention="FP8"),)
    assert found.notes == (
        "assumed: TEST_DEVICE served by formulas (waves), FP8 weights as published, FP8 KV cache, every legal plan",
    )
    assert one(models=(str(tmp_path),), attention="DISABLED").precisions[0].attention == "DISABLED"


def test_models_and_devices_of_several_defaults_are_parts_of_one_sweep():
    found = built(models=(DENSE, FP8), devices=("h200_sxm", "TEST_DEVICE", "b200_sxm"))
    assert [
        ([device.name for device in part.devices], part.serving_model, part.precisions[0].linear) for part in found.parts
    ] == [
        (["h200_sxm", "b200_sxm"], "vllm", "BF16"), (["h200_sxm", "b200_sxm"], "vllm", "FP8_BLOCK"),
        (["TEST_DEVICE"], "waves", "BF16"), (["TEST_DEVICE"], "waves", "FP8_BLOCK"),
    ]  # fmt: skip
    assert found.notes[0] == (
        "assumed: h200_sxm and b200_sxm served by vllm, BF16 weights as published, lengths 0.9 to 1 of these"
        " (`client_lengths`), plans that vllm launches as one server"
    )


def test_lists_are_products_and_nothing_is_asked_twice():
    found = built(
        devices=("h200_sxm",), serving_models=("vllm", "sglang"), linear=("NATIVE", "FP8", "BF16"), search="every"
    )
    assert [(part.serving_model, part.precisions[0].linear) for part in found.parts] == [
        ("vllm", "BF16"), ("vllm", "FP8"), ("sglang", "BF16"), ("sglang", "FP8"),
    ]  # fmt: skip
    # Of what was not stated, vLLM's usual client spreads lengths so far that means differ; SGLang's does not.
    assert found.notes == ("assumed: lengths 0.9 to 1 of these (`client_lengths`)",)


def test_pipeline_stages_are_served_by_the_usual_engine():
    found = built(devices=("h200_sxm",), num_devices=(8,), pp_sizes=(2,))
    assert [part.serving_model for part in found.parts] == ["vllm"]


def test_weights_that_exceed_a_node_are_staged_across_nodes_where_nobody_says_how_to_split():
    """405B in BF16 is 812 GB, and 8 H100 have 640; in FP8 they hold 406."""
    asked = {"models": ("meta-llama/Llama-3.1-405B",), "devices": ("h100_sxm",), "num_devices": (16,)}
    staged = built(**asked)
    assert staged.parts[0].search.pp_sizes == (1, 2)
    assert any("pipeline stages too" in line for line in staged.notes)
    for other in (
        {"linear": ("FP8",)},
        {"num_devices": (8,)},
        {"tp_sizes": (16,)},
        {"pp_sizes": (1,)},
        {"serving_models": ("waves",)},
        {"host_hit_rate": 0.5},
    ):
        assert built(**{**asked, **other}).parts[0].search.pp_sizes == other.get("pp_sizes"), other


def test_a_format_slower_than_sixteen_bits_is_warned_about():
    slow = built(devices=("gb300", "h200_sxm"), linear=("W8A8_DYNAMIC",)).notes
    warned = [note for note in slow if note.startswith("warning")]
    # 165e12 against 2,500e12; h200_sxm computes int8 at twice its 16 bits.
    assert warned == [
        "warning: gb300 computes int8 at 165 TFLOP/s, below its 2,500 in 16 bits: W8A8_DYNAMIC is slow there"
    ]
    for name in ("BF16", "FP8", "NVFP4", "W4A16"):
        assert not [note for note in built(devices=("gb300",), linear=(name,)).notes if note.startswith("warning")]


def test_sizes_that_the_engine_cannot_launch_are_said():
    found = built(models=(MOE,), devices=("h200_sxm",), num_devices=(8,), tp_sizes=(8,), ep_sizes=(2,))
    assert found.notes[-1] == "vllm can launch no plan of these sizes as one server: every legal one is taken"
    assert len(list(planned_scenarios(found.parts))) == 3 * 3


@pytest.mark.parametrize(
    ("serving_model", "rule", "engine"),
    [
        ("sglang", "launchable", "sglang"), ("trtllm_v0", "launchable", "trtllm"), ("eager", "every", None),
        ("waves", "every", None), ("seed002", "every", None),
    ],
)  # fmt: skip
def test_plans_are_those_of_the_engine_that_was_named(serving_model, rule, engine):
    search = one(models=(MOE,), devices=("h200_sxm",), serving_models=(serving_model,)).search
    assert (search.rule, search.engine) == (rule, engine)


def test_a_search_that_was_named():
    assert one(devices=("h200_sxm",), search="every").search.rule == "every"
    assert one(devices=("h200_sxm",), search="tp").search.engine is None
    with pytest.raises(InputError, match="`search=launchable` needs an engine, and waves is none"):
        one(search="launchable")
    with pytest.raises(InputError, match="`search` all is not one of launchable, every, tp"):
        one(search="all")


def sizes_of(part, phase="aggregated"):
    return part.instance_sizes(phase)


def test_instance_sizes_are_named_or_divide_a_total():
    assert sizes_of(one(num_devices=(4, 8, 16))) == (4, 8, 16)
    assert sizes_of(one(total_devices=16)) == (1, 2, 4, 8, 16)
    assert sizes_of(one(total_devices=12)) == (1, 2, 3, 4, 6, 12)
    assert sizes_of(one()) == (1,)
    apart = one(prefill_devices=(2, 4), decode_devices=(8,))
    assert (sizes_of(apart), sizes_of(apart, "prefill"), sizes_of(apart, "decode")) == ((), (2, 4), (8,))
    assert apart.phases == ("prefill", "decode")
    for said, reason in (
        ({"num_devices": (8,), "total_devices": 8}, "give `num_devices` or `total_devices`, not both"),
        ({"total_devices": 0}, "`total_devices` must be at least 1, not 0"),
        ({"num_devices": (0,)}, "at least 1 device, not 0"),
        ({"num_devices": (8, 4096)}, "grid holds"),
    ):
        with pytest.raises(InputError, match=reason):
            list(planned_scenarios(built(**said).parts))


@given(st.integers(1, 64))
@settings(deadline=None, max_examples=examples(20))
def test_a_total_is_split_evenly_by_every_plan_of_it(total):
    plans = {
        planned.scenario.plan for planned in planned_scenarios(built(total_devices=total, modes=("decode",)).parts)
    }
    assert all(total % plan.num_devices == 0 for plan in plans)
    # One device serves the model, so what larger instances add is split further than any replica of smaller ones.
    assert {(plan.tp, plan.dp) for plan in plans} == {
        (tp, 1) for tp in (1, 2, 4, 8, 16, 32, 64) if total % tp == 0
    }  # fmt: skip


def test_sizes_of_a_mixture_on_an_engine():
    part = one(models=(MOE,), devices=("h200_sxm",), num_devices=(4, 8, 16), modes=("decode",))
    plans = [planned.scenario.plan for planned in planned_scenarios(part)]
    assert len(plans) == 6 + 8 + 10
    assert Plan(dp=16, ep=8, moe_dp=2) not in plans


def test_client_and_launch_are_those_of_the_engine_unless_named():
    served = {"devices": ("h200_sxm",)}
    usual = engine_profile("vllm").client
    assert one(**served, client_lengths=0.8).client == replace(usual, shortest=0.8)
    assert one(**served, prompts_per_user=4, poll_steps=64).client == replace(usual, prompts_per_user=4, poll_steps=64)
    assert one(**served, seats=64, wait_steps=40, compile=False).launch == Launch(
        seats=64, wait_steps=40, compile=False
    )
    assert one(**served, routing="power_law_1.2").routing == "power_law_1.2"
    assert one(**served, routing="auto").routing is None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"client_lengths": 0.0}, "`client_lengths` must be a number from 0.01 to 1, not 0.0"),
        ({"client_lengths": 1.2}, "`client_lengths` must be a number from 0.01 to 1"),
        ({"prompts_per_user": 0}, "`prompts_per_user` must be a whole number from 1 to 1000"),
        ({"poll_steps": 0}, "`poll_steps` must be a whole number from 1 to 100000"),
        ({"seats": 0}, "`max_num_seqs` must lie between 1 and 1,000,000, not 0"),
        ({"wait_steps": -1}, "`wait_steps` must lie between 0 and 1,000,000, not -1"),
        ({"routing": "skewed"}, "`routing` skewed is unknown"),
        ({"serving_models": ("waves",), "seats": 8}, "`max_num_seqs`: waves simulates no client and no server"),
        ({"serving_models": ("waves",), "poll_steps": 8}, "`poll_steps`: waves simulates no client and no server"),
    ],
)
def test_what_no_client_or_server_can_be_is_refused_by_its_option(said, reason):
    with pytest.raises(InputError, match=reason):
        built(devices=("h200_sxm",), **said)


def test_the_command_and_a_sweep_file_say_the_same(tmp_path):
    said = f"evaluate {MOE} --device h200_sxm --input-length 100 --output-length 10 --batch-range 2 --mode decode"
    options = " --num-devices 4 8 --serving-model vllm,sglang --quantization NATIVE,FP8 --client-lengths 0.8"
    told = sweepdb(f"{said}{options} --max-num-seqs 64 --wait-steps 3 --routing balanced --dry-run").err
    file = tmp_path / "sweep.yaml"
    file.write_text(
        f"model: {MOE}\ndevice: h200_sxm\nmodes: decode\nbatch_range: 2\nnum_devices: [4, 8]\n"
        "serving_model: [vllm, sglang]\nlinear: [NATIVE, FP8]\nclient_lengths: 0.8\nseats: 64\nwait_steps: 3\n"
        "routing: balanced\nworkloads: [{input_length: 100, output_length: 10}]\n",
        encoding="utf-8",
    )
    # vLLM launches 6 and 8 plans of a mixture at 4 and 8 devices, SGLang 9 and 16; each in two formats, two batch sizes.
    assert "78 scenarios (0 illegal), 156 probes" in told
    assert sweepdb(["evaluate", "--sweep", str(file), "--dry-run"]).err == told
