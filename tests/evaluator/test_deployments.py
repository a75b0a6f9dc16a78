"""Measured points as deployments: names, formats, plans, repairs, launch flags, two sides, and rules for the rest."""

from __future__ import annotations

import json
import re
import urllib.request
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from measured_points import closed_loop
from shared_data import shared_data

from evaluator.inputs.devices.calibration_record import calibration_from_json
from evaluator.inputs.engines.engine_profiles import engine_profile
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Plan
from evaluator.ledger.deployments import TWICE, deployment_of, repaired
from evaluator.ledger.matching import Unmatched, measured_model, measured_precision
from evaluator.ledger.readers import read_measurements
from evaluator.ledger.readers.building import Circumstances, circumstances_of, kept
from evaluator.ledger.recipes import Flags, Served, flags_of, has_recipe
from evaluator.ledger.scenarios import scenario_of
from store.records import MeasurementRecord, SideRecord

RECIPE = "2026_04_06_deepseek_r1_b200_sxm_trtllm_fp8_agg_1024x1024_c64_tp8_ep8_945"


def record(**changes: object) -> MeasurementRecord:
    """A closed loop of eight users on one H100, with some fields changed; `said` are its circumstances."""
    extra = json.dumps(kept(changes.pop("said", Circumstances())))
    return closed_loop(**{"engine_version": "0.12.0", "extra": extra, **changes})


def rule_of(point: MeasurementRecord) -> str:
    with pytest.raises(Unmatched) as caught:
        deployment_of(point)
    return caught.value.rule


@pytest.mark.parametrize(
    ("stated", "catalogue"),
    [
        ("Qwen/Qwen3-32B", "Qwen/Qwen3-32B"),
        ("qwen3-32b", "Qwen/Qwen3-32B"),
        ("Llama-2 70B", "meta-llama/Llama-2-70b-hf"),
        ("Llama-3.1 70B", "meta-llama/Llama-3.1-70B"),
        ("Mixtral 8x7B", "mistralai/Mixtral-8x7B-v0.1"),
        ("BLOOM-176B", "bigscience/bloom"),
        ("Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B"),
        ("Qwen3-14B-FP8", "Qwen/Qwen3-14B"),
        ("Qwen3-235B-A22B-Instruct-2507-FP8", "Qwen/Qwen3-235B-A22B"),
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", "meta-llama/Llama-3.1-405B-Instruct-FP8"),  # its own weights
        ("nvidia/DeepSeek-R1-NVFP4", "deepseek-ai/DeepSeek-R1"),
        ("moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2.5"),
        ("Qwen2-7B", "Qwen/Qwen2.5-7B"),
        ("Qwen/Qwen3.5-397B-A17B", "Qwen/Qwen3.5-397B-A17B"),
        ("zhipuai/GLM-5", "zai-org/GLM-5"),
        ("deepseek-ai/DeepSeek-V3.2", "deepseek-ai/DeepSeek-V3.2"),
        # The catalogue has one of a publisher's checkpoints, whose names differ in the format of their weights alone.
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-FP8", "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16"),
        ("NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8"),
    ],
)
def test_models_by_their_published_names(stated, catalogue):
    assert measured_model(stated)[0] == catalogue


