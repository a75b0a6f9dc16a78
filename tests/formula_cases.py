"""Scenarios whose numbers are kept, so that none of them changes unnoticed: a table of cases and how each is evaluated.

Two tables: shapes of models, plans and workloads under `waves`, and one that spans cost family x serving model x kind
of lengths. Devices, coefficients and engines are made up here, since a new fit is no new formula."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from evaluator_cases import (
    DEEPSEEK_V3,
    GPT_OSS_20B,
    MIXTRAL_8X7B,
    OPT_125M,
    QWEN3_30B_A3B,
    QWEN3_32B,
    TEST_DEVICE,
    W8A8,
    both_traces,
)
from measured_points import closed_loop

from evaluator.evaluate import batch_source, evaluate_scenario
from evaluator.inputs.devices.calibration_record import Calibration, calibration_to_json
from evaluator.inputs.engines.engine_profiles import EngineProfile, list_engines, unfitted_engine, with_numbers
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Launch, Plan
from evaluator.inputs.workloads.workload import LengthBin, Workload
from evaluator.ledger.deployments import deployment_of
from evaluator.ledger.fitting.user_points import fit_own, served_points
from evaluator.ledger.readers.building import Circumstances, kept
from evaluator.scenario import Scenario
from evaluator.serving.models import list_serving_models
from evaluator.serving.pairs import DecodeSide, PairLoad, PrefillSide, pair_of_users
from store.errors import InputError
from store.records import MeasurementRecord, SideRecord

Columns = dict[str, list[float | None]]

# --- shapes of models, plans and workloads, under waves and a theoretical device ---

MODELS = {
    "dense": (QWEN3_32B, Plan(tp=8)),
    "pipeline": (QWEN3_32B, Plan(tp=2, pp=4)),
    "experts": (QWEN3_30B_A3B, Plan(dp=8, ep=8)),
    "expert tensor": (MIXTRAL_8X7B, Plan(tp=2, dp=4, ep=4, moe_tp=2)),
    "latent": (DEEPSEEK_V3, Plan(tp=8, dp=2, ep=16)),
    "windows": (GPT_OSS_20B, Plan(tp=2, ep=2)),
    "plain": (OPT_125M, Plan()),
}
WORKLOADS = {
    "3500/1500": Workload(input_length=3500, output_length=1500.0, max_batched_tokens=14000),
    "20000/300": Workload(input_length=20000, output_length=300.0, prefix_cache_hit_rate=0.25),
    "900/60 drafts": Workload(input_length=900, output_length=60.0, mtp_tokens=2, mtp_acceptance=(0.9, 0.6, 0.4, 0.2)),
}
PHASES = ("prefill", "decode", "aggregated")
SIZES = (1, 3, 50)


def shapes() -> Iterator[tuple[str, Columns]]:
    for (name, (model, plan)), (label, workload) in itertools.product(MODELS.items(), WORKLOADS.items()):
        if workload.mtp_tokens and not model.mtp_layers:
            continue
        for phase, convention in itertools.product(PHASES, ("physical", "upstream")):
            for compiled in (True,) if convention == "physical" else (True, False):
                scenario = Scenario(
                    model=model,
                    device=TEST_DEVICE,
                    precision=Precision(linear="W8A8_DYNAMIC"),
                    plan=plan,
                    workload=workload,
                    phase=phase,
                    convention=convention,
                    serving_cost_ms=1.5,
                    launch=Launch(compile=compiled),
                )
                graph = "compiled" if compiled else "eager"
                yield f"{name}, {label}, {phase}, {convention}, {graph}", evaluated(scenario, SIZES)


# --- cost family x serving model x kind of lengths ---

_COEFFICIENTS = {
    "matmul": {
        "fixed_us": 3.0, "compute_efficiency": 0.8, "memory_efficiency": 0.8, "overlap": 3.0, "least_rows": 64.0,
        "tile_traffic": 0.1, "prologue": 50.0, "element_ns": 0.01, "split_us": 1.0, "split_bandwidth": 1.0,
        "quantise_efficiency": 0.3,
    },
    "prefill": {
        "fixed_us": 15.0, "compute_efficiency": 0.6, "memory_efficiency": 0.7, "overlap": 2.0, "block_us": 0.1,
        "depth_us": 1.0, "block": 128.0, "tail_waves": 0.5,
    },
    "decode": {
        "fixed_us": 8.0, "memory_efficiency": 0.9, "ramp_us": 13.0, "ramp_mb": 20.0, "depth_us": 0.5, "wave_us": 5.0,
        "key_us": 0.0001, "compute_efficiency": 0.5, "overlap": 4.0, "page_keys": 64.0,
    },
    "experts": {
        "fixed_us": 20.0, "compute_efficiency": 0.7, "memory_efficiency": 0.8, "overlap": 3.0, "tile_traffic": 0.3,
        "prologue": 100.0, "element_ns": 0.01, "shuffle_efficiency": 0.4, "expert_us": 0.05, "foreign_share": 0.001,
        "imbalance": 0.3,
    },
    "collective": {
        "fixed_us": 5.0, "low_step_us": 0.5, "low_efficiency": 0.1, "middle_us": 2.0, "middle_efficiency": 0.4,
        "high_us": 10.0, "high_efficiency": 0.8, "step_us": 0.5, "multicast": 0.0, "sharpness": 4.0,
    },
    "elementwise": {"fixed_us": 2.0, "memory_efficiency": 0.8, "cache_mb": 1.0, "beyond_efficiency": 0.5},
}  # fmt: skip
_KERNELS = {
    "gemm.bf16": "matmul",
    "gemm.int8": "matmul",
    "prefill_attention.bf16.kv_bf16.d128": "prefill",
    "decode_attention.gqa.kv_bf16.d128": "decode",
    "moe.int8.gated.balanced": "experts",
    "moe.int8.gated.power_law_1.2": "experts",
    "collective.all_reduce": "collective",
    "collective.all_reduce_custom": "collective",
    "collective.all_gather": "collective",
    "collective.reduce_scatter": "collective",
    "collective.all_to_all": "collective",
    "elementwise": "elementwise",
}
_CALIBRATION = Calibration(
    device="made up",
    kernels={name: _COEFFICIENTS[form] for name, form in _KERNELS.items()},
    accuracy={},
    includes=("rope", "quantise", "moe_routing"),
)
FAMILIES = {
    "theoretical": (TEST_DEVICE, QWEN3_32B, Plan(tp=8)),
    "calibrated": (
        replace(
            TEST_DEVICE,
            name="made up",
            family="calibrated",
            compute_units=100,
            calibration=calibration_to_json(_CALIBRATION),
        ),
        QWEN3_30B_A3B,
        Plan(tp=1, dp=4, ep=4),
    ),
}


def _bin(length: int, output: float, weight: float) -> LengthBin:
    return LengthBin(
        input_length=length, output_length=output, weight=weight, min_input_length=length - 100, max_input_length=length
    )


LENGTHS = {
    "fixed": Workload(input_length=1000, output_length=120.0, max_batched_tokens=4096),
    "chunked": Workload(input_length=5000, output_length=120.0, max_batched_tokens=2048),
    "bins": Workload(
        input_length=None,
        output_length=128.0,
        max_batched_tokens=4096,
        bins=(_bin(300, 40.0, 0.5), _bin(1500, 120.0, 0.3), _bin(3000, 360.0, 0.2)),
    ),
    "chunked bins": Workload(
        input_length=None,
        output_length=144.0,
        max_batched_tokens=2048,
        prefix_cache_hit_rate=0.1,
        bins=(_bin(700, 90.0, 0.7), _bin(5000, 270.0, 0.3)),
    ),
}
_ENGINE_NUMBERS = {
    "token_budget": 4096, "prefill_factor": 1.2, "decode_factor": 0.9, "step_ms": 2.0, "step_per_decode_ms": 0.05,
    "step_per_prompt_ms": 1.5, "prompt_step_ms": 1.0, "request_ms": 30.0, "replica_wait_steps": 3.0, "layer_ms": 0.02,
}  # fmt: skip
SPAN_SIZES = (3, 50)  # 50 lies between users that engines are played with


def spans() -> Iterator[tuple[str, Columns]]:
    """Every column where cost families, serving models and kinds of lengths meet; nothing where one is refused."""
    for family, serving, lengths in itertools.product(FAMILIES, list_serving_models(), LENGTHS):
        for phase in PHASES:
            yield f"{family}, {serving}, {lengths}, {phase}", evaluated(span(family, serving, lengths, phase))
    for lengths in ("bins", "chunked bins"):
        scenario = replace(span("theoretical", "waves", lengths, "aggregated"), convention="upstream")
        yield f"theoretical, waves, {lengths}, aggregated, upstream", evaluated(scenario)


def services() -> Iterator[tuple[str, Columns]]:
    """Who asks, how the server was started, and how tokens fall on experts: each changes numbers of engines."""
    changes = {
        "ranged lengths": {"client": Client(shortest=0.8)},
        "one prompt a user": {"client": Client(prompts_per_user=1)},
        "polling": {"client": Client(poll_steps=10)},
        "waiting": {"launch": Launch(wait_steps=5)},
        "seats": {"launch": Launch(seats=20)},
        "routing": {"routing": "power_law_1.2"},
    }
    for (label, change), serving in itertools.product(changes.items(), ("vllm", "sglang")):
        scenario = replace(span("calibrated", serving, "fixed", "aggregated"), **change)
        yield f"calibrated, {serving}, fixed, aggregated, {label}", evaluated(scenario)
    latent = replace(span("theoretical", "trtllm", "fixed", "aggregated"), model=DEEPSEEK_V3, plan=Plan(tp=8, ep=8))
    engine = with_numbers(stated_engine("trtllm"), {"latent_layer_ms": 2.0})
    yield "theoretical, trtllm, fixed, aggregated, latent layers", evaluated(replace(latent, engine=engine))


def span(family: str, serving: str, lengths: str, phase: str) -> Scenario:
    """The scenario of one case. An engine's numbers are stated here, whatever is shipped under its name."""
    device, model, plan = FAMILIES[family]
    return Scenario(
        model=model,
        device=device,
        precision=Precision(linear="W8A8_DYNAMIC"),
        plan=plan,
        workload=LENGTHS[lengths],
        phase=phase,
        serving_model=serving,
        engine=stated_engine(serving) if serving in list_engines() else None,
    )


