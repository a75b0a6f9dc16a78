"""Batches of prompts whose lengths are distributed: compositions for prefill, the steady state for decode.

The counterpart of FixedLengths (evaluator.serving.batches) for length bins. Left out: decodes beside prefill steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, dot
from evaluator.graph.sums import BatchSums, composed, repeated, request_sums
from evaluator.inputs.model import Span
from evaluator.inputs.workloads.workload import LengthBin, new_prompt_tokens
from evaluator.serving.batches import CachedTokens, WaveStage, half_output
from evaluator.serving.engine.request_kinds import RequestKind, even_order, merged
from evaluator.serving.waves.ladders import LARGEST_STEP_COUNT, CompositionLadder, StepLadder
from evaluator.serving.waves.packing import PackedSteps, PromptKind, Ties, largest_remainder, pack, realised_mean, taken
from store.light_dataclass import dataclass
from store.schema import Convention

PrefillRule = Literal["packed", "whole", "even"]
STEPS_TOGETHER = 65_536  # of blocks, where steps are too many to be kept


@dataclass(frozen=True, kw_only=True)  # no slots: what follows from the bins is worked out once and kept
class MixedLengths:
    """A length distribution as a source of batches. `rule` `packed` fills steps of the token budget with short prompts
    first, `whole` runs a batch as one step (seed 002); under `even` a batch holds the first requests that users of an
    engine's loop ask, instead of the largest remainders. `deviations` moves the decode step's keys by standard
    deviations: with several, its sums have a column for each."""

    bins: tuple[LengthBin, ...]
    hit_rate: float
    token_budget: int
    convention: Convention = "physical"
    rule: PrefillRule = "packed"
    windows: tuple[Span, ...] = ()
    tokens_per_decode: int = 1
    deviations: tuple[float, ...] = ()

    @functools.cached_property
    def weights(self) -> FloatArray:
        weights = np.asarray([item.weight for item in self.bins], dtype=np.float64)
        return np.asarray(weights / weights.sum())

    @functools.cached_property
    def steady_weights(self) -> FloatArray:
        """Share of each bin among requests being decoded: probability x output length, because long outputs stay."""
        # Two bins of 1/2 with outputs of 100 and 300: 1/4 and 3/4.
        share = self.weights * self._outputs
        return np.asarray(share / share.sum())

    @functools.cached_property
    def prompts(self) -> tuple[PromptKind, ...]:
        """Tokens to prefill in a prompt of each bin; upstream ignores what the prefix cache holds."""
        return tuple(self._prompt(item) for item in self.bins)

    @functools.cached_property
    def kinds(self) -> tuple[RequestKind, ...]:
        """Requests by kind: bins in the order of their lengths, equal ones as one."""
        return merged(self._requests)

    @functools.cached_property
    def _requests(self) -> tuple[RequestKind, ...]:
        return tuple(
            RequestKind(
                new_tokens=prompt.new_tokens,
                cached=prompt.cached,
                output_length=float(item.output_length),
                weight=float(weight),
            )
            for prompt, item, weight in zip(self.prompts, self.bins, self.weights, strict=True)
        )

    def _prompt(self, item: LengthBin) -> PromptKind:
        # A bin of midpoint 251.5 stands for 252 tokens, under upstream for 251.
        length = int(item.input_length) if self.convention == "upstream" else round(item.input_length)
        rate = self.hit_rate if item.prefix_cache_hit_rate is None else item.prefix_cache_hit_rate
        new = new_prompt_tokens(length, rate)
        return PromptKind(new_tokens=new, cached=0 if self.convention == "upstream" else length - new)

    @functools.cached_property
    def chunks(self) -> int:
        return 1 if self.rule == "whole" else -(-int(self._new_tokens.max()) // self.token_budget)

    def composition(self, requests: Integers) -> Integers:
        """Requests of each bin in batches of these sizes. Upstream gives equal remainders to the longest bin."""
        return self._compositions.rows(np.asarray(requests, dtype=np.int64))

    def realised_mean(self, requests: Integers) -> FloatArray:
        return realised_mean(self.composition(requests), self._inputs)

    def packed(self, requests: Integers) -> PackedSteps:
        return self._steps.packed(requests)

    def blocks(self, requests: Integers) -> list[slice]:
        """Neighbouring batches to be priced together: all of them, or as many as keep memory small."""
        total = np.cumsum(self._step_estimate(requests))
        if total[-1] <= LARGEST_STEP_COUNT:
            return [slice(0, requests.size)]
        ends = np.flatnonzero(np.diff(total // STEPS_TOGETHER, append=-1.0)) + 1
        return [slice(int(start), int(end)) for start, end in zip((0, *ends[:-1]), ends, strict=True)]

    def _step_estimate(self, requests: Integers) -> FloatArray:
        budget = self.token_budget if self.rule != "whole" else np.inf
        return np.asarray(1.0 + requests * (float(dot(self.weights, self._new_tokens)) / budget))

    def waves(self, requests: Integers) -> Sequence[WaveStage]:
        """One stage a step: the k-th step of every batch that has one."""
        packed = self.packed(requests)
        stages = []
        for index in range(int(packed.count.max())):
            batch = np.flatnonzero(packed.count > index)
            step = packed.first[batch] + index
            stages.append(
                WaveStage(
                    batch=batch,
                    requests=packed.finished[step],
                    repeats=np.ones_like(batch),
                    steps=(taken(packed.sums, step),),
                )
            )
        return stages

    def largest_waves(self, requests: Integers) -> Sequence[WaveStage]:
        """The first step of every batch: none has more tokens, and none more prompts, for short ones come first."""
        packed = self._first_steps.packed(requests)
        batch = np.arange(packed.count.size)
        return [WaveStage(batch=batch, requests=packed.finished, repeats=np.ones_like(batch), steps=(packed.sums,))]

    def wave_requests(self, requests: Integers) -> FloatArray:
        mean = float(dot(self.weights, self._new_tokens))
        in_step = max(1.0, np.floor(self.token_budget / mean)) if self.rule != "whole" else np.inf
        return np.minimum(requests, in_step).astype(np.float64)

    def decodes(self, requests: FloatArray, new_tokens: int) -> BatchSums:
        one = self._steady_sums(new_tokens)
        if not self.deviations:
            return repeated(one, requests)
        number = np.asarray(requests, dtype=np.float64)[..., None]
        # 100 requests of variance 30,000 each, 2 deviations: 2 x sqrt(3,000,000) = 3,464 keys more.
        keys = np.asarray(self.deviations) * np.sqrt(number * self.context_variance)
        batch = repeated(one, number)
        return replace(batch, keys=batch.keys + keys, pairs=batch.pairs + new_tokens * keys)

    def _steady_sums(self, new_tokens: int) -> BatchSums:
        if new_tokens not in self._steady and self.convention == "upstream":
            one = request_sums(
                float(new_tokens), self._mean_context, windows=self.windows, square=True, logits=float(new_tokens)
            )
            self._steady[new_tokens] = repeated(one, np.ones(1))
        elif new_tokens not in self._steady:
            kinds = request_sums(
                np.full(self._inputs.shape, float(new_tokens)),
                self._inputs + self._outputs / 2,
                windows=self.windows,
                square=self.convention == "upstream",
                logits=float(new_tokens),
                anywhere=True,
            )
            self._steady[new_tokens] = composed(self.steady_weights[None, :], kinds)
        return self._steady[new_tokens]

    @functools.cached_property
    def _steady(self) -> dict[int, BatchSums]:
        return {}

    @functools.cached_property
    def _mean_context(self) -> float:
        """Upstream decodes requests of the mean prompt, in whole tokens, and half of the mean output."""
        # Prompts of 250 and 1,000 in shares of 2/3 and 1/3, output 100: 500 + 50 = 550 tokens.
        half = half_output(float(dot(self.weights, self._outputs)), self.convention)
        return float(np.floor(dot(self.weights, np.floor(self._inputs)) + 1e-9)) + half

    def deviating(self, deviations: tuple[float, ...]) -> MixedLengths:
        if deviations not in self._deviating:
            self._deviating[deviations] = replace(self, deviations=deviations)
        return self._deviating[deviations]

    @functools.cached_property
    def _deviating(self) -> dict[tuple[float, ...], MixedLengths]:
        return {}

    @functools.cached_property
    def context_variance(self) -> float:
        """Variance of one request's context over bins and ages: age is uniform, so E[c^2] = I^2 + I O + O^2 / 3."""
        # One bin, input 1,000, output 600: 1,720,000 - 1,300^2 = 30,000.
        inputs, outputs = self._inputs, self._outputs
        mean = float(dot(self.steady_weights, inputs + outputs / 2))
        square = float(dot(self.steady_weights, inputs**2 + inputs * outputs + outputs**2 / 3))
        return max(square - mean * mean, 0.0)

    def cached_tokens(self, moment: Literal["prompt", "middle", "end"], requests: FloatArray) -> Sequence[CachedTokens]:
        """Full lengths of the composition at the end, the steady-state mean in the middle; a row a bin."""
        number = np.asarray(requests, dtype=np.float64)
        if moment == "end":
            samples = self.composition(np.rint(number).astype(np.int64)).T.astype(np.float64)
            return (CachedTokens(requests=samples, tokens=(self._inputs + self._outputs)[:, None]),)
        if moment == "prompt":
            return (CachedTokens(requests=number * self.weights[:, None], tokens=self._inputs[:, None]),)
        if self.convention == "upstream":
            return (CachedTokens(requests=number, tokens=np.asarray(self._mean_context + self.tokens_per_decode + 1)),)
        middle = self._inputs + self._outputs / 2
        return (CachedTokens(requests=number * self.steady_weights[:, None], tokens=middle[:, None]),)

    @functools.cached_property
    def _inputs(self) -> FloatArray:
        return np.asarray([item.input_length for item in self.bins], dtype=np.float64)

    @functools.cached_property
    def _outputs(self) -> FloatArray:
        return np.asarray([item.output_length for item in self.bins], dtype=np.float64)

    @functools.cached_property
    def _new_tokens(self) -> Integers:
        return np.asarray([prompt.new_tokens for prompt in self.prompts], dtype=np.int64)

    @functools.cached_property
    def _compositions(self) -> CompositionLadder:
        ties: Ties = "last" if self.convention == "upstream" else "first"
        if self.rule == "even":
            return CompositionLadder(self._first_requests, len(self.bins))
        return CompositionLadder(lambda sizes: largest_remainder(sizes, self.weights, ties=ties), len(self.bins))

    def _first_requests(self, sizes: Integers) -> Integers:
        """Requests of each bin among the first so many; bins that are alike share theirs by largest remainder."""
        order = even_order(self.kinds, int(sizes.max()))
        samples = np.zeros((sizes.size, len(self.bins)), dtype=np.int64)
        for number, kind in enumerate(self.kinds):
            asked = np.searchsorted(np.flatnonzero(order == number), sizes)
            alike = [index for index, one in enumerate(self._requests) if replace(one, weight=kind.weight) == kind]
            samples[:, alike] = largest_remainder(asked, self.weights[alike])
        return samples

    @functools.cached_property
    def _steps(self) -> StepLadder:
        return StepLadder(self._pack, lambda requests: int(self._step_estimate(requests).sum()))

    @functools.cached_property
    def _first_steps(self) -> StepLadder:
        return StepLadder(functools.partial(self._pack, first_only=True), lambda requests: requests.size)

    def _pack(self, requests: Integers, *, first_only: bool = False) -> PackedSteps:
        samples = self.composition(requests)
        # Under the rule `whole` no batch exceeds its budget, so that each is one step.
        budget = self.token_budget if self.rule != "whole" else int((samples @ self._new_tokens).max())
        ascending = np.argsort(self._inputs, kind="stable")  # bins of a trace stand in another order
        return pack(
            samples[:, ascending],
            tuple(self.prompts[index] for index in ascending),
            budget,
            windows=self.windows,
            square=self.convention == "upstream",
            first_only=first_only,
        )