@pytest.mark.parametrize(
    ("stated", "rule"),
    [
        ("Llama-4-Maverick", "architecture not covered: chunked local attention"),
        ("somebody/some-model", "model not in the catalogue"),
        (None, "model not stated"),
    ],
)
def test_models_without_a_formula_are_named_and_nothing_is_fetched(stated, rule, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("the network was asked")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    assert rule_of(record(model=stated)) == rule


def test_a_run_without_a_version_is_of_its_days_engine():
    # vllm_v0.yaml: until 2024; vllm_sync.yaml: until 2025; nothing older is known of a run of 2026.
    for year, engine in ((2024, "vllm_v0"), (2025, "vllm_sync"), (2026, "vllm")):
        day = datetime(year, 11, 5, tzinfo=UTC)
        assert deployment_of(record(engine_version=None, measured_at=day)).engine == engine
    assert deployment_of(record(engine_version="0.19.0", measured_at=datetime(2024, 1, 1, tzinfo=UTC))).engine == "vllm"


@pytest.mark.parametrize(
    ("model", "stated", "modes", "linear", "experts"),
    [
        ("Qwen/Qwen3-32B", "bf16 (blank in file, inferred)", (None, None), "BF16", "BF16"),
        ("Qwen/Qwen3-32B", "fp8", ("fp8", "fp8"), "FP8", "FP8"),
        ("Qwen/Qwen3-32B", None, (None, None), "BF16", "BF16"),
        ("Qwen2.5-7B", "w4a16(awq)", (None, None), "W4A16", "W4A16"),
        # The published checkpoints scale blocks of 128 x 128, however coarsely a table names them.
        ("deepseek-ai/DeepSeek-R1", "fp8", ("fp8", "fp8_block"), "FP8_BLOCK", "FP8_BLOCK"),
        ("Qwen/Qwen3-235B-A22B-FP8", "fp8", ("fp8", "fp8"), "FP8_BLOCK", "FP8_BLOCK"),
        # Lists of NVFP4 checkpoints of mixtures of experts leave alone what is no routed expert.
        ("deepseek-ai/DeepSeek-R1", "fp4", ("nvfp4", "nvfp4"), "BF16", "NVFP4"),
        ("nvidia/GLM-5.1-NVFP4", "fp4", ("nvfp4", "nvfp4"), "BF16", "NVFP4"),
        # But dense MLPs and shared experts of this file are packed, and those of this one in MXFP8.
        ("nvidia/Kimi-K2.5-NVFP4", "fp4", ("nvfp4", "nvfp4"), "NVFP4", "NVFP4"),
        ("nvidia/MiniMax-M3-NVFP4", "nvfp4", (None, None), "MXFP8", "NVFP4"),
        ("Qwen/Qwen3-32B", "nvfp4", (None, None), "NVFP4", "NVFP4"),
        ("openai/gpt-oss-120b", "fp4", ("nvfp4", "nvfp4"), "BF16", "MXFP4"),
    ],
)
def test_formats_as_the_checkpoint_has_them(model, stated, modes, linear, experts):
    found = measured_precision(measured_model(model)[1], stated, None, linear=modes[0], experts=modes[1])
    assert (found.linear, found.experts, found.attention) == (linear, experts, "DISABLED")


@pytest.mark.parametrize(
    ("model", "linear", "experts"),
    [
        # `vllm bench serve` writes no format, and the server loaded what the name stands for.
        ("Qwen/Qwen3-32B", "BF16", "BF16"),
        ("Qwen/Qwen3-32B-FP8", "FP8_BLOCK", "FP8_BLOCK"),
        ("deepseek-ai/DeepSeek-R1", "FP8_BLOCK", "FP8_BLOCK"),
        ("openai/gpt-oss-120b", "BF16", "MXFP4"),
        # The catalogue has these in 16 bits, in eight, and in blocks of eight.
        ("Qwen/Qwen3-14B-FP8", "FP8", "FP8"),
        ("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16", "BF16", "BF16"),
        ("nvidia/DeepSeek-R1-NVFP4", "BF16", "NVFP4"),
    ],
)
def test_a_run_that_states_no_format_is_of_the_checkpoint_it_names(model, linear, experts):
    point = record(model=model, precision=None, device="h200_sxm", num_devices=8, decode=SideRecord(tp=8))
    found = deployment_of(point).precision
    assert (found.linear, found.experts, found.attention) == (linear, experts, "DISABLED")
    assert deployment_of(replace(point, kv_precision="fp8")).precision == replace(found, attention="FP8")


def test_classes_of_a_measured_file_are_those_that_it_says():
    found = measured_precision(measured_model("nvidia/Kimi-K2.5-NVFP4")[1], "nvfp4", "fp8")
    assert found == Precision(linear="NVFP4", experts="NVFP4", mixers="BF16", attention="FP8")
    dense = measured_precision(measured_model("nvidia/Gemma-4-31B-IT-NVFP4")[1], "nvfp4", None)
    assert (dense.linear, dense.mixers) == ("NVFP4", "BF16")
    assert measured_precision(measured_model("nvidia/GLM-5.1-NVFP4")[1], "fp4", None).drafts == "BF16"


def test_keys_in_eight_bits_and_formats_nobody_knows():
    model = measured_model("Qwen/Qwen3-32B")[1]
    assert measured_precision(model, "fp8", "fp8").attention == "FP8"
    # The publisher's own checkpoint of the same name in eight bits is scaled in blocks; Llama's is not in the catalogue.
    for name, linear in (("Qwen/Qwen3-32B", "FP8_BLOCK"), ("meta-llama/Llama-3.1-8B-Instruct", "FP8"), ("", "FP8")):
        assert measured_precision(model, "fp8", None, name=name).linear == linear
        assert measured_precision(model, "bf16", None, name=name).linear == "BF16"
    with pytest.raises(Unmatched, match="int3") as caught:
        measured_precision(model, "int3", None)
    assert caught.value.rule == "precision not covered"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        # 64 = 8 x 8 attention ranks for what the id calls tp8_ep8, and so on: the root of each.
        (SideRecord(tp=64, dp=1, ep=8, moe_tp=8), SideRecord(tp=8, dp=1, ep=8, moe_tp=1)),
        (SideRecord(tp=16, dp=1, ep=4, moe_tp=4), SideRecord(tp=4, dp=1, ep=4, moe_tp=1)),
        (SideRecord(tp=1, dp=64, ep=8, moe_tp=8), SideRecord(tp=1, dp=8, ep=8, moe_tp=1)),
        (SideRecord(tp=4, dp=4, ep=16, moe_tp=1), SideRecord(tp=4, dp=1, ep=4, moe_tp=1)),
        (SideRecord(tp=1, dp=4, ep=2, moe_tp=2), SideRecord(tp=1, dp=2, ep=2, moe_tp=1)),
    ],
)
def test_sizes_recorded_twice_are_their_root(written, meant):
    assert repaired(written) == (meant, (TWICE,))


