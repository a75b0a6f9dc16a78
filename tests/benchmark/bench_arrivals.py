"""Requests that arrive, played on one core: requests a second at four lengths and schedulers, and a whole ladder.

Run: python tests/benchmark/bench_arrivals.py. Prints one JSON line a figure, the best of three runs. `python` is the twin
for machines without a compiler."""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from evaluator_cases import QWEN3_32B, W8A8, both_traces
from figures import least_s, say

from evaluator.arrivals.loads import LoadPlayer, PlaySettings
from evaluator.arrivals.play_rules import AskedRequests, PlayRules, StepPrices
from evaluator.arrivals.playing import play, play_in_python
from evaluator.arrivals.streams import ArrivalProcess, unit_times
from evaluator.evaluate import cost_model, traces_of
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.workloads.workload import Workload
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of

REQUESTS = 100_000
EDGES = 1e-5 * 10.0 ** (np.arange(289) / 32)
AIMS = {"512/64": 1e6, "ShareGPT-like": 1e6, "3500/1500": 0.5e6}
LADDER_AIM_S = 8.0  # 12 scenarios x 24 rates x 20,000 requests on 2 cores


def every_load(player):
    return [player.load(rate) for rate in player.rates(None)]


def prices() -> StepPrices:
    """A server of some size: 8 ms a decode step of few sequences, 30 us a prompt token."""
    b = np.arange(257.0)
    own, own_key = 1e-4 + 2e-5 * b, np.full(257, 1.2e-8)
    return StepPrices(
        step_s=1e-3, prompt_step_s=2e-3, per_prompt_s=1e-3, per_decode_s=1e-5, prefill_factor=1.0, decode_factor=1.0,
        spacing=128, linear=3e-5 * 128 * np.arange(80.0), attention=0.02 * np.linspace(0.0, 1.0, 9) ** 2, stretches=8,
        own_s=own, own_key_s=own_key, decode_s=9e-3 + 3e-5 * b + own, decode_key_s=own_key,
    )  # fmt: skip


def lengths(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Prompts and answers; those like ShareGPT's are lognormal, of mean 700 and 160 or so."""
    if name == "ShareGPT-like":
        draw = np.random.Generator(np.random.PCG64(1))
        prompts, answers = draw.lognormal(6.0, 1.05, REQUESTS), draw.lognormal(4.5, 1.1, REQUESTS)
        return np.clip(prompts, 1, 4000).astype(np.int64), np.clip(answers, 1, 2000).astype(np.int64)
    prompt, answer = map(int, name.split("/"))
    return np.full(REQUESTS, prompt), np.full(REQUESTS, answer)


def asked(times: np.ndarray, name: str) -> AskedRequests:
    prompts, answers = lengths(name)
    nothing = np.zeros(REQUESTS, dtype=np.int64)
    return AskedRequests(
        arrive_s=times, new_tokens=prompts, cached=nothing, steps=answers, node=nothing,
        stretch=np.full(REQUESTS, 8 / 4000), service_s=np.zeros(REQUESTS), replica=nothing,
    )  # fmt: skip


def plays() -> None:
    times = unit_times(ArrivalProcess(kind="poisson", requests=REQUESTS))
    for name, admission in product(AIMS, ("mixed", "prefill_first")):
        rules = PlayRules(admission=admission, token_budget=8192, seats=256)
        saturation = REQUESTS / play(rules, prices(), asked(np.zeros(REQUESTS), name), EDGES).end_s.max()
        for load in (0.5, 0.8, 0.95):
            requests = asked(times / (load * saturation), name)
            seconds = least_s(lambda r=rules, q=requests: play(r, prices(), q, EDGES))
            what = f"{name}, {admission}, at {load:.0%} of saturation"
            say(what, REQUESTS / seconds / 1e6, "M requests/s", aim=f">= {AIMS[name] / 1e6}")
            if load == 0.8:
                seconds = least_s(lambda r=rules, q=requests: play_in_python(r, prices(), q, EDGES), 1)
                say(f"{what}, python", REQUESTS / seconds / 1e6, "M requests/s")


def ladders() -> None:
    """Twelve scenarios at 24 rates each: four lengths, three phases."""
    device, plan, process = load_device("h100_sxm"), Plan(tp=4), ArrivalProcess(kind="poisson")
    traces = both_traces(QWEN3_32B, plan, linear=W8A8)
    runs = []
    for phase, (prompt, answer) in product(
        ("aggregated", "prefill", "decode"), ((512, 64), (717, 161), (3500, 1500), (8000, 1000))
    ):
        scenario = Scenario(
            model=QWEN3_32B,
            device=device,
            precision=Precision(linear="W8A8_DYNAMIC"),
            plan=plan,
            workload=Workload(input_length=prompt, output_length=float(answer), max_batched_tokens=8192),
            phase=phase,
            serving_model="vllm",
        )
        model = serving_model_of(scenario)
        run = Run(
            scenario=scenario,
            operators={name: traces[name] for name in traces_of(phase)},
            source=model.source(scenario),
            cost=cost_model(device, "physical"),
            batch_sizes=np.arange(1, 2),
        )
        runs.append((run, serving_engine(scenario)))
    seconds = least_s(
        lambda: [every_load(LoadPlayer(run, engine, PlaySettings(process=process))) for run, engine in runs], 1
    )
    say("12 scenarios x 24 rates x 20,000 requests, one core", seconds, "s", aim=f"<= {LADDER_AIM_S}")


if __name__ == "__main__":
    plays()
    ladders()
