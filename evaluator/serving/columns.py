"""Shared columns: a full wave's prefill step and the decode step, with splits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluator.pricing.cost_model import KINDS
from evaluator.pricing.step import StepTimes
from evaluator.serving.interface import Columns, Run
from evaluator.serving.phases import decode_period, prefilled, wave_times
from evaluator.serving.waves.chunked_mixed import mixed_prefilled
from evaluator.serving.waves.mixed import MixedLengths
from evaluator.serving.waves.wave_latencies import PrefillCompletion, tokens_per_step

MS = 1000.0
# Standard normal quantiles: the keys a step reads are a sum over many requests.
QUANTILES = {"p50": 0.0, "p90": 1.2815515655446004, "p99": 2.3263478740408408}


def prompts_in_waves(run: Run, serving_cost_s: float) -> tuple[PrefillCompletion, StepTimes]:
    if isinstance(run.source, MixedLengths):
        return mixed_prefilled(run, run.source, serving_cost_s)
    return prefilled(run, serving_cost_s)


def fullest_wave(run: Run) -> StepTimes:
    if isinstance(run.source, MixedLengths):
        (stage,) = run.source.largest_waves(run.requests)
        return wave_times(run, stage.steps)
    return prefilled(run, 0.0)[1]


def gained_tokens(run: Run) -> float:
    workload = run.scenario.workload
    return tokens_per_step(workload.mtp_tokens, workload.mtp_acceptance)


def decode_periods(run: Run, serving_cost_s: float) -> tuple[StepTimes, Columns]:
    """Expected step, and quantiles over compositions and ages of the batch (none for fixed lengths)."""
    if not isinstance(run.source, MixedLengths):
        return decode_period(run, serving_cost_s), {}
    source = run.source.deviating((0.0, *QUANTILES.values()))
    periods = decode_period(replace(run, source=source), serving_cost_s)
    total = MS * periods.total
    expected = StepTimes(kinds=periods.kinds[..., 0], slowest_stage=periods.slowest_stage[..., 0])
    return expected, {f"decode_step_{name}_ms": total[:, index] for index, name in enumerate(QUANTILES, start=1)}


def completion_columns(completion: PrefillCompletion) -> Columns:
    return {"ttft_ms": MS * completion.mean, "makespan_ms": MS * completion.makespan}


def prefill_columns(run: Run, full: StepTimes) -> Columns:
    chunks = np.full(run.batch_sizes.shape, float(run.source.chunks))
    if isinstance(run.source, MixedLengths) and run.scenario.convention == "upstream":
        chunks = run.source.packed(run.requests).count.astype(np.float64)  # upstream counts the steps of the batch
    return {"prefill_step_ms": MS * full.total, "prefill_chunks": chunks, **_split("prefill", full)}


def decode_columns(run: Run, step: StepTimes) -> Columns:
    gained = np.full(run.batch_sizes.shape, gained_tokens(run))
    return {"decode_step_ms": MS * step.total, "tokens_per_step": gained, **_split("decode", step)}


def _split(phase: str, step: StepTimes) -> Columns:
    return {f"{phase}_step_{kind}_ms": MS * step.kinds[index] for index, kind in enumerate(KINDS)}