@pytest.mark.parametrize(
    "right",
    [
        SideRecord(tp=8, dp=1, ep=8, moe_tp=1),
        SideRecord(tp=8, dp=1, ep=2, moe_tp=4),
        SideRecord(tp=16, dp=1, ep=16, moe_tp=1),
        SideRecord(tp=16, dp=1, ep=8, moe_tp=2),
        SideRecord(tp=1, dp=1, ep=1, moe_tp=1),
        SideRecord(tp=32, dp=1, ep=8, moe_tp=4),
    ],
)
def test_sizes_that_make_sense_are_left_alone(right):
    assert repaired(right) == (right, ())


def test_rows_with_sizes_recorded_twice():
    records = read_measurements(shared_data("e2e", "serving.csv")).records
    known = [one for one in records if one.mode == "aggregated" and has_recipe(circumstances_of(one).point_id)]
    twice = [one for one in known if repaired(one.decode)[1]]
    assert len(twice) == 251
    stated = [re.search(r"_tp(\d)(?:_0)?_ep(\d)", json.loads(one.extra)["id"]) for one in twice]
    right = [repaired(one.decode)[0] for one in twice]
    named = [(found, side) for found, side in zip(stated, right, strict=True) if found]
    assert len(named) == 137  # the other ids do not name their sizes
    assert all((side.tp * side.dp, side.ep) == (int(found[1]), int(found[2])) for found, side in named)


