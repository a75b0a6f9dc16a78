"""Batches of prompts whose lengths are distributed: compositions for prefill, the steady state for decode.

The counterpart of FixedLengths (evaluator.serving.batches) for length bins. Left out: decodes beside prefill steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from evaluator.composition import Ties, largest_remainder, realised_mean
from evaluator.serving.batches import CachedTokens, Convention, Integers, WaveStage, new_prompt_tokens
from evaluator.serving.packing import PackedSteps, PromptKind, pack
from evaluator.sums import BatchSums, FloatArray, composed, repeated, request_sums
from evaluator.workload import LengthBin

PrefillRule = Literal["packed", "whole"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedLengths:
    """A length distribution as a source of batches. `rule` `packed` fills steps of the token budget in bin order,
    `whole` runs a batch as one step (seed 002). `deviations` moves the decode step's keys by standard deviations."""

    bins: tuple[LengthBin, ...]
    hit_rate: float
    token_budget: int
    convention: Convention = "physical"
    rule: PrefillRule = "packed"
    windows: tuple[int, ...] = ()
    tokens_per_decode: int = 1
    deviations: float = 0.0

    @property
    def weights(self) -> FloatArray:
        """Probability of each bin."""
        weights = np.asarray([item.weight for item in self.bins], dtype=np.float64)
        return np.asarray(weights / weights.sum())

    @property
    def steady_weights(self) -> FloatArray:
        """Share of each bin among requests being decoded: probability x output length, because long outputs stay."""
        share = self.weights * np.asarray([item.output_length for item in self.bins])
        return np.asarray(share / share.sum())

    @property
    def prompts(self) -> tuple[PromptKind, ...]:
        """Tokens to prefill in a prompt of each bin; upstream ignores what the prefix cache holds."""
        return tuple(self._prompt(item) for item in self.bins)

    def _prompt(self, item: LengthBin) -> PromptKind:
        length = round(item.input_length)
        rate = self.hit_rate if item.prefix_cache_hit_rate is None else item.prefix_cache_hit_rate
        new = new_prompt_tokens(length, rate)
        return PromptKind(new_tokens=new, cached=0 if self.convention == "upstream" else length - new)

    @property
    def chunks(self) -> int:
        """Steps the longest prompt is split into."""
        longest = max(prompt.new_tokens for prompt in self.prompts)
        return 1 if self.rule == "whole" else -(-longest // self.token_budget)

    def composition(self, requests: Integers) -> Integers:
        """Requests of each bin in batches of these sizes. Upstream gives equal remainders to the longest bin."""
        ties: Ties = "last" if self.convention == "upstream" else "first"
        return largest_remainder(np.asarray(requests, dtype=np.int64), self.weights, ties=ties)

    def realised_mean(self, requests: Integers) -> FloatArray:
        """Mean prompt length of the composed batches."""
        return realised_mean(self.composition(requests), np.asarray([item.input_length for item in self.bins]))

    def waves(self, requests: Integers) -> Sequence[WaveStage]:
        """One stage a step: the k-th step of every batch that has one."""
        packed = self._packed(requests, first_only=False)
        stages = []
        for index in range(int(packed.count.max())):
            batch = np.flatnonzero(packed.count > index)
            step = packed.first[batch] + index
            stages.append(
                WaveStage(
                    batch=batch,
                    requests=packed.finished[step],
                    repeats=np.ones_like(batch),
                    steps=(_taken(packed.sums, step),),
                )
            )
        return stages

    def largest_waves(self, requests: Integers) -> Sequence[WaveStage]:
        """The first step of every batch: none has more tokens, and none more prompts, for short ones come first."""
        packed = self._packed(requests, first_only=True)
        batch = np.arange(packed.count.size)
        return [WaveStage(batch=batch, requests=packed.finished, repeats=np.ones_like(batch), steps=(packed.sums,))]

    def _packed(self, requests: Integers, *, first_only: bool) -> PackedSteps:
        samples = self.composition(requests)
        square = self.convention == "upstream"
        budget = self.token_budget if self.rule == "packed" else _everything(samples, self.prompts)
        return pack(samples, self.prompts, budget, windows=self.windows, square=square, first_only=first_only)

    def wave_requests(self, requests: Integers) -> FloatArray:
        """Prompts of mean length in one step, at least one."""
        mean = float(self.weights @ np.asarray([prompt.new_tokens for prompt in self.prompts]))
        in_step = max(1.0, np.floor(self.token_budget / mean)) if self.rule == "packed" else np.inf
        return np.minimum(requests, in_step).astype(np.float64)

    def decodes(self, requests: FloatArray, new_tokens: int) -> BatchSums:
        """The expected sums of requests in steady state, at ages uniform over their outputs."""
        inputs, outputs = self._lengths()
        kinds = request_sums(
            np.full(inputs.shape, float(new_tokens)),
            inputs + outputs / 2,
            windows=self.windows,
            square=self.convention == "upstream",
            logits=float(new_tokens),
        )
        mean = composed(self.steady_weights[None, :], kinds)
        batch = repeated(_taken(mean, np.zeros(1, dtype=np.int64)), requests)
        if not self.deviations:
            return batch
        keys = self.deviations * np.sqrt(np.asarray(requests) * self.context_variance())
        return replace(batch, keys=batch.keys + keys, pairs=batch.pairs + new_tokens * keys)

    def context_variance(self) -> float:
        """Variance of one request's context over bins and ages: age is uniform, so E[c^2] = I^2 + I O + O^2 / 3."""
        inputs, outputs = self._lengths()
        mean = float(self.steady_weights @ (inputs + outputs / 2))
        square = float(self.steady_weights @ (inputs**2 + inputs * outputs + outputs**2 / 3))
        return max(square - mean**2, 0.0)

    def cached_tokens(self, moment: Literal["prompt", "middle", "end"], requests: FloatArray) -> Sequence[CachedTokens]:
        """Full lengths of the composition at the end, the steady-state mean in the middle."""
        inputs, outputs = self._lengths()
        number = np.asarray(requests, dtype=np.float64)
        if moment == "end":
            samples = self.composition(np.rint(number).astype(np.int64)).astype(np.float64)
            return [
                CachedTokens(requests=samples[:, index], tokens=np.asarray(inputs[index] + outputs[index]))
                for index in range(len(self.bins))
            ]
        share = self.steady_weights if moment == "middle" else self.weights
        extra = self.tokens_per_decode + 1 if moment == "middle" and self.convention == "upstream" else 0
        generated = outputs / 2 + extra if moment == "middle" else np.zeros_like(outputs)
        return [
            CachedTokens(requests=number * share[index], tokens=np.asarray(inputs[index] + generated[index]))
            for index in range(len(self.bins))
        ]

    def _lengths(self) -> tuple[FloatArray, FloatArray]:
        inputs = np.asarray([item.input_length for item in self.bins], dtype=np.float64)
        return inputs, np.asarray([item.output_length for item in self.bins], dtype=np.float64)


def _everything(samples: Integers, prompts: tuple[PromptKind, ...]) -> int:
    """A budget no batch exceeds, so that each is one step."""
    return int((samples * np.asarray([prompt.new_tokens for prompt in prompts])).sum(axis=1).max())


def _taken(sums: BatchSums, index: Integers) -> BatchSums:
    return BatchSums(
        tokens=sums.tokens[index],
        sequences=sums.sequences[index],
        pairs=sums.pairs[index],
        keys=sums.keys[index],
        windows=tuple((width, pairs[index], keys[index]) for width, pairs, keys in sums.windows),
    )
