"""Prompts of many lengths packed into prefill waves, for every batch size at once.

Prompts stand in bin order; a wave takes whole prompts while they fit the token budget; a prompt longer than the budget
is prefilled in equal chunks by waves of its own kind. Not here: what a wave costs (its four sums are returned)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluator.sums import BatchSums, FloatArray, composed, repeated

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waves:
    """Waves of one stage of the packing: `repeats[i]` equal waves of `requests[i]` prompts each in batch `batch[i]`.

    Stages follow each other in time; within a stage a batch appears at most once. `bins` holds the prompts of each bin
    in one such wave, or is None where every wave of the stage is of bin `uniform_bin`."""

    batch: Integers
    requests: Integers
    repeats: Integers
    bins: Integers | None
    uniform_bin: int | None


def chunk_plan(lengths: Integers, token_budget: int) -> tuple[Integers, Integers]:
    """(chunks, tokens of a full chunk) of prompts of these lengths: as few chunks as fit, as equal as can be."""
    chunks = -(-lengths // token_budget)
    return chunks, -(-lengths // chunks)


def pack(samples: Integers, lengths: Integers, token_budget: int) -> list[Waves]:
    """The stages of packing `samples[i, j]` prompts of `lengths[j]` new tokens each, j ascending, for every batch i."""
    batches, kinds = samples.shape
    used = np.zeros(batches, dtype=np.int64)
    open_wave = np.zeros((batches, kinds), dtype=np.int64)
    _, chunk = chunk_plan(lengths, token_budget)
    stages: list[Waves] = []
    for kind in range(kinds):
        left = samples[:, kind].copy()
        size = int(chunk[kind])
        if lengths[kind] > token_budget:
            # Chunks of a long prompt are steps of their own: what is open goes first.
            stages.append(_close(open_wave, used, (used > 0) & (left > 0)))
            stages.extend(_uniform(left, kind, token_budget // size))
            continue
        joining = np.minimum(left, (token_budget - used) // size)
        open_wave[:, kind] += joining
        used += joining * size
        left -= joining
        stages.append(_close(open_wave, used, (left > 0) & (used > 0)))
        per_wave = token_budget // size
        full = left // per_wave
        stages.append(_full_waves(full, kind, per_wave))
        open_wave[:, kind] += left - full * per_wave
        used += (left - full * per_wave) * size
    stages.append(_close(open_wave, used, used > 0))
    return [stage for stage in stages if stage.batch.size]


def _close(open_wave: Integers, used: Integers, closing: NDArray[np.bool_]) -> Waves:
    batch = np.flatnonzero(closing)
    bins = open_wave[batch].copy()
    open_wave[batch] = 0
    used[batch] = 0
    return Waves(batch=batch, requests=bins.sum(axis=1), repeats=np.ones_like(batch), bins=bins, uniform_bin=None)


def _full_waves(count: Integers, kind: int, per_wave: int) -> Waves:
    batch = np.flatnonzero(count > 0)
    requests = np.full(batch.size, per_wave, dtype=np.int64)
    return Waves(batch=batch, requests=requests, repeats=count[batch], bins=None, uniform_bin=kind)


def _uniform(left: Integers, kind: int, per_wave: int) -> list[Waves]:
    full, rest = np.divmod(left, per_wave)
    batch = np.flatnonzero(rest > 0)
    last = Waves(batch=batch, requests=rest[batch], repeats=np.ones_like(batch), bins=None, uniform_bin=kind)
    return [_full_waves(full, kind, per_wave), last]


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """When prompts of a batch are done, in the unit of the wave times: mean over prompts, and the last one."""

    mean: FloatArray
    makespan: FloatArray


def completion(stages: Sequence[Waves], batches: int, wave_time: Callable[[Waves], FloatArray]) -> Completion:
    """Request-weighted mean completion time and makespan of every batch, its waves one after the other."""
    elapsed = np.zeros(batches)
    waited = np.zeros(batches)
    requests = np.zeros(batches)
    for stage in stages:
        time = wave_time(stage)
        repeats = stage.repeats.astype(np.float64)
        # n equal waves of r prompts ending at t + w, t + 2w ...: r (n t + w n (n + 1) / 2)
        waited[stage.batch] += stage.requests * (
            repeats * elapsed[stage.batch] + time * repeats * (repeats + 1.0) / 2.0
        )
        elapsed[stage.batch] += repeats * time
        requests[stage.batch] += repeats * stage.requests
    return Completion(mean=waited / requests, makespan=elapsed)


def wave_sums(stage: Waves, prompt_sums: BatchSums) -> BatchSums:
    """The four sums of one wave of a stage, from the sums of one prompt of each bin."""
    if stage.bins is not None:
        return composed(stage.bins, prompt_sums)
    kind = stage.uniform_bin if stage.uniform_bin is not None else 0
    one = BatchSums(
        tokens=prompt_sums.tokens[kind],
        sequences=prompt_sums.sequences[kind],
        pairs=prompt_sums.pairs[kind],
        keys=prompt_sums.keys[kind],
        windows=tuple((width, pairs[kind], keys[kind]) for width, pairs, keys in prompt_sums.windows),
    )
    return repeated(one, stage.requests)