@pytest.mark.parametrize(
    ("configuration", "plan"),
    [
        # Both are recorded as tp 2 with two replicas and experts on four: pull request 1107 lets one replicate attention.
        ("fp4_agg_1024x1024_c2048_cfg727", Plan(tp=1, dp=2, ep=2)),
        ("fp4_agg_1024x1024_c256_cfg726", Plan(tp=2, dp=1, ep=2)),
        # Its script for eight bits does not read the flag.
        ("fp8_agg_1024x1024_c1024_cfg827", Plan(tp=2, dp=1, ep=2)),
    ],
)
def test_a_configuration_that_replicates_attention_is_known_by_its_number(configuration, plan):
    found = deployment_of(
        record(
            model="MiniMaxAI/MiniMax-M2.5",
            device="B300",
            precision=configuration[:3],
            decode=SideRecord(tp=2, dp=2, ep=4, moe_tp=1),
            said=Circumstances(point_id=f"minimaxm2_5_b300_vllm_{configuration}"),
        )
    )
    assert found.plan == plan


def test_only_the_source_that_wrote_sizes_twice_is_repaired():
    side = SideRecord(tp=4, dp=4, ep=16, moe_tp=1)
    mine = record(model="MiniMaxAI/MiniMax-M2.5", decode=side)
    assert deployment_of(mine).plan == Plan(tp=4, dp=4, ep=16)
    theirs = deployment_of(
        record(
            model="MiniMaxAI/MiniMax-M2.5",
            decode=side,
            said=Circumstances(point_id="2026_04_06_minimax_m2_5_h100_sxm_vllm_fp8_agg_8192x1024"),
        )
    )
    assert theirs.plan == Plan(tp=4, dp=1, ep=4)
    assert theirs.repairs == (TWICE,)


def test_data_parallel_attention_follows_from_how_experts_are_split():
    # Eight ranks of experts behind attention that is split in two: four replicas.
    found = deployment_of(record(model="Qwen/Qwen3-30B-A3B", decode=SideRecord(tp=2, ep=8)))
    assert found.plan == Plan(tp=2, dp=4, ep=8)
    assert found.users_of_replica == 2


def test_an_illegal_plan_says_so():
    assert rule_of(record(decode=SideRecord(tp=48))) == "plan not legal"


def test_two_sides_with_known_instances():
    sides = {"prefill": SideRecord(instances=3, tp=4), "decode": SideRecord(instances=2, tp=2)}
    found = deployment_of(record(mode="disaggregated", concurrency=64.0, **sides))
    assert (found.prefill_instances, found.prefill_plan, found.instances, found.plan) == (3, Plan(tp=4), 2, Plan(tp=2))
    assert found.num_devices == 3 * 4 + 2 * 2
    assert found.users_of_replica == 32  # 64 users on two decode instances


@pytest.mark.parametrize(("answer", "users", "seats"), [(1024, 84, 16), (8192, 36, 8)])
def test_seats_are_known_of_instances_that_decode_alone(answer, users, seats):
    server = {"device": "gb300", "engine": "Dynamo-TRTLLM", "precision": "fp8", "model": "deepseek-ai/DeepSeek-R1"}
    said = Circumstances(point_id=f"dsr1_gb300_trtllm_fp8_disagg_1024x{answer}_c{users}_cfg392")
    lengths = {"input_length": 1024.0, "output_length": answer, "concurrency": users, "said": said}
    sides = {"prefill": SideRecord(instances=1, tp=1, dp=4, ep=4), "decode": SideRecord(instances=4, tp=8, ep=8)}
    assert deployment_of(record(mode="disaggregated", **server, **lengths, **sides)).decode_seats == seats
    assert deployment_of(record(**server, **lengths, decode=SideRecord(tp=8, ep=8))).decode_seats is None


@pytest.mark.parametrize(
    "sides",
    [
        {"prefill": SideRecord(tp=4), "decode": SideRecord(instances=2, tp=2)},
        {"prefill": SideRecord(instances=3, tp=4), "decode": SideRecord(tp=2)},
        {"prefill": SideRecord(instances=3), "decode": SideRecord(instances=2, tp=2)},
    ],
)
def test_two_sides_without_their_numbers(sides):
    rule = "disaggregated: number or plan of the instances not stated"
    assert rule_of(record(mode="disaggregated", **sides)) == rule


