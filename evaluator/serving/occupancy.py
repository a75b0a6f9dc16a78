"""Memory of a scenario by batch size: weights, KV cache of what is in flight, peak activations of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.sums import BatchSums, repeated
from evaluator.inputs.formats import Precision
from evaluator.inputs.launchable import launcher_of
from evaluator.pricing.memory import activation_bytes, kv_bytes, weight_bytes
from evaluator.scenario import Scenario, serving_engine
from evaluator.serving.batches import FixedLengths, WaveStage
from evaluator.serving.encoding import with_encoder_bytes
from evaluator.serving.interface import Run
from evaluator.serving.waves.chunked import prompts_a_step
from store.light_dataclass import dataclass

Charge = Literal["full", "mean"]


def kv_cache_bits(precision: Precision) -> int:
    return 16 if precision.cache == "DISABLED" else 8


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryBytes:
    """Bytes on the fullest device, by batch size."""

    weights: int
    kv_full: FloatArray
    kv_mean: FloatArray
    activations: FloatArray

    def used(self, charge: Charge) -> FloatArray:
        return np.asarray(self.weights + self.activations + (self.kv_full if charge == "full" else self.kv_mean))


def seats_of(scenario: Scenario) -> int | None:
    looped = scenario.phase == "aggregated" and serving_engine(scenario) is not None
    return scenario.launch.seats if looped else None


def seated(run: Run) -> Run:
    seats = seats_of(run.scenario)
    if seats is None:
        return run
    return replace(run, batch_sizes=np.minimum(run.batch_sizes, -(-seats // run.scenario.plan.pp)))


def memory_bytes(run: Run, *, mean_only: bool = False) -> MemoryBytes:
    """Weights, KV and activations. A prefill instance holds the prompts of the waves in flight, the others every
    request that has a seat. With `mean_only` the mean charge stands for the full one, which composes no batch."""
    scenario, run = run.scenario, seated(run)
    # Both traces hold the same weights. Encoders on devices of their own are not on these.
    encoder = None if scenario.plan.encoder_devices else run.operators.get("encoder")
    launcher, modules = launcher_of(scenario.serving_model), scenario.model.draft_modules
    tables = scenario.plan.tp if launcher is not None and launcher.splits_vocabulary else 1
    weights = max(
        weight_bytes(operators, drafting=scenario.drafting, modules=modules, encoder=encoder, tables=tables)
        for trace, operators in run.operators.items()
        if trace != "encoder"
    )
    if scenario.convention == "upstream":
        return _upstream_memory(run, weights, run.requests.astype(np.float64), mean_only=mean_only)
    full, mean = cache_bytes(run, mean_only=mean_only)
    activations = _wave_activations(run) if scenario.phase == "prefill" else _decode_activations(run)
    if scenario.phase == "aggregated":
        activations = np.maximum(_wave_activations(run), activations)
    return MemoryBytes(weights=weights, kv_full=full, kv_mean=mean, activations=activations)


def cache_bytes(run: Run, *, mean_only: bool = False) -> tuple[FloatArray, FloatArray]:
    """KV cache with every request at its full length, and at its mean one; no operator is read for it.

    Not of rows under upstream, which report the step that takes most."""
    run = seated(run)
    if run.scenario.phase == "prefill":
        prompts = _prompts_in_flight(run)
        return prompts, prompts
    requests = run.requests.astype(np.float64)
    mean = _cache(run, "middle", requests)
    return (mean if mean_only else _cache(run, "end", requests)), mean


def _upstream_memory(run: Run, weights: int, requests: FloatArray, *, mean_only: bool) -> MemoryBytes:
    """The step that takes most, which upstream reports: a wave with its prompts' cache or a decode with all of it."""
    prompts, waves = np.zeros(run.batch_sizes.shape), np.zeros(run.batch_sizes.shape)
    for stage in () if run.scenario.phase == "decode" else _largest_steps(run):
        for sums in stage.steps:
            kept = np.broadcast_to(_step_cache(run, sums), stage.batch.shape)
            alive = np.broadcast_to(activation_bytes(run.operators["prefill"], sums), stage.batch.shape)
            more = kept + alive > (prompts + waves)[stage.batch]
            prompts[stage.batch] = np.where(more, kept, prompts[stage.batch])
            waves[stage.batch] = np.where(more, alive, waves[stage.batch])
    if run.scenario.phase == "prefill":
        return MemoryBytes(weights=weights, kv_full=prompts, kv_mean=prompts, activations=waves)
    mean = _cache(run, "middle", requests)
    full = mean if mean_only else _cache(run, "end", requests)
    activations = _decode_activations(run)
    prefilling = prompts + waves > mean + activations
    return MemoryBytes(
        weights=weights,
        kv_full=full,
        kv_mean=np.where(prefilling, prompts, mean),
        activations=np.where(prefilling, waves, activations),
    )


def _largest_steps(run: Run) -> Sequence[WaveStage]:
    """The largest prefill steps of each batch; of prompts in chunks beside decodes, each chunk's under the margin."""
    source = run.source
    if not isinstance(source, FixedLengths) or source.chunks == 1 or run.scenario.phase == "prefill":
        return source.largest_waves(run.requests)
    replicas, everything = source.scheduled_replicas, np.arange(run.requests.size)
    stages = []
    for size, sums in zip(source.chunk_tokens, source.chunk_sums(), strict=True):
        together = np.minimum(run.requests * replicas, prompts_a_step(size, source.token_budget * replicas))
        step = repeated(sums, -(-together // replicas))
        stages.append(WaveStage(batch=everything, requests=together, repeats=np.ones_like(together), steps=(step,)))
    return stages


def _step_cache(run: Run, sums: BatchSums) -> FloatArray:
    scenario = run.scenario
    return kv_bytes(
        scenario.model,
        scenario.plan,
        kv_cache_bits(scenario.precision),
        sums.keys / sums.sequences + 1.0,
        sums.sequences,
        paging="pooled",
        drafting=scenario.drafting,
    )


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
            alive = with_encoder_bytes(run, sums, activation_bytes(run.operators["prefill"], sums))
            peak[stage.batch] = np.maximum(peak[stage.batch], alive)
    return peak


def _decode_activations(run: Run) -> FloatArray:
    sums = run.source.decodes(run.batch_sizes.astype(np.float64), 1 + run.scenario.workload.mtp_tokens)
    return activation_bytes(run.operators["decode"], sums)
