"""A scenario's requests: when they arrive, how long they are, on which replica."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from evaluator.arithmetic import FloatArray, Integers
from evaluator.arrivals import streams
from evaluator.arrivals.play_rules import AskedRequests, StepPrices
from evaluator.arrivals.trace_caches import HeldTokens
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.inputs.images import Images
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.serving.encoding import encoded_images, spreads_images
from evaluator.serving.engine.closed_loop import marginal_prompts_s, steps_of
from evaluator.serving.engine.closed_run import kinds_of
from evaluator.serving.engine.encoders_apart import encoder_stage
from evaluator.serving.engine.request_kinds import RequestKind
from evaluator.serving.engine.step_tables import StepTable
from evaluator.serving.engine.tier_loads import load_seconds, reads_before, reads_first
from evaluator.serving.interface import Run
from store.errors import InputError
from store.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """A process, kinds of requests, and the client's share of their lengths."""

    process: streams.ArrivalProcess
    kinds: tuple[RequestKind, ...]
    shortest: float = 1.0
    tokens_per_step: float = 1.0
    replicas: int = 1


def requests_asked(asking: Asking, table: StepTable, engine: EngineProfile) -> AskedRequests:
    process, kinds = asking.process, asking.kinds
    order = streams.drawn_kinds(kinds, process.seed, process.requests)
    lengths = np.asarray([kind.new_tokens for kind in kinds], dtype=np.int64)
    steps = np.asarray([steps_of(kind.output_length, asking.tokens_per_step) for kind in kinds], dtype=np.int64)
    nodes = table.stretches + 1
    return AskedRequests(
        arrive_s=streams.unit_times(process),
        new_tokens=streams.drawn_lengths(lengths[order], asking.shortest, process.seed, 0),
        cached=np.asarray([kind.cached for kind in kinds], dtype=np.int64)[order],
        steps=streams.drawn_lengths(steps[order], asking.shortest, process.seed, 1),
        node=nodes * order,
        stretch=(table.stretches / lengths)[order],
        service_s=np.asarray(marginal_prompts_s(table, engine, alone=True))[order],
        replica=streams.dealt_replicas(asking.replicas, process.seed, process.requests),
    )


def requests_traced(
    trace: TracedArrivals, asking: Asking, table: StepTable, engine: EngineProfile, held: HeldTokens | None = None
) -> AskedRequests:
    """A trace at one request a second.

    `table` has the longest prompt's attention, of which others are beginnings; a `held` prefix is skipped."""
    outputs = trace.output_lengths
    cached = np.zeros_like(trace.input_lengths) if held is None else held.cached
    new_tokens = trace.input_lengths - cached
    a_token = table.stretches / table.input_length
    # 101 tokens, 2 a decode: 1 + 50 steps.
    steps = np.maximum(1, 1 + np.rint((outputs - 1) / asking.tokens_per_step)).astype(np.int64)
    whole = marginal_prompts_s(table, engine, alone=True)[0]
    return AskedRequests(
        arrive_s=streams.rescaled_times(trace.times),
        new_tokens=new_tokens,
        cached=cached,
        steps=steps,
        node=np.floor(a_token * cached).astype(np.int64),
        stretch=np.full(new_tokens.shape, a_token),
        service_s=whole * new_tokens / table.input_length,
        replica=streams.dealt_replicas(asking.replicas, asking.process.seed, new_tokens.size),
    )


def encoding_images(asked: AskedRequests, run: Run, prices: StepPrices, trace: TracedArrivals | None) -> AskedRequests:
    """Images stand before a prompt's text; a trace may state them."""
    images = run.scenario.workload.images
    if images is None or run.scenario.plan.encoder_devices:
        return asked
    count = images_asked(asked, run, trace)
    # A prompt that a client drew shorter than its images has them closer together.
    apart = np.minimum(float(images.tokens), np.maximum(asked.new_tokens / np.maximum(count, 1e-9), 1.0))
    each = prices.encoder_s[-1] / (prices.encoder_s.size - 1)
    return replace(
        asked,
        images=count,
        image_tokens=apart if spreads_images(run.scenario) else np.zeros_like(apart),
        service_s=asked.service_s + prices.prefill_factor * each * count,
    )