def test_a_batch_limit_is_no_concurrency():
    side = SideRecord(tp=2, batch_size=24.0)
    assert rule_of(record(concurrency=None, decode=side)) == "concurrency not stated"
    # A step measured alone is one of its batch: 24 sequences on each of two replicas.
    alone = record(model="Qwen/Qwen3-30B-A3B", mode="decode", concurrency=None, decode=replace(side, dp=2, ep=4))
    assert deployment_of(alone).users == 48


def test_everything_asked_for_at_once_is_as_many_as_fit():
    table = Circumstances(saturated=True, narrow_keys=True)
    found = deployment_of(record(concurrency=None, engine_version=None, said=table))
    assert found.precision.attention == "FP8"  # its published checkpoints keep eight-bit keys and values
    # 80 GiB less some 34 GB of weights, 131,072 B a token (64 layers x 2 x 8 heads x 128 x 1 B), 1,536 tokens each.
    assert 200 < found.users < 240
    # Each of two stages: 17 GB of weights, half of each token's bytes, and the requests of both micro-batches.
    pipeline = record(concurrency=None, engine_version=None, decode=SideRecord(tp=1, pp=2), said=table)
    assert 580 < deployment_of(pipeline).users < 640


def test_a_backlog_timed_to_its_last_answer_is_no_full_server():
    found = record(concurrency=500.0, said=Circumstances(all_at_once=True))
    assert rule_of(found) == "a backlog timed to its last answer: probes are of a server that stays full"


def test_attention_data_parallelism_that_a_source_states():
    said = Circumstances(attention_replicas=True)
    found = deployment_of(record(model="Qwen3-235B-A22B", decode=SideRecord(tp=8), said=said))
    assert found.plan == Plan(tp=1, dp=8, ep=8)


def test_lengths():
    assert rule_of(record(input_length=None)) == "lengths not stated"
    assert rule_of(record(output_length=None)) == "lengths not stated"
    assert deployment_of(record(mode="prefill", output_length=None)).output_length == 1
    assert deployment_of(record(output_length=None, metrics={"kv_transfer_ms_mean": 3.0})).output_length == 1


def test_devices_by_capacity():
    names = {
        stated: deployment_of(record(device=stated, metrics={"ttft_ms_mean": 900.0})).device.name
        for stated in ("A100-40GB", "A100-SXM4-80GB")
    }
    assert names == {"A100-40GB": "a100_sxm_40gb", "A100-SXM4-80GB": "a100_sxm"}
    assert (
        deployment_of(
            record(device="H20-3e-141GB", metrics={"ttft_ms_mean": 900.0})
        ).device.memory_bandwidth_bytes_per_s
        == 4.8e12
    )
    assert rule_of(record(device="RTX4090-24GB")) == "device not covered"
    assert rule_of(record(device=None)) == "device not stated"


def test_what_moves_keys_and_values():
    said = Circumstances(ttft_holds_transfer=True, line_rate_bytes_per_s=200e9)
    found = deployment_of(record(mode="prefill", said=said))
    assert found.transferred
    assert found.transfer_bytes_per_s == 200e9
    assert not deployment_of(record()).transferred


def test_a_point_with_a_recipe_has_its_client_and_flags():
    server = {"device": "b200_sxm", "engine": "trtllm", "engine_version": "1.2.0rc2"}
    said = Circumstances(point_id="2026_04_06_gpt_oss_120b_b200_sxm_trtllm_fp4_agg_c4_tp1_ep1_303")
    found = deployment_of(record(model="openai/gpt-oss-120b", precision="fp4", said=said, **server))
    assert (found.client, found.token_budget, found.precision.attention) == (Client(shortest=0.8), 20000, "FP8")
    assert deployment_of(record()).client is None