def stated_engine(name: str) -> EngineProfile:
    """An engine with its own way of admitting prompts, and numbers that no fit moves."""
    return replace(with_numbers(unfitted_engine(name), _ENGINE_NUMBERS), client=Client())


def kind_of_lengths(lengths: str) -> tuple[str, bool]:
    """Which batch source a workload of the table becomes, and whether it cuts prompts."""
    source = batch_source(span("theoretical", "waves", lengths, "prefill"))
    return type(source).__name__, source.chunks > 1


def evaluated(scenario: Scenario, sizes: tuple[int, ...] = SPAN_SIZES) -> Columns:
    """Every column that has a number; none where the serving model refuses the scenario."""
    operators = both_traces(
        scenario.model, scenario.plan, linear=W8A8, convention=scenario.convention, compile=scenario.launch.compile
    )
    try:
        block = evaluate_scenario(scenario, np.asarray(sizes), operators)
    except InputError:
        return {}
    return {
        column: [None if np.isnan(value) else float(f"{value:.11g}") for value in values]
        for column, values in block.columns().items()
        if not np.isnan(np.asarray(values, dtype=float)).all()
    }


# --- pairs of prefill and decode instances, launch flags of public recipes, fits to a user's own points ---


def pairs() -> Iterator[tuple[str, Columns]]:
    """Prefill and decode instances that serve users who each ask again, by users."""
    load = PairLoad(output_length=120.0, transfer_ms=4.0)
    for servers, replicas in ((1, 1), (3, 2)):
        side = PrefillSide(alone_ms=90.0, service_ms=30.0, servers=servers, request_ms=40.0)
        steps = [DecodeSide(decoding=float(replicas * b), tpot_ms=4.3 + 0.03 * b) for b in (1, 8, 64, 150)]
        times = [pair_of_users(side, steps, load, float(users), seats=100.0) for users in (1, 20, 150)]
        yield (
            f"pair, {servers} prefill and {replicas} decode servers",
            {
                column: [float(f"{getattr(one, column):.11g}") for one in times]
                for column in ("ttft_ms", "tpot_ms", "e2e_ms", "requests_per_s", "wait_ms", "burst_ms", "slot_wait_ms")
            },
        )


