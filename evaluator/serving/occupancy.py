"""Memory of a scenario by batch size: weights, KV cache of what is in flight, peak activations of its steps.

Not here: how many bytes one token or one operator takes (evaluator.pricing.memory), and whether it fits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.inputs.precision import Precision
from evaluator.pricing.memory import activation_bytes, kv_bytes, weight_bytes
from evaluator.scenario import Scenario
from evaluator.serving.interface import Run
from evaluator.serving.models import serving_model_of

Charge = Literal["full", "mean"]


def kv_cache_bits(precision: Precision) -> int:
    """Bits of one number in the KV cache."""
    return 16 if precision.attention == "DISABLED" else 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBytes:
    """Bytes on the fullest device, by batch size."""

    weights: int
    kv_full: FloatArray
    kv_mean: FloatArray
    activations: FloatArray

    def used(self, charge: Charge) -> FloatArray:
        """Everything, with the KV cache at this charge."""
        return np.asarray(self.weights + self.activations + (self.kv_full if charge == "full" else self.kv_mean))


def seats_of(scenario: Scenario) -> int | None:
    """Requests that a replica serves at once; None where as many as there are. Only loops of engines have seats."""
    looped = scenario.phase == "aggregated" and serving_model_of(scenario).engine(scenario) is not None
    return scenario.launch.seats if looped else None


def seated(run: Run) -> Run:
    """The run with batches of the requests that have a seat: those that wait for one hold no memory."""
    seats = seats_of(run.scenario)
    return run if seats is None else replace(run, batch_sizes=np.minimum(run.batch_sizes, seats))


def memory_bytes(run: Run, *, mean_only: bool = False) -> MemoryBytes:
    """Weights, KV and activations. A prefill instance holds the prompts of the waves in flight, the others every
    request that has a seat. With `mean_only` the mean charge stands for the full one, which composes no batch."""
    scenario, run = run.scenario, seated(run)
    # Both traces hold the same weights.
    weights = max(weight_bytes(operators, drafting=scenario.drafting) for operators in run.operators.values())
    requests = run.requests.astype(np.float64)
    if scenario.phase == "prefill":
        prompts = _prompts_in_flight(run)
        return MemoryBytes(weights=weights, kv_full=prompts, kv_mean=prompts, activations=_wave_activations(run))
    mean = _cache(run, "middle", requests)
    full = mean if mean_only else _cache(run, "end", requests)
    activations = _decode_activations(run)
    if scenario.phase == "aggregated":
        wave = _wave_activations(run)
        if scenario.convention == "upstream":
            # Upstream reports the step that takes more: a wave with its prompts, or a decode step with every request.
            prompts = _prompts_in_flight(run)
            prefilling = prompts + wave > mean + activations
            mean, activations = np.where(prefilling, prompts, mean), np.where(prefilling, wave, activations)
        else:
            activations = np.maximum(wave, activations)
    return MemoryBytes(weights=weights, kv_full=full, kv_mean=mean, activations=activations)


def _prompts_in_flight(run: Run) -> FloatArray:
    waves = run.source.wave_requests(run.requests) * run.scenario.plan.pp
    return _cache(run, "prompt", np.minimum(run.requests, waves))


def _cache(run: Run, moment: Literal["prompt", "middle", "end"], requests: FloatArray) -> FloatArray:
    scenario = run.scenario
    kinds = [
        kv_bytes(
            scenario.model,
            scenario.plan,
            kv_cache_bits(scenario.precision),
            cached.tokens,
            cached.requests,
            paging="pooled" if scenario.convention == "upstream" else "per_request",
            drafting=scenario.drafting,
        )
        for cached in run.source.cached_tokens(moment, requests)
    ]
    total = sum(kinds[1:], kinds[0])
    # Kinds of requests may also stand in rows.
    return np.asarray(np.broadcast_to(total.sum(axis=0) if total.ndim > 1 else total, run.batch_sizes.shape))


def _wave_activations(run: Run) -> FloatArray:
    peak = np.zeros(run.batch_sizes.shape)
    for stage in run.source.largest_waves(run.requests):
        for sums in stage.steps:
            peak[stage.batch] = np.maximum(peak[stage.batch], activation_bytes(run.operators["prefill"], sums))
    return peak


def _decode_activations(run: Run) -> FloatArray:
    sums = run.source.decodes(run.batch_sizes.astype(np.float64), 1 + run.scenario.workload.mtp_tokens)
    return activation_bytes(run.operators["decode"], sums)