def served(**changes: object) -> Served:
    base = Served(
        point_id=RECIPE,
        engine="trtllm",
        model="deepseek-ai/DeepSeek-R1",
        device="b200_sxm",
        precision="fp8",
        users=64.0,
        input_length=1024.0,
        output_length=1024.0,
        tp=8,
    )
    return replace(base, **changes)


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        # 64 + 1024 + 127 = 1215 tokens are fewer than the least budget.
        ({}, Flags(client=Client(shortest=0.8), token_budget=8192, narrow_keys=True, wait_steps=40)),
        # 4 + 8192 + 127 = 8323, in whole 64s 8320.
        (
            {"users": 4.0, "input_length": 8192.0},
            Flags(client=Client(shortest=0.8), token_budget=8320, narrow_keys=True),
        ),
        ({"users": 8.0}, Flags(client=Client(shortest=0.8), token_budget=8192, narrow_keys=True)),
        (
            {"engine": "sglang", "users": 8.0},
            Flags(client=Client(shortest=0.8, poll_steps=10), token_budget=32768, narrow_keys=True),
        ),
        ({"engine": "sglang"}, Flags(client=Client(shortest=0.8, poll_steps=30), token_budget=32768, narrow_keys=True)),
        (
            {"engine": "sglang", "tp": 4},
            Flags(client=Client(shortest=0.8, poll_steps=10), token_budget=8192, narrow_keys=True),
        ),
        (
            {"engine": "sglang", "tp": 4, "precision": "fp4"},
            Flags(client=Client(shortest=0.8, poll_steps=30), token_budget=16384, narrow_keys=True),
        ),
        (
            {"engine": "vllm", "model": "openai/gpt-oss-120b", "device": "h100_sxm"},
            Flags(client=Client(shortest=0.8), token_budget=8192, other_kernels=True),
        ),
        (
            {"engine": "vllm", "model": "MiniMaxAI/MiniMax-M2.5", "device": "b300_sxm", "input_length": 8192.0},
            Flags(client=Client(shortest=0.8), token_budget=16384, narrow_keys=True),
        ),
        (
            {"model": "meta-llama/Llama-3.1-70B", "tp": 4},
            Flags(client=Client(shortest=0.8), token_budget=2068, narrow_keys=True, wait_steps=20),
        ),
        (
            {"model": "meta-llama/Llama-3.1-70B"},
            Flags(client=Client(shortest=0.8), token_budget=2068, narrow_keys=True),
        ),
        ({"engine": "sglang", "model": "Qwen/Qwen3-32B", "users": 4.0}, Flags(client=Client(shortest=0.8))),
        (  # Only recipes of DeepSeek look for requests now and then.
            {"engine": "sglang", "model": "zai-org/GLM-5"},
            Flags(client=Client(shortest=0.8), token_budget=32768, narrow_keys=True),
        ),
        (
            {"engine": "sglang", "model": "Qwen/Qwen3.5-397B-A17B", "device": "h200_sxm"},
            Flags(client=Client(shortest=0.8), token_budget=16384, narrow_keys=True),
        ),
        (  # Seats are those of a recipe's users: 84 ask four instances of 16.
            {"device": "gb300", "users": 84.0},
            Flags(client=Client(shortest=0.8), token_budget=8192, narrow_keys=True, wait_steps=40, decode_seats=16),
        ),
        (
            {"device": "gb300", "users": 85.0},
            Flags(client=Client(shortest=0.8), token_budget=8192, narrow_keys=True, wait_steps=40),
        ),
        ({"point_id": "my own"}, Flags()),
    ],
)
def test_flags_of_public_recipes(changes, flags):
    assert flags_of(served(**changes)) == flags


OWN = "meta_llama_llama_3_1_8b_instruct_" * 2 + "h100_sxm_trtllm_agg_1024x128_c8_tp1_epnone_1"


