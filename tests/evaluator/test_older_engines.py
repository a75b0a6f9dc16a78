"""Engines of 2023 and 2024: which rows are theirs, launches that kernels hide behind, and fits that leave pairs out."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from shared_data import shared_data

from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.engines.engine_profiles import engine_profile, fitted_engine, unfitted_engine, with_numbers
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import load_model
from evaluator.inputs.workloads.workload import Workload
from evaluator.ledger.deployments import Deployment, central_metrics, deployment_of, engine_of
from evaluator.ledger.fitting.fit_points import FitPoint, PlayedProbe, fit_points
from evaluator.ledger.readers import read_measurements
from evaluator.scenario import Scenario
from evaluator.serving.engine.closed_loop import ClosedLoop
from evaluator.serving.engine.closed_run import ServedTimes
from evaluator.serving.engine.step_tables import StepTable, launched
from tools.engines import EnginePoint, fit_with_pairs_held_out

TABLE = StepTable(
    spacing=100,
    linear=np.asarray([0.0, 0.010, 0.020]),
    input_length=100,
    attention=np.asarray([0.0, 0.001]),
    decode_linear=np.asarray([0.004, 0.004, 0.009]),
    decode_own=np.asarray([0.001, 0.001, 0.003]),
)


@pytest.mark.parametrize(
    ("name", "version", "year", "known"),
    [
        ("vLLM 0.6.3", None, None, "vllm_v0"),
        ("vLLM", "0.7.3", None, "vllm_v0"),
        ("vLLM", "0.8.0", None, "vllm_sync"),
        ("vLLM 0.11.2.dev358 + MooncakeConnector", None, None, "vllm_sync"),
        ("vLLM", "0.13.0", None, "vllm_sync"),
        ("vLLM", None, 2025, "vllm_sync"),
        ("vLLM", "0.14.0", 2025, "vllm"),
        ("vLLM 0.19.0", None, None, "vllm"),
        ("vLLM (2024-10 main)", None, None, "vllm_v0"),
        ("vLLM", None, 2024, "vllm_v0"),
        ("vLLM", None, None, "vllm"),
        ("vLLM 0.12.0", None, 2024, "vllm_sync"),  # what a row says of itself counts more than its source
        ("vllm-ascend", "1.0.1", None, "vllm"),
        ("TensorRT-LLM v0.5", None, 2023, "trtllm_v0"),
        ("TensorRT-LLM", None, 2024, "trtllm_v0"),
        ("NIM 1.8.0 (TensorRT-LLM)", None, None, "trtllm"),
        ("SGLang main", None, None, "sglang"),
        ("sglang", "0.5.6", None, "sglang"),
        ("sglang", "0.5.10.post1", None, "sglang"),
        ("sglang", "0.5.1.post1", None, "sglang_locked"),
        ("SGLang 0.4.6.post1", None, None, "sglang_locked"),
        ("SGLang", None, 2024, "sglang_locked"),
        ("a stack of ours", None, 2023, "eager"),
        ("a stack of ours", None, None, None),
        (None, None, None, None),
    ],
)
def test_engines_by_name_version_and_year(name, version, year, known):
    assert engine_of(name, version, year) == known


def test_a_step_takes_the_longer_of_kernels_and_launches():
    table = launched(TABLE, with_numbers(unfitted_engine("eager"), {"layer_ms": 0.5}), 16)  # 16 x 0.5 ms
    assert table.decode_linear + table.decode_own == pytest.approx([0.008, 0.008, 0.012])
    assert table.linear == pytest.approx([0.008, 0.010, 0.020])
    assert launched(TABLE, with_numbers(unfitted_engine("eager"), {"layer_ms": 0.0}), 16) is TABLE


def test_layers_with_latent_attention_hold_up_steps_with_prompts_alone():
    engine = with_numbers(unfitted_engine("vllm"), {"latent_layer_ms": 2.0})
    table = launched(TABLE, engine, 61, latent_layers=6)
    assert table.linear == pytest.approx([0.012, 0.012, 0.020])
    assert table.decode_linear is TABLE.decode_linear
    assert launched(TABLE, engine, 61) is TABLE


def test_a_layer_with_a_state_holds_up_steps_with_prompts_longer_than_others():
    engine = with_numbers(unfitted_engine("vllm"), {"prompt_layer_ms": 0.5, "state_layer_ms": 2.0})
    table = launched(TABLE, engine, 12, state_layers=4)
    assert table.linear == pytest.approx([0.012, 0.012, 0.020])  # 8 x 0.5 + 4 x 2 ms
    assert table.decode_linear is TABLE.decode_linear
    # Qwen3.5-397B has 60 layers, three of four with a state; DeepSeek-R1 61 without one.
    assert [state_layers(name) for name in ("Qwen/Qwen3.5-397B-A17B", "deepseek-ai/DeepSeek-R1")] == [45, 0]


def state_layers(name: str) -> int:
    served = Scenario(
        model=load_model(name)[1], device=load_device("h200_sxm"), precision=Precision(), plan=Plan(),
        workload=Workload(input_length=1, output_length=1.0), phase="decode",
    )  # fmt: skip
    return served.state_layers


def deployment(tp: int, users: int = 1, mode: str = "decode") -> Deployment:
    name, model = load_model("meta-llama/Llama-2-70b-hf")
    return Deployment(
        model_name=name, model=model, device=load_device("a100_sxm"), precision=Precision(), plan=Plan(tp=tp),
        engine="eager", mode=mode, input_length=512, output_length=128, users=users,
    )  # fmt: skip


def test_decodes_of_an_eager_stack_do_not_get_faster_than_its_launches():
    engine = with_numbers(unfitted_engine("eager"), {"layer_ms": 0.5})
    steps = {}
    for tp in (2, 8):
        (point,) = fit_points([(deployment(tp), {"decode_step_ms": 1.0})], engine)
        kernels = point.replica.kernels
        kernels_ms = 1000 * float(kernels.decode_linear[1] + kernels.decode_own[1])
        steps[tp] = kernels_ms, math.exp(point.log_errors(engine)[0])
    # 80 layers of 0.5 ms; two devices need longer than that for 70 GB of weights each, eight do not.
    assert steps[2][0] > 40 == pytest.approx(steps[8][1])
    assert steps[2][1] == pytest.approx(steps[2][0])


def test_each_metric_is_compared_once_by_its_mean_where_there_is_one():
    assert central_metrics({"ttft_ms_p50": 1.0, "ttft_ms_mean": 2.0, "ttft_ms_p99": 3.0, "ttft_ms_std": 4.0}) == {
        "ttft_ms": 2.0
    }
    assert central_metrics({"tpot_exclusive_ms_p50": 5.0}) == {"tpot_exclusive_ms": 5.0}
    assert central_metrics({"output_tokens_per_s": 7.0, "e2e_ms_p99": 8.0}) == {"output_tokens_per_s": 7.0}


def measured_points(model: str, truth, *, wrong_by: float = 1.0) -> list[EnginePoint]:
    """Decode steps as an engine with `truth` would show them, of a made-up model."""
    points = []
    for users in range(1, 200, 6):
        one = replace(deployment(8, users), model_name=model)
        linear = 0.004 + 1e-6 * np.arange(200)
        kernels = replace(TABLE, decode_linear=linear, decode_own=2e-5 * np.arange(200))
        loop = ClosedLoop(users=1, output_length=128)
        replica = ServedTimes(kernels=kernels, layers=80, latent_layers=0, engine=truth, loop=loop)
        exact = PlayedProbe(replica=replica, phase="decode").value("tpot_exclusive_ms", users)
        measured = {"decode_step_ms": wrong_by * exact}
        point = FitPoint(deployment=one, replica=replica, phase="decode", batch_size=users, measured=measured)
        points.append(EnginePoint(pair=("a100_sxm", model), point=point))
    return points


def test_a_fit_predicts_what_it_was_made_with():
    truth = with_numbers(unfitted_engine("vllm_v0"), {"step_ms": 6.0, "step_per_decode_ms": 0.08})
    points = measured_points("a", truth)
    fitted = fit_with_pairs_held_out(points, fitted_engine("vllm_v0"), "made up").profile
    before = max(abs(one.point.log_errors(unfitted_engine("vllm_v0"))[0]) for one in points)
    after = max(abs(one.point.log_errors(fitted)[0]) for one in points)
    assert before > 0.4
    assert after < 0.06  # the prior still holds on to a little of where the fit started


def test_what_is_held_out_has_no_say():
    truth = with_numbers(unfitted_engine("vllm_v0"), {"step_ms": 3.1, "step_per_decode_ms": 0.08})
    others = measured_points("b", truth)
    right = fit_with_pairs_held_out(measured_points("a", truth) + others, fitted_engine("vllm_v0"), "")
    poisoned = fit_with_pairs_held_out(measured_points("a", truth, wrong_by=5.0) + others, fitted_engine("vllm_v0"), "")
    pair = ("a100_sxm", "a")
    assert poisoned.held_out[pair] == right.held_out[pair]
    assert poisoned.profile != right.profile
    assert poisoned.held_out["a100_sxm", "b"] != right.held_out["a100_sxm", "b"]


def test_published_rows_are_matched_to_the_engine_of_their_time():
    records = read_measurements(shared_data("e2e/published.csv")).records
    found: dict[str, set[str | None]] = {}
    for record in records:
        source = json.loads(record.extra)["source"].split("@")[0]
        if source in {"argonne-lcf/LLM-Inference-Bench", "Mutinifni/splitwise-sim"} and "Mix" not in record.model:
            found.setdefault(source, set()).add(deployment_of(record).engine)
    assert found == {
        "argonne-lcf/LLM-Inference-Bench": {"vllm_v0", "trtllm_v0"},
        "Mutinifni/splitwise-sim": {"eager"},
    }
    assert engine_profile("eager", unseen=("h100_sxm", "bigscience/bloom")) != engine_profile("eager")
