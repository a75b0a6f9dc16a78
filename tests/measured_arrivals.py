"""Measured servers that requests arrived at, played: stages of constant rates, and a replay request by request.

Every prediction is of the shipped program: its catalogue, devices and engines. For tests and a benchmark."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from evaluator_cases import BF16, LLAMA_31_8B, MIXTRAL_8X7B, both_traces, gqa, one_group
from restated import rows

from evaluator.arrivals.asked import at_rate
from evaluator.arrivals.histograms import edges_ms
from evaluator.arrivals.loads import LoadPlayer, PlaySettings
from evaluator.arrivals.playing import play
from evaluator.arrivals.streams import ArrivalProcess
from evaluator.evaluate import cost_of
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.devices.shipped_calibrations import with_kernels_of
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import DenseMlp, ModelSpec
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.inputs.workloads.workload import Workload
from evaluator.scenario import Scenario, default_routing, serving_engine
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of

TOKEN_BUDGET, SEATS = 2048, 128
ENGINE = "vllm"  # of both servers' versions, 0.15.1 and 0.19.0: scheduled ahead, with vLLM's own kernels
BLOCK = 16  # tokens of a block of vLLM's prefix cache: new of a prompt that was there before, the last block at most
HELD_OUT_LOAD = 0.85  # of saturation, below which stages are scored
SPECS: Mapping[str, ModelSpec] = {
    "mistralai/Mixtral-8x7B-v0.1": replace(MIXTRAL_8X7B, max_positions=32768),
    "codellama/CodeLlama-34b-Instruct-hf": one_group(
        "llama", 8192, 32000, 48, gqa(64, 8, 128), DenseMlp(intermediate_size=22016), max_positions=16384
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One stage or replay: what was measured and what is played, by metric in ms."""

    name: str
    measured: Mapping[str, float]
    played: Mapping[str, float]
    load_share: float = 0.0
    hit_rate: float = 0.0

    def error(self, metric: str) -> float:
        return 100.0 * (self.played[metric] / self.measured[metric] - 1.0)


def stages(new_tokens: int = BLOCK, *, engine: str = ENGINE) -> list[Compared]:
    """All stages, with so many tokens of each prompt that no cache held, as an engine serves."""
    return [_stage(row, new_tokens, engine) for row in rows("arrival_stages")]


@functools.cache
def _player(  # noqa: PLR0917  what a stage is of
    model: str, prompt: int, answer: int, requests: int, new_tokens: int, engine: str
) -> LoadPlayer:
    workload = Workload(
        input_length=prompt,
        output_length=float(answer),
        prefix_cache_hit_rate=(prompt - new_tokens) / prompt,
        max_batched_tokens=TOKEN_BUDGET,
    )
    plan = Plan(tp=2, moe_tp=2) if SPECS[model].routed else Plan(tp=2)
    run = _run(SPECS[model], "h100_sxm", plan, workload, engine)
    settings = PlaySettings(process=ArrivalProcess(kind="constant", requests=requests), seats=SEATS)
    return LoadPlayer(run, serving_engine(run.scenario), settings)


def _run(model: ModelSpec, device: str, plan: Plan, workload: Workload, engine: str) -> Run:
    scenario = Scenario(
        model=model,
        device=with_kernels_of(load_device(device), engine),
        precision=Precision(),
        plan=plan,
        workload=workload,
        phase="aggregated",
        serving_model=engine,
    )
    scenario = replace(scenario, routing=default_routing(scenario))
    return Run(
        scenario=scenario,
        operators=both_traces(model, plan, linear=BF16),
        source=serving_model_of(scenario).source(scenario),
        cost=cost_of(scenario),
        batch_sizes=np.asarray([1]),
    )


def _stage(row: Mapping[str, str], new_tokens: int, engine: str) -> Compared:
    prompt, answer, rate = round(float(row["prompt"])), round(float(row["answer"])), float(row["rate"])
    asked = int(row["requests"]) + int(row["failed"])
    player = _player(row["model"], prompt, answer, asked, min(new_tokens, prompt), engine)
    load = player.load(rate, keep_requests=True)
    times, outside = load.request_times, load.outside_ms
    return Compared(
        name=f"{row['model'].rpartition('/')[2]} {rate:g}/s, {prompt}/{answer}",
        measured={name: float(row[name]) for name in row if name.endswith("_ms")},
        played=_figures("ttft", times.ttft + outside) | _figures("e2e", times.e2e + outside),
        load_share=rate / load.saturation_per_s,
        hit_rate=1.0 - new_tokens / prompt,
    )


def replayed(*, engine: str = ENGINE) -> Compared:
    """The replay: every request at its own time, with its own lengths; the clock starts where the engine queues it."""
    found = {
        name: np.asarray([float(row[name]) for row in rows("arrival_replay")]) for name in rows("arrival_replay")[0]
    }
    trace = TracedArrivals(
        times=found["queued_s"],
        input_lengths=found["prompt"].astype(np.int64),
        output_lengths=found["answer"].astype(np.int64),
        sha256="0" * 64,
    )
    workload = Workload(
        input_length=round(found["prompt"].mean()),
        output_length=found["answer"].mean(),
        max_batched_tokens=TOKEN_BUDGET,
    )
    run = _run(LLAMA_31_8B, "rtx_pro_6000_server", Plan(), workload, engine)
    settings = PlaySettings(process=ArrivalProcess(kind="trace", requests=trace.times.size), seats=SEATS)
    player = LoadPlayer(run, serving_engine(run.scenario), settings, trace)
    rate = (trace.times.size - 1) / (trace.times[-1] - trace.times[0])
    asked = at_rate(player.asked, float(rate))
    played = play(player.rules, player.prices, asked, 1e-3 * edges_ms())
    ttft, e2e = 1e3 * (played.first_s - asked.arrive_s), 1e3 * (played.end_s - asked.arrive_s)
    gained = np.maximum(trace.output_lengths - 1, 1)
    return Compared(
        name="Llama-3.1-8B on one RTX PRO 6000, 300 requests",
        measured=_all(found["ttft_ms"], found["e2e_ms"], gained),
        played=_all(ttft, e2e, gained),
        load_share=float(rate) / player.saturation_per_s,
    )


def _all(ttft, e2e, gained) -> dict[str, float]:
    return _figures("ttft", ttft) | _figures("e2e", e2e) | _figures("tpot", (e2e - ttft) / gained)


def _figures(name: str, times) -> dict[str, float]:
    return {f"{name}_mean_ms": float(times.mean())} | {
        f"{name}_p{share}_ms": float(np.percentile(times, share)) for share in (50, 90, 99)
    }