@pytest.mark.parametrize(
    ("changes", "flags"),
    [
        # Users of equal lengths stay in step under TensorRT-LLM alone; other engines drift as they usually do.
        # A step of theirs held one prompt (recipes.yaml), where vLLM's rule leaves room for two of 1,024.
        ({"users": 8.0}, Flags(client=Client(shortest=1.0), token_budget=1024 + 8)),
        ({"users": 128.0, "input_length": 4096.0}, Flags(client=Client(shortest=1.0), token_budget=4096 + 128)),
        ({"users": 8.0, "engine": "vllm_sync"}, Flags(token_budget=1024 + 8 + 1500)),
        ({"users": 8.0, "engine": "sglang_locked"}, Flags()),  # its rule states no budget of a step
        ({"users": 8.0, "point_id": OWN.removeprefix("meta_llama_llama_3_1_8b_instruct_")}, Flags()),
    ],
)
def test_a_generated_launch_states_its_token_budget_and_equal_lengths(changes, flags):
    point = served(**{"point_id": OWN, "model": "meta-llama/Llama-3.1-8B-Instruct", "engine": "trtllm"} | changes)
    assert flags_of(point) == flags


@pytest.mark.parametrize(
    ("model", "flags"),
    [
        ("zai-org/GLM-4.7-Flash", Flags(attention="triton")),
        ("Qwen/Qwen3-Coder-Next", Flags(host_ms=0.68)),  # (0.74 + 0.61) / 2
        ("deepseek-ai/DeepSeek-R1-0528", Flags()),  # its page states the model and its devices alone
    ],
)
def test_a_page_states_its_command(model, flags):
    point = served(point_id=f"sglcook-{model.partition('/')[2]}-b200_sxm-1-1-1-610-422-1", model=model, engine="sglang")
    assert flags_of(point) == flags


def test_a_blog_says_what_its_experts_reach():
    said = Circumstances(point_id="vllmblog-b60-gpt-oss-20b-1024-75")
    point = record(model="openai/gpt-oss-20b", device="b60", engine_version="0.10.2-xpu", precision="mxfp4", said=said)
    found = deployment_of(point)
    assert (found.token_budget, found.expert_efficiency) == (8192, 0.8)  # "over 80% efficiency of hardware capacity"
    asked, known = (
        calibration_from_json(scenario_of(found, knowledge).device.calibration).kernels
        for knowledge in ("asked", "known")
    )
    changed = {name for name in asked if asked[name] != known[name]}
    assert changed == {name for name in asked if name.startswith("moe.")}
    assert {known[name]["memory_efficiency"] for name in changed} == {0.8}
    assert {known[name]["compute_efficiency"] for name in changed} == {0.8}


def test_what_a_page_states_is_known_and_not_asked():
    said = Circumstances(point_id="sglcook-Qwen3-Coder-Next-b200_sxm-2-1-1-610-422-1")
    point = record(model="Qwen/Qwen3-Coder-Next", device="b200_sxm", engine="sglang", engine_version=None, said=said)
    asked, known = (scenario_of(deployment_of(point), knowledge) for knowledge in ("asked", "known"))
    usual = engine_profile("sglang")
    assert asked.engine is None
    assert known.engine == replace(usual, step_ms=usual.step_ms + 0.68, ahead_steps=0)


def test_replicas_behind_one_address_share_the_users():
    two = deployment_of(record(decode=SideRecord(tp=1, instances=2), num_devices=2))
    assert (two.users, two.users_of_replica, two.num_devices) == (8, 4, 2)  # four of eight users ask each
    assert deployment_of(record()).users_of_replica == 8


def test_a_server_that_may_be_two_sides_is_not_predicted():
    """A router that only counts its workers."""
    assert rule_of(record(mode=None)) == "not known whether it is disaggregated"


@pytest.mark.parametrize(("kv", "linear", "mixers"), [(None, None, "BF16"), ("fp8", None, None), (None, "fp8", None)])
def test_fp8_of_a_model_is_its_publishers_own_checkpoint(kv, linear, mixers):
    """Meta quantises the MLPs of Llama-3.1-405B alone; checkpoints with eight-bit keys or every linear are other makers'."""
    name, model = measured_model("meta-llama/Llama-3.1-405B-Instruct")
    found = measured_precision(model, "fp8", kv, name=name, linear=linear)
    assert (found.linear, found.mixers) == ("FP8", mixers)
