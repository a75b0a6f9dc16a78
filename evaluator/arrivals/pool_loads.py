"""A trace at many rates on prefill instances that cache prompt blocks."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.arrivals.asked import seen_trace
from evaluator.arrivals.histograms import BATCHES, BINS, counted_cells, counted_parts
from evaluator.arrivals.loads import WARM_UP, Load, PlaySettings, RequestTimesMs, ladder, prices_of_trace
from evaluator.arrivals.play_rules import StepPrices
from evaluator.arrivals.prefix_pools import PooledRequests, PoolRules, PoolSettings, PromptSeconds, play_pool
from evaluator.arrivals.streams import rescaled_times
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.inputs.workloads.arrival_times import BLOCK_TOKENS, TracedArrivals
from evaluator.pricing.memory import kv_bytes
from evaluator.serving.encoding import images_a_step
from evaluator.serving.engine.stages import in_rounds
from evaluator.serving.interface import Run
from evaluator.serving.occupancy import kv_cache_bits
from evaluator.serving.pairs import receiving_ms
from store.errors import InputError


class PoolPlayer:
    def __init__(
        self, run: Run, engine: EngineProfile, settings: PlaySettings, pool: PoolSettings, trace: TracedArrivals
    ) -> None:
        if run.scenario.phase != "prefill" or run.scenario.plan.dp > 1:
            raise InputError("a pool is of prefill instances of one replica", hint="`mode=prefill`")
        if trace.blocks is None:
            raise InputError("a pool needs the hashes of prompt blocks", hint="a trace whose requests have `hash_ids`")
        _check_images(run, trace)
        trace = seen_trace(trace, run.scenario.workload.images)
        engine = in_rounds(engine, run.scenario.plan)
        prices, table = prices_of_trace(run, engine, settings.seats, trace)
        self.run, self.engine, self.pool, self.trace = run, engine, pool, trace
        self.images = None if run.scenario.workload.images is None else trace.images
        spacing, together = image_rules(run, engine.token_budget)
        self.prompt_s = prompt_seconds(
            prices, engine.token_budget, table.stretches / table.input_length, spacing, together
        )
        self.rules = PoolRules(
            policy=pool.policy,
            instances=pool.instances,
            cache_blocks=pool.cache_blocks,
            balance_threshold=pool.balance_threshold,
            token_transfer_s=_token_transfer_s(run),
            reject_s=inf if settings.reject_ms is None else 1e-3 * settings.reject_ms,
            seed=settings.process.seed,
        )
        self.unit_times = rescaled_times(trace.times)
        everything = self._played(
            PoolRules(policy="load", instances=pool.instances, cache_blocks=pool.cache_blocks), inf
        )
        self.saturation_per_s = trace.times.size / (pool.instances * float(everything.ttft_s.max()))

    def rates(self, asked: Sequence[float] | None) -> tuple[float, ...]:
        """As asked, or a ladder below the pool's saturation."""
        return ladder(self.saturation_per_s) if asked is None else tuple(asked)

    def _played(self, rules: PoolRules, rate: float) -> PooledRequests:
        times = self.unit_times / (rate * self.pool.instances)
        return play_pool(
            rules, self.prompt_s, times, self.trace.input_lengths, self.trace.blocks or (), images=self.images
        )

    def load(self, rate: float, *, keep_requests: bool = False) -> Load:
        played, prompts = self._played(self.rules, rate), self.trace.input_lengths
        count = prompts.size
        first = count - BATCHES * (int(count * (1.0 - WARM_UP)) // BATCHES)
        ttft = 1e3 * played.ttft_s[first:]
        fine = ~np.isnan(ttft)
        batch = np.arange(ttft.size) * BATCHES // ttft.size
        entered = ~np.isnan(played.ttft_s)
        arrived = self.unit_times / (rate * self.pool.instances)
        span = max(float((arrived + np.nan_to_num(played.ttft_s)).max()), 1e-12)
        none = np.zeros(int(fine.sum()))
        return Load(
            rate_per_s=rate,
            saturation_per_s=self.saturation_per_s,
            requests=ttft.size,
            rejected=int((~fine).sum()),
            preempted=0,
            in_flight=float(played.ttft_s[entered].sum()) / (span * self.pool.instances),
            busy_share=min(1.0, played.busy_s / (span * self.pool.instances)),
            output_tokens_per_s=float(entered.sum()) / (span * self.pool.instances),
            ttft_mean_ms=float(ttft[fine].mean()) if fine.any() else 0.0,
            tpot_mean_ms=0.0,
            outside_ms=receiving_ms(self.engine.request_ms, self.engine.handover_ms)
            + self.run.scenario.serving_cost_ms,
            seats=1,
            kv_tokens=float(BLOCK_TOKENS * self.pool.cache_blocks),
            cells=counted_cells(ttft[fine], none, batch[fine]),
            parts=counted_parts(ttft[fine], none),
            token_gaps=np.zeros(BINS, dtype=np.int64),
            request_times=self._times(ttft, 1e3 * arrived[first:], first) if keep_requests else None,
            hit_rate=played.hit_rate(prompts),
            rejected_prompt_share=float(prompts[~entered].sum() / prompts.sum()),
        )

    def _times(self, ttft: FloatArray, arrival_ms: FloatArray, first: int) -> RequestTimesMs:
        none = np.zeros(ttft.size, dtype=np.int64)
        return RequestTimesMs(
            ttft=ttft,
            tpot=0.0 * ttft,
            e2e=ttft,
            arrival_ms=arrival_ms,
            prompt=self.trace.input_lengths[first:],
            answer=none + 1,
            worst_gap=0.0 * ttft,
            preempted=none,
        )


def _check_images(run: Run, trace: TracedArrivals) -> None:
    """Refuses images that hashes do not cover, or that other devices encode."""
    if run.scenario.workload.images is None:
        return
    if trace.images is None:
        raise InputError(
            "the log does not say how many images its requests have, and its hashes are of prompts without any",
            hint="a log with `num_images`, or leave `prefill_policy` or `images` out",
        )
    if run.scenario.plan.encoder_devices:
        raise InputError("a pool encodes images by itself", hint="leave `encoder_devices` out")


def image_rules(run: Run, token_budget: int) -> tuple[int, float]:
    """Prompt tokens an image, and images a step. Without a cap all come with a prompt's first."""
    images = run.scenario.workload.images
    return (0 if images is None else images.tokens), images_a_step(run.scenario, token_budget)


def prompt_seconds(
    prices: StepPrices, token_budget: int, nodes_a_token: float, image_tokens: int = 0, images_together: float = inf
) -> PromptSeconds:
    """A prompt alone, in full steps of the budget and the rest.

    Cached images are not encoded; a step ends before one image too many, as in the simulation."""
    nodes = np.arange(prices.attention.size)
    spaced = prices.spacing * np.arange(prices.linear.size)
    counted, last = np.arange(prices.encoder_s.size), prices.encoder_s.size - 1

    def linear(tokens: int) -> float:
        return float(np.interp(tokens, spaced, prices.linear) * max(1.0, tokens / spaced[-1]))

    def attention(tokens: int) -> float:
        return float(np.interp(tokens * nodes_a_token, nodes, prices.attention))

    def encoder(images: int) -> float:
        return float(np.interp(images, counted, prices.encoder_s) * max(1.0, images / last))

    host: float = prices.step_s + prices.prompt_step_s + prices.per_prompt_s
    own = float(prices.prefill_factor) * float(prices.own_s[0])
    full_step = linear(token_budget)

    factor = float(prices.prefill_factor)

    def of_text(cached: int, prompt: int) -> float:
        full, rest = divmod(prompt - cached, token_budget)
        products = full * full_step + (linear(rest) if rest else 0.0)
        steps = full + (rest > 0)
        return steps * (host + own) + factor * (products + attention(prompt) - attention(cached))

    def seconds(cached: int, prompt: int, images: int = 0) -> float:
        encoded = min(images, cached // max(image_tokens, 1))
        if encoded == images:
            return of_text(cached, prompt)
        done, spent = cached, factor * (attention(prompt) - attention(cached))
        while done < prompt:
            end = min(done + token_budget, prompt)
            begun = images if images_together == inf else min(images, -(-end // image_tokens))
            if begun - encoded > images_together:
                # Images of 700 tokens, 2 a step: the first ends at token 1,400, whatever its budget.
                begun = encoded + int(images_together)
                end = begun * image_tokens
            spent += host + own + factor * (linear(end - done) + encoder(begun - encoded))
            done, encoded = end, begun
        return spent

    return seconds


def _token_transfer_s(run: Run) -> float:
    scenario = run.scenario
    one = kv_bytes(
        scenario.model,
        scenario.plan,
        kv_cache_bits(scenario.precision),
        np.asarray([1.0e6]),
        np.asarray([1.0]),
        paging="pooled",
        drafting=scenario.drafting,
    )
    link = scenario.device.links[0]
    return float(one[0]) * 1e-6 / (link.bandwidth_bytes_per_s * link.efficiency)
