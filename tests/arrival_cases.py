"""Requests that arrive, and prices of steps, stated by hand for tests of the play."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from evaluator_cases import QWEN3_32B, W8A8, both_traces

from evaluator.arrivals.loads import LoadPlayer, PlaySettings
from evaluator.arrivals.play_rules import AskedRequests, StepPrices
from evaluator.evaluate import cost_model
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of

EDGES = 1e-5 * 10.0 ** (np.arange(0, 289) / 32)
NODES, LONGEST = 9, 1000


def prices(**more) -> StepPrices:
    """Times that are proportional to nothing, for up to 64 sequences and prompts of up to 1,000 tokens."""
    b = np.arange(65.0)
    own, own_key = 1e-4 + 2e-5 * b, 3e-8 + 1e-9 * b
    base = StepPrices(
        step_s=1e-3, prompt_step_s=2e-3, per_prompt_s=5e-4, per_decode_s=1e-5, prefill_factor=1.1, decode_factor=0.9,
        spacing=128, linear=1e-5 * 128 * np.arange(40.0) ** 1.05,
        attention=5e-3 * np.linspace(0.0, 1.0, NODES) ** 1.8, stretches=NODES - 1,
        own_s=own, own_key_s=own_key,
        decode_s=1e-3 + 1e-5 * b + 0.9 * (5e-3 + 2e-5 * b + own), decode_key_s=0.9 * own_key,
    )  # fmt: skip
    return replace(base, **more)


def asking(arrive, new_tokens, steps, *, cached=0, service=0.0, replica=None) -> AskedRequests:
    arrive = np.asarray(arrive, dtype=np.float64)
    new_tokens = np.broadcast_to(np.asarray(new_tokens, dtype=np.int64), arrive.shape).copy()
    return AskedRequests(
        arrive_s=arrive,
        new_tokens=new_tokens,
        cached=np.full(arrive.shape, cached, dtype=np.int64),
        steps=np.broadcast_to(np.asarray(steps, dtype=np.int64), arrive.shape).copy(),
        node=np.zeros(arrive.shape, dtype=np.int64),
        stretch=np.full(arrive.shape, (NODES - 1) / LONGEST),
        service_s=np.full(arrive.shape, service),
        replica=np.zeros(arrive.shape, dtype=np.int64) if replica is None else replica,
    )


def run_of_qwen(phase="aggregated", input_length=2000, output_length=300.0) -> Run:
    scenario = Scenario(
        model=QWEN3_32B,
        device=load_device("h100_sxm"),
        precision=Precision(linear="W8A8_DYNAMIC"),
        plan=Plan(tp=4),
        workload=Workload(input_length=input_length, output_length=output_length, max_batched_tokens=4096),
        phase=phase,
        serving_model="vllm",
    )
    traces = both_traces(QWEN3_32B, scenario.plan, linear=W8A8)
    return Run(
        scenario=scenario,
        operators=traces if phase == "aggregated" else {phase: traces[phase]},
        source=serving_model_of(scenario).source(scenario),
        cost=cost_model(scenario.device, "physical"),
        batch_sizes=np.arange(1, 2),
    )


def player_of_qwen(phase, process) -> LoadPlayer:
    run = run_of_qwen(phase, 1500, 200.0)
    return LoadPlayer(run, serving_engine(run.scenario), PlaySettings(process=process))


def aggregated_loads(rates, process, trace=None):
    run = run_of_qwen()
    engine = serving_engine(run.scenario)
    player = LoadPlayer(run, engine, PlaySettings(process=process), trace)
    return [player.load(rate) for rate in rates]
