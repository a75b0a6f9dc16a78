"""Batches of several workloads as one source, those of each after those of the one before: one prompt length each.

What each batch takes does not depend on its neighbours, so numbers are to the bit those of each workload by itself."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.graph.sums import BatchSums, repeated, request_sums
from evaluator.inputs.workloads.workload import Workload
from evaluator.serving.batches import CachedTokens, FixedLengths, WaveStage, half_output
from store.light_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)  # no slots: what follows from the lengths is worked out once and kept
class SideBySide:
    """`sizes[i]` batches of the workload i, whose lengths are `lengths[i]`: physical, and of as many chunks a prompt
    where prompts are prefilled."""

    workloads: tuple[Workload, ...]
    lengths: tuple[FixedLengths, ...]
    sizes: tuple[int, ...]

    @property
    def chunks(self) -> int:
        return self.lengths[0].chunks

    @functools.cached_property
    def owner(self) -> Integers:
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def by_batch(self, each: Sequence[int]) -> Integers:
        return np.asarray(each, dtype=np.int64)[self.owner]

    @functools.cached_property
    def output_lengths(self) -> FloatArray:
        return np.asarray([one.output_length for one in self.workloads], dtype=np.float64)[self.owner]

    def waves(self, requests: Integers) -> Sequence[WaveStage]:
        """Full waves of each workload's budget, then the rest of its prompts."""
        total = np.asarray(requests, dtype=np.int64)
        prompts = self.by_batch([one.prompts_a_wave for one in self.lengths])
        full, rest = np.divmod(total, prompts)
        first, last = np.flatnonzero(full), np.flatnonzero(rest)
        stages = [
            self._stage(first, prompts[first], full[first]),
            self._stage(last, rest[last], np.ones_like(last)),
        ]
        return [stage for stage in stages if stage.batch.size]

    def _stage(self, batch: Integers, prompts: Integers, repeats: Integers) -> WaveStage:
        place = self.owner[batch]
        steps = tuple(repeated(one.mapped(lambda array: array[place]), prompts) for one in self._chunk_sums)
        return WaveStage(batch=batch, requests=prompts, repeats=repeats, steps=steps)

    @functools.cached_property
    def _chunk_sums(self) -> tuple[BatchSums, ...]:
        new = np.asarray([one.chunk_tokens for one in self.lengths], dtype=np.float64)
        before = np.asarray([one.input_length - one.new_tokens for one in self.lengths], dtype=np.float64)
        cached = before[:, None] + np.cumsum(new, axis=1) - new
        windows = self.lengths[0].windows
        return tuple(request_sums(new[:, chunk], cached[:, chunk], windows=windows) for chunk in range(self.chunks))

    def largest_waves(self, requests: Integers) -> Sequence[WaveStage]:
        return self.waves(requests)

    def wave_requests(self, requests: Integers) -> FloatArray:
        return np.minimum(requests, self.by_batch([one.prompts_a_wave for one in self.lengths])).astype(np.float64)

    def decodes(self, requests: FloatArray, new_tokens: int) -> BatchSums:
        context = self._floats(lambda one: one.input_length + half_output(one.output_length, "physical"))
        one = request_sums(
            float(new_tokens), context, windows=self.lengths[0].windows, logits=float(new_tokens), anywhere=True
        )
        return repeated(one, requests)

    def cached_tokens(self, moment: Literal["prompt", "middle", "end"], requests: FloatArray) -> Sequence[CachedTokens]:
        """Prompt alone, with half of the output or with all of it."""
        share = {"prompt": 0.0, "middle": 0.5, "end": 1.0}[moment]
        tokens = self._floats(lambda one: one.input_length + share * one.output_length)
        return (CachedTokens(requests=np.asarray(requests, dtype=np.float64), tokens=tokens),)

    def _floats(self, number: Callable[[FixedLengths], float]) -> FloatArray:
        return np.asarray([number(one) for one in self.lengths], dtype=np.float64)[self.owner]
