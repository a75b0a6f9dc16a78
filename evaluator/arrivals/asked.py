"""The requests of a scenario in the order in which they arrive: when, how long, and on which replica.

Not here: streams and draws (evaluator.arrivals.streams)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.arrivals.play_rules import AskedRequests, StepPrices
from evaluator.arrivals.streams import (
    ArrivalProcess,
    dealt_replicas,
    drawn_kinds,
    drawn_lengths,
    rescaled_times,
    unit_times,
)
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.inputs.launchable import rule_of
from evaluator.inputs.vision.images import Images
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.serving.encoding import encoded_images
from evaluator.serving.engine.closed_loop import marginal_prompts_s, steps_of
from evaluator.serving.engine.request_kinds import RequestKind
from evaluator.serving.engine.step_tables import StepTable
from evaluator.serving.engine.tier_loads import load_seconds, reads_before
from evaluator.serving.interface import Run
from store.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """Who asks a replicated instance: a process, its kinds of requests, and the client's share of their lengths."""

    process: ArrivalProcess
    kinds: tuple[RequestKind, ...]
    shortest: float = 1.0
    tokens_per_step: float = 1.0
    replicas: int = 1


def requests_asked(asking: Asking, table: StepTable, engine: EngineProfile) -> AskedRequests:
    """Requests at one a second. `table` holds the attention of every kind."""
    process, kinds = asking.process, asking.kinds
    order = drawn_kinds(kinds, process.seed, process.requests)
    lengths = np.asarray([kind.new_tokens for kind in kinds], dtype=np.int64)
    steps = np.asarray([steps_of(kind.output_length, asking.tokens_per_step) for kind in kinds], dtype=np.int64)
    nodes = table.stretches + 1
    return AskedRequests(
        arrive_s=unit_times(process),
        new_tokens=drawn_lengths(lengths[order], asking.shortest, process.seed, 0),
        cached=np.asarray([kind.cached for kind in kinds], dtype=np.int64)[order],
        steps=drawn_lengths(steps[order], asking.shortest, process.seed, 1),
        node=nodes * order,
        stretch=(table.stretches / lengths)[order],
        service_s=np.asarray(marginal_prompts_s(table, engine, alone=True))[order],
        replica=dealt_replicas(asking.replicas, process.seed, process.requests),
    )


def requests_traced(trace: TracedArrivals, asking: Asking, table: StepTable, engine: EngineProfile) -> AskedRequests:
    """Requests of a trace: its own times at one a second, its own prompts and answers.

    `table` tabulates the attention of the longest prompt, which others are beginnings of."""
    new_tokens, outputs = trace.input_lengths, trace.output_lengths
    # 101 tokens, 2 a decode: 1 + 50 steps.
    steps = np.maximum(1, 1 + np.rint((outputs - 1) / asking.tokens_per_step)).astype(np.int64)
    whole = marginal_prompts_s(table, engine, alone=True)[0]
    return AskedRequests(
        arrive_s=rescaled_times(trace.times),
        new_tokens=new_tokens,
        cached=np.zeros_like(new_tokens),
        steps=steps,
        node=np.zeros_like(new_tokens),
        stretch=np.full(new_tokens.shape, table.stretches / table.input_length),
        service_s=whole * new_tokens / table.input_length,
        replica=dealt_replicas(asking.replicas, asking.process.seed, new_tokens.size),
    )


def encoding_images(asked: AskedRequests, run: Run, prices: StepPrices, trace: TracedArrivals | None) -> AskedRequests:
    """The requests with their images, which stand before a prompt's text; those of a trace where it states them."""
    images = run.scenario.workload.images
    if images is None:
        return asked
    if trace is not None and trace.images is not None:
        count = trace.images.astype(np.float64)
    else:
        count = np.full(asked.arrive_s.shape, encoded_images(run.scenario.workload))
    # A prompt that a client drew shorter than its images has them closer together.
    apart = np.minimum(float(images.tokens), np.maximum(asked.new_tokens / np.maximum(count, 1e-9), 1.0))
    at_once = rule_of(run.scenario.serving_model) != "vllm"
    each = prices.encoder_s[-1] / (prices.encoder_s.size - 1)
    return replace(
        asked,
        images=count,
        image_tokens=np.zeros_like(apart) if at_once else apart,
        service_s=asked.service_s + prices.prefill_factor * each * count,
    )


def seen_trace(trace: TracedArrivals, images: Images | None) -> TracedArrivals:
    """A trace as a model sees its prompts: lengths of a log that states images count them (as Azure's of 2025 does), to
    those of others their tokens are added."""
    if images is None:
        return trace
    if trace.images is None:
        return replace(trace, input_lengths=trace.input_lengths + images.prompt_tokens, images=None)
    short = np.flatnonzero(trace.input_lengths <= trace.images * images.tokens)
    if short.size:
        first = int(short[0])
        raise InputError(
            f"request {first + 1} of the log has {int(trace.images[first])} images in {int(trace.input_lengths[first])}"
            f" tokens, but one of {images.width}x{images.height} is {images.tokens} tokens to this model"
            f" ({short.size} such requests)",
            hint="a smaller `image_size`",
        )
    return trace


def read_first(asked: AskedRequests, run: Run, kinds: Sequence[RequestKind], nodes: int) -> FloatArray:
    """Seconds that the keys of each request take to an engine that starts it when they are there."""
    if run.scenario.phase == "decode" or not reads_before(run.scenario):
        return np.zeros_like(asked.arrive_s)
    seconds = np.asarray([load_seconds(run.scenario, kind) for kind in kinds])
    return np.asarray(seconds[asked.node // nodes])


def when_read(asked: AskedRequests, reading_s: FloatArray) -> AskedRequests:
    """The requests as the scheduler sees them: a replica's link carries their keys one request after another.

    Read from when they come: what waits for a seat first, too."""
    if not reading_s.any():
        return asked
    there = asked.arrive_s.copy()
    for replica in range(int(asked.replica.max()) + 1):
        mine = asked.replica == replica
        # Arrivals at 0, 1 and 9 s that read for 2 s each are there at 2, 4 and 11 s.
        read = np.cumsum(reading_s[mine])
        there[mine] = read + np.maximum.accumulate(asked.arrive_s[mine] - (read - reading_s[mine]))
    return replace(asked, arrive_s=there)


def at_rate(asked: AskedRequests, rate_per_s: float) -> AskedRequests:
    """The same requests at another rate."""
    return replace(asked, arrive_s=asked.arrive_s / rate_per_s)


def at_once(asked: AskedRequests) -> AskedRequests:
    """The same requests, all there at the start."""
    return replace(asked, arrive_s=np.zeros_like(asked.arrive_s))
