"""The batches of a workload: the four sums of its prefill waves and decode steps, and the tokens it caches.

`BatchSource` is the seam between workloads and the serving formulas; `FixedLengths` is the source for one length,
`MixedLengths` (evaluator.serving.waves.mixed) that for a distribution. Nothing here knows what a batch costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Protocol

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.graph.sums import BatchSums, repeated, request_sums
from evaluator.inputs.model import Span
from evaluator.inputs.workloads.workload import new_prompt_tokens
from store.light_dataclass import dataclass
from store.schema import Convention


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveStage:
    """`repeats[i]` equal prefill waves of `requests[i]` prompts each, for the batch at index `batch[i]`.

    A wave takes the steps of `steps`, one after the other (one a chunk of its prompts); their arrays have the length of
    `batch`, or 1 where every batch has the same wave. Stages follow each other in time. Prompts and repeats are counted
    over what is scheduled as one (a replica; all replicas under upstream's convention), sums over one replica. Prompts
    of a stage that is not `final` go on in a later one."""

    batch: Integers
    requests: Integers
    repeats: Integers
    steps: tuple[BatchSums, ...]
    final: bool = True


class BatchSource(Protocol):
    """Sums and tokens of the batches of a workload. `requests` are requests in flight in one replica, one entry a
    batch."""

    @property
    def chunks(self) -> int: ...

    def waves(self, requests: Integers) -> Sequence[WaveStage]:
        """Prefill of all requests, all there at the start, in waves under the token budget."""

    def largest_waves(self, requests: Integers) -> Sequence[WaveStage]: ...

    def decodes(self, requests: FloatArray, new_tokens: int) -> BatchSums:
        """One decode step over all requests half-way through their output, each adding `new_tokens`."""

    def cached_tokens(
        self, moment: Literal["prompt", "middle", "end"], requests: FloatArray
    ) -> Sequence[CachedTokens]: ...

    def wave_requests(self, requests: Integers) -> FloatArray: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTokens:
    """`requests` requests of `tokens` cached tokens each, one entry a batch; with two dimensions, a row a kind."""

    requests: FloatArray
    tokens: FloatArray


def chunk_lengths(new_tokens: int, token_budget: int, convention: Convention = "physical") -> tuple[int, ...]:
    """As few chunks as fit the budget, as equal as can be: 20000 over 8192 gives 6667, 6667, 6666.

    Upstream fills the budget and leaves the rest to the last one: 8192, 8192, 3616."""
    chunks = -(-new_tokens // token_budget)
    size = token_budget if convention == "upstream" and chunks > 1 else -(-new_tokens // chunks)
    return (*(size for _ in range(chunks - 1)), new_tokens - (chunks - 1) * size)


def half_output(output_length: float, convention: Convention) -> float:
    # 1,501 tokens: 750.5, or 750.
    return float(output_length // 2) if convention == "upstream" else output_length / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLengths:
    """Every request has the same lengths. `replicas` matter to upstream alone, which schedules them as one."""

    input_length: int
    output_length: float
    hit_rate: float
    token_budget: int
    convention: Convention = "physical"
    replicas: int = 1
    windows: tuple[Span, ...] = ()
    tokens_per_decode: int = 1

    @property
    def new_tokens(self) -> int:
        return new_prompt_tokens(self.input_length, self.hit_rate)

    @property
    def chunk_tokens(self) -> tuple[int, ...]:
        return chunk_lengths(self.new_tokens, self.token_budget, self.convention)

    @property
    def chunks(self) -> int:
        return len(self.chunk_tokens)

    @property
    def scheduled_replicas(self) -> int:
        return self.replicas if self.convention == "upstream" else 1

    @property
    def prompts_a_wave(self) -> int:
        """Prompts that the token budget admits at once, over what is scheduled as one."""
        # Budget 8,192: 4 prompts of 2,048 tokens, or 1 of 20,000, which goes in chunks of 6,667.
        return self.token_budget * self.scheduled_replicas // self.chunk_tokens[0]

    def waves(self, requests: Integers) -> Sequence[WaveStage]:
        """Full waves, then the rest of the prompts. Upstream runs the first chunks of all prompts, then the second."""
        if self.convention == "physical":
            return self._waves(requests, self.prompts_a_wave, self.chunk_sums())
        budget, ends = self.token_budget * self.scheduled_replicas, self.chunks - 1
        return [
            replace(stage, final=index == ends)
            for index, (size, sums) in enumerate(zip(self.chunk_tokens, self.chunk_sums(), strict=True))
            for stage in self._waves(requests, budget // size, (sums,))
        ]

    def _waves(self, requests: Integers, prompts: int, chunks: Sequence[BatchSums]) -> list[WaveStage]:
        total = np.asarray(requests, dtype=np.int64) * self.scheduled_replicas
        full, rest = np.divmod(total, prompts)
        first, last = np.flatnonzero(full), np.flatnonzero(rest)
        alike = np.asarray([prompts], dtype=np.int64)
        stages = [
            WaveStage(batch=first, requests=alike, repeats=full[first], steps=self._steps(alike, chunks)),
            WaveStage(
                batch=last, requests=rest[last], repeats=np.ones_like(last), steps=self._steps(rest[last], chunks)
            ),
        ]
        return [stage for stage in stages if stage.batch.size]

    def largest_waves(self, requests: Integers) -> Sequence[WaveStage]:
        return self.waves(requests)

    def wave_requests(self, requests: Integers) -> FloatArray:
        a_replica = -(-self.prompts_a_wave // self.scheduled_replicas)
        return np.minimum(requests, a_replica).astype(np.float64)

    def chunk_sums(self) -> tuple[BatchSums, ...]:
        """Sums of one prompt's chunks, one after the other. Upstream ignores what the prefix cache holds."""
        # 20,000 tokens, 5,000 of them cached, budget 8,192: 7,500 after 5,000, then 7,500 after 12,500.
        cached = 0 if self.convention == "upstream" else self.input_length - self.new_tokens
        sums = []
        for size in self.chunk_tokens:
            sums.append(request_sums(size, cached, windows=self.windows, square=self.convention == "upstream"))
            cached += size
        return tuple(sums)

    def _steps(self, prompts: Integers, chunks: Sequence[BatchSums]) -> tuple[BatchSums, ...]:
        # Upstream deals a wave's prompts out to its replicas: the fullest one decides.
        a_replica = -(-prompts // self.scheduled_replicas)
        return tuple(repeated(one, a_replica) for one in chunks)

    def decodes(self, requests: FloatArray, new_tokens: int) -> BatchSums:
        """Context I + O / 2 plus the tokens of the step (verified against upstream's probes)."""
        # Input 1,000, output 200, one new token: it reads 1,000 + 100 + 1 = 1,101 keys.
        one = request_sums(
            float(new_tokens),
            self.input_length + half_output(self.output_length, self.convention),
            windows=self.windows,
            square=self.convention == "upstream",
            logits=float(new_tokens),
            anywhere=True,
        )
        return repeated(one, requests)

    def cached_tokens(self, moment: Literal["prompt", "middle", "end"], requests: FloatArray) -> Sequence[CachedTokens]:
        """Prompt alone, with half of the output or with all of it. Upstream adds a step's tokens and one slot."""
        # Input 1,000, output 200: 1,000, 1,100 and 1,200 tokens; upstream's middle is 1,100 + 1 + 1 = 1,102.
        half = half_output(self.output_length, self.convention)
        generated = {"prompt": 0.0, "middle": half, "end": self.output_length}[moment]
        if moment == "middle" and self.convention == "upstream":
            generated += self.tokens_per_decode + 1
        tokens = np.asarray(self.input_length + generated)
        return (CachedTokens(requests=np.asarray(requests, dtype=np.float64), tokens=tokens),)