def _record(**changes: object) -> MeasurementRecord:
    return closed_loop(**{
        "model": "Qwen/Qwen3-0.6B", "device": "TEST_DEVICE", "precision": "bf16", "input_length": 1000.0,
        "output_length": 100.0, "extra": "{}", **changes,
    })  # fmt: skip


_RECIPES = {
    "trtllm, DeepSeek": ("trtllm", "deepseek-ai/DeepSeek-R1", "2026_04_06_deepseek_r1_b200_sxm_trtllm_fp8_agg_c64_tp8"),
    "sglang, DeepSeek": ("sglang", "deepseek-ai/DeepSeek-R1", "2026_04_06_deepseek_r1_b200_sxm_sglang_fp8_agg_c64_tp8"),
    "trtllm, Llama": ("trtllm", "meta-llama/Llama-3.1-70B", "2026_04_06_llama_70b_b200_sxm_trtllm_fp8_agg_c64_tp4"),
    "vllm, gpt-oss": ("vllm", "openai/gpt-oss-120b", "2026_04_06_gpt_oss_120b_b200_sxm_vllm_fp4_agg_c64_tp1"),
}


def recipes() -> Iterator[tuple[str, Columns]]:
    """What a measured point says of its client and launch, as the evaluator takes it."""
    for label, (engine, model, recipe) in _RECIPES.items():
        tp = float(recipe.rpartition("_tp")[2])
        point = _record(
            engine=engine,
            model=model,
            device="b200_sxm",
            precision="fp8",
            input_length=1024.0,
            output_length=1024.0,
            concurrency=64.0,
            num_devices=int(tp),
            decode=SideRecord(tp=int(tp)),
            extra=json.dumps(kept(Circumstances(point_id=recipe))),
        )
        found, client = deployment_of(point), deployment_of(point).client or Client()
        yield (
            f"recipe, {label}",
            {
                "shortest": [client.shortest],
                "poll_steps": [client.poll_steps],
                "token_budget": [found.token_budget],
                "wait_steps": [found.wait_steps],
            },
        )


def own_fits() -> Iterator[tuple[str, Columns]]:
    """Numbers of an engine fitted to ten points of one user: figures of a fit, which are rounded."""
    points = [
        _record(
            key=f"{index:064d}",
            input_length=float(length),
            concurrency=float(users),
            metrics={
                "ttft_ms_mean": 60.0 + 0.04 * length * users**0.7,
                "tpot_exclusive_ms_mean": 5.0 + 0.06 * users + 1e-5 * length * users,
            },
        )
        for index, (length, users) in enumerate(itertools.product((500, 2000), (1, 2, 4, 8, 16)))
    ]
    fitted = fit_own(served_points(points, "vllm"), stated_engine("vllm"), "mine").profile
    yield "own fit", {name: [getattr(fitted, name)] for name in _ENGINE_NUMBERS}


def numbers() -> dict[str, Columns]:
    return dict(itertools.chain(shapes(), spans(), services(), pairs(), recipes(), own_fits()))