def images_asked(asked: AskedRequests, run: Run, trace: TracedArrivals | None) -> FloatArray:
    if trace is not None and trace.images is not None:
        return trace.images.astype(np.float64)
    return np.full(asked.arrive_s.shape, encoded_images(run.scenario.workload))


def seen_trace(trace: TracedArrivals, images: Images | None) -> TracedArrivals:
    """Logs that state images count their tokens (as Azure's of 2025); others get them added."""
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Before:
    """Seconds before the scheduler sees a request.

    `service_s` block the next one: of the instance where `shared`, else of the replica."""

    alone_s: FloatArray
    service_s: FloatArray
    shared: bool = False


def before_scheduling(
    asked: AskedRequests, run: Run, engine: EngineProfile, table: StepTable, trace: TracedArrivals | None
) -> Before:
    scenario, nothing = run.scenario, np.zeros_like(asked.arrive_s)
    if scenario.phase == "decode":
        return Before(alone_s=nothing, service_s=nothing)
    if scenario.plan.encoder_devices:
        stage = encoder_stage(run, engine, images_asked(asked, run, trace))
        return Before(alone_s=stage.alone_s, service_s=stage.service_s, shared=True)
    if not reads_before(scenario):
        return Before(alone_s=nothing, service_s=nothing)
    seconds = np.asarray([load_seconds(scenario, kind) for kind in kinds_of(scenario, run.source)])
    reading = np.asarray(seconds[asked.node // (table.stretches + 1)])
    return Before(alone_s=reading, service_s=reading)


def reading_before(asked: AskedRequests, run: Run, reading_s: FloatArray) -> Before:
    waits = reading_s if reads_first(run.scenario) else np.maximum(reading_s - asked.service_s, 0.0)
    return Before(alone_s=waits, service_s=waits)


def beyond(prices: StepPrices, nodes: int) -> StepPrices:
    """Extends the last stretch of attention, for prompts computed again with their answers."""
    if not nodes:
        return prices
    last = prices.attention[-1] - prices.attention[-2]
    further = prices.attention[-1] + last * np.arange(1.0, nodes + 1.0)
    return replace(prices, attention=np.concatenate((prices.attention, further)))


def when_ready(asked: AskedRequests, before: Before) -> AskedRequests:
    """Served in order of arrival, whatever is ready first."""
    if not before.alone_s.any():
        return asked
    ready = asked.arrive_s.copy()
    for replica in range(1 if before.shared else int(asked.replica.max()) + 1):
        mine = np.flatnonzero((before.alone_s > 0.0) & (before.shared | (asked.replica == replica)))
        service, arrive = before.service_s[mine], asked.arrive_s[mine]
        # Arrivals at 0, 1 and 9 s of 2 s each are ready at 2, 4 and 11 s.
        served = np.cumsum(service)
        begun = np.maximum.accumulate(arrive - (served - service)) + (served - service)
        ready[mine] = begun + before.alone_s[mine]
    return replace(asked, arrive_s=ready)


def at_rate(asked: AskedRequests, rate_per_s: float) -> AskedRequests:
    return replace(asked, arrive_s=asked.arrive_s / rate_per_s)


def at_once(asked: AskedRequests) -> AskedRequests:
    return replace(asked, arrive_s=np.zeros_like(asked.arrive_s))


def in_order(asked: AskedRequests, order: Integers) -> AskedRequests:
    arrays = {item.name: getattr(asked, item.name) for item in fields(asked)}
    return replace(asked, **{name: values[order] for name, values in arrays.items() if values is not None})
