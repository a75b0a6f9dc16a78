"""A scenario simulated at many rates; every limit is read from the distributions later.

Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from math import inf

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, exp, log
from evaluator.arrivals import trace_caches
from evaluator.arrivals.asked import (
    Asking,
    at_once,
    at_rate,
    before_scheduling,
    beyond,
    encoding_images,
    in_order,
    reading_before,
    requests_asked,
    requests_traced,
    seen_trace,
    when_ready,
)
from evaluator.arrivals.histograms import BATCHES, Cells, counted_cells, counted_parts, edges_ms
from evaluator.arrivals.play_rules import AskedRequests, Dispatch, KvAdmission, PlayedRequests, PlayRules, StepPrices
from evaluator.arrivals.playing import play
from evaluator.arrivals.prefix_pools import PoolSettings
from evaluator.arrivals.prices import prices_of
from evaluator.arrivals.streams import ArrivalProcess, dealt_replicas
from evaluator.canonical import IN_NO_KEY
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.inputs.workloads.arrival_times import TracedArrivals
from evaluator.pricing.memory import kv_bytes
from evaluator.serving.encoding import images_a_step
from evaluator.serving.engine.closed_run import kinds_of, refusal
from evaluator.serving.engine.request_kinds import RequestKind, weights_of
from evaluator.serving.engine.stages import in_rounds
from evaluator.serving.engine.step_tables import SPACING, StepTable
from evaluator.serving.interface import Run
from evaluator.serving.occupancy import kv_cache_bits, memory_bytes
from evaluator.serving.pairs import receiving_ms
from evaluator.serving.waves.wave_latencies import tokens_per_step
from store.errors import InputError
from store.light_dataclass import dataclass

SEATS = 256
RESERVED_BYTES = 10 * 2**30  # of a device, for what is neither weights nor keys: the default of questions, too
WARM_UP = 0.05  # of the requests, which count nowhere
_LOW_RATES, _LINEAR_RATES, _STEEP_RATES = 7, 13, 4
_FIRST, _EVEN_FROM, _BEND, _LAST = 0.025, 0.22, 0.9, 0.99  # of the saturation throughput


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaySettings:
    process: ArrivalProcess
    seats: int = SEATS
    kv_admission: KvAdmission = "current"
    dispatch: Dispatch = "random"
    reject_ms: float | None = None
    # In the key where it is given: other keys stay as they are.
    reject_tbt_ms: float | None = field(default=None, metadata={IN_NO_KEY: True})
    # In the key where there is one: keys of instances alone stay as they are.
    pool: PoolSettings | None = field(default=None, metadata={IN_NO_KEY: True})
    # Tiers that keep prefixes of a log's prompts, and whether devices do. Their rates, too, are in the key then.
    caches: tuple[trace_caches.CacheRoom, ...] | None = field(default=None, metadata={IN_NO_KEY: True})


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Load:
    """One rate. `outside_ms` adds to each TTFT in the cells, whatever steps take.

    `requests` count, in equal batches; those missing from cells were rejected."""

    rate_per_s: float
    saturation_per_s: float
    requests: int
    rejected: int
    preempted: int
    in_flight: float
    busy_share: float
    output_tokens_per_s: float
    ttft_mean_ms: float
    tpot_mean_ms: float
    outside_ms: float
    seats: int
    kv_tokens: float
    cells: Cells
    parts: Integers  # rows of metric, part of a bin and requests, where a bin does not hold them evenly
    token_gaps: Integers
    request_times: RequestTimesMs | None = field(default=None)
    hit_rate: float | None = None  # of prompt tokens that a cache held; None: no cache
    rejected_prompt_share: float = 0.0
    prefix_shares: Mapping[str, float] = field(default_factory=dict)  # of a log's prompt tokens, by where they lie


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RequestTimesMs:
    """By number, in ms; NaN where rejected."""

    ttft: FloatArray
    tpot: FloatArray
    e2e: FloatArray
    arrival_ms: FloatArray | None = None
    prompt: Integers | None = None
    answer: Integers | None = None
    worst_gap: FloatArray | None = None
    preempted: Integers | None = None


def ladder(saturation_per_s: float) -> tuple[float, ...]:
    """24 rates: geometric at the low end, since errors are in percent; even to 0.9 of saturation; closer to 0.99."""
    low = _FIRST * exp(log(_EVEN_FROM / _FIRST) / _LOW_RATES * np.arange(_LOW_RATES))
    linear = np.linspace(_EVEN_FROM, _BEND, _LINEAR_RATES)
    # 1 - 0.1 x 10^(-1/4) = 0.944, ... 1 - 0.01 = 0.99
    steep = 1.0 - (1.0 - _BEND) * exp(
        log((1.0 - _LAST) / (1.0 - _BEND)) / _STEEP_RATES * np.arange(1, _STEEP_RATES + 1)
    )
    return tuple((saturation_per_s * np.concatenate((low, linear, steep))).tolist())


def unplayable(run: Run, engine: EngineProfile | None) -> InputError | None:
    scenario = run.scenario
    if engine is None:
        return InputError(
            f"{scenario.serving_model} simulates no requests that arrive", hint="name an engine: `serving_model=vllm`"
        )
    if scenario.launch.wait_steps:
        return InputError("requests that arrive are not simulated with `wait_steps`", hint="leave it out")
    return refusal(scenario)


class LoadPlayer:
    def __init__(
        self, run: Run, engine: EngineProfile, settings: PlaySettings, trace: TracedArrivals | None = None
    ) -> None:
        scenario = run.scenario
        engine = in_rounds(engine, scenario.plan)
        self.run, self.engine, self.settings = run, engine, settings
        kinds = kinds_of(scenario, run.source)
        seats = scenario.launch.seats or settings.seats
        self.gain = tokens_per_step(scenario.workload.mtp_tokens, scenario.workload.mtp_acceptance)
        self.held: trace_caches.HeldTokens | None = None
        asking = Asking(
            process=settings.process,
            kinds=kinds,
            shortest=1.0 if scenario.client is None else scenario.client.shortest,
            tokens_per_step=self.gain,
            replicas=scenario.plan.dp,
        )
        if trace is None:
            self.prices, table = prices_of(run, engine, seats, kinds)
            asked = requests_asked(asking, table, engine)
        else:
            trace = seen_trace(trace, scenario.workload.images)
            self.prices, table = prices_of_trace(run, engine, seats, trace)
            self.held = self._held(trace, kinds, seats)
            asked = requests_traced(trace, asking, table, engine, self.held)
            self.prices = beyond(self.prices, int(asked.node.max()))
        asked = encoding_images(asked, run, self.prices, trace)
        self.asked = replace(asked, steps=np.ones_like(asked.steps)) if scenario.phase == "prefill" else asked
        if trace is not None and self.held is not None:
            tiers = trace_caches.reading_tiers(scenario, settings.caches or ())
            self.before = reading_before(asked, run, trace_caches.reading_seconds(scenario, self.held, tiers))
        else:
            self.before = before_scheduling(asked, run, engine, table, trace)
        if self.before.alone_s.any():
            _check_known(scenario.plan.dp, settings)
        self.rules = PlayRules(
            admission=engine.admission,
            token_budget=engine.token_budget,
            seats=seats,
            poll_steps=engine.client.poll_steps if engine.admission == "prefill_first" else 1,
            ahead_steps=engine.ahead_steps,
            whole_prompts=bool(engine.whole_prompts),
            tokens_per_decode=1 + scenario.workload.mtp_tokens,
            tokens_per_step=self.gain,
            kv_tokens=kv_room(run, kinds, seats),
            kv_admission=settings.kv_admission,
            prefilled=scenario.phase == "decode",
            replicas=scenario.plan.dp,
            dispatch=settings.dispatch,
            reject_s=inf if settings.reject_ms is None else 1e-3 * settings.reject_ms,
            reject_tbt_s=inf if settings.reject_tbt_ms is None else 1e-3 * settings.reject_tbt_ms,
            images_a_step=images_a_step(scenario, engine.token_budget),
        )
        self.held_steps = engine.replica_wait_steps if scenario.plan.dp > 1 else 0.0
        self.saturation_per_s = self._saturation()

    def _held(self, trace: TracedArrivals, kinds: Sequence[RequestKind], seats: int) -> trace_caches.HeldTokens | None:
        """Cached prompt tokens, by the log's prefixes or as stated; None: none.

        A decode instance gets whole prompts."""
        scenario, caches = self.run.scenario, self.settings.caches
        if scenario.phase == "decode" or (caches is None and not scenario.workload.kept_share()):
            return None
        if scenario.workload.images is not None:
            part = "prompts of a log with images are simulated whole: which of their tokens are cached is not known"
            raise InputError(part, hint="leave the shares or `images` out")
        if caches is None:
            return trace_caches.stated_tokens(trace.input_lengths, scenario.workload)
        rooms = trace_caches.rooms_in_blocks(scenario, kv_room(self.run, kinds, seats), caches)
        process = self.settings.process
        return trace_caches.prefix_tokens(
            trace, rooms, dealt_replicas(scenario.plan.dp, process.seed, trace.input_lengths.size)
        )

    def rates(self, asked: Sequence[float] | None) -> tuple[float, ...]:
        return ladder(self.saturation_per_s) if asked is None else tuple(asked)

    def _saturation(self) -> float:
        """Requests a second when all are there at the start."""
        makespan = float(
            self.played(replace(self.rules, reject_s=inf, reject_tbt_s=inf), at_once(self.asked)).end_s.max()
        )
        if makespan <= 0.0:
            raise InputError("every answer is one token, which a decode instance does not generate")
        return self.asked.count / makespan

    def load(self, rate: float, *, keep_requests: bool = False) -> Load:
        asked = at_rate(self.asked, rate)
        played = self.played(self.rules, asked, each=keep_requests)
        first = asked.count - BATCHES * (int(asked.count * (1.0 - WARM_UP)) // BATCHES)
        times = self.times(asked, played, first)
        fine = ~np.isnan(times.ttft)
        batch = np.arange(times.ttft.size) * BATCHES // times.ttft.size
        return Load(
            rate_per_s=rate,
            saturation_per_s=self.saturation_per_s,
            requests=times.ttft.size,
            rejected=int((~fine).sum()),
            preempted=played.preempted,
            ttft_mean_ms=_mean(times.ttft[fine]),
            tpot_mean_ms=_mean(times.tpot[fine][asked.steps[first:][fine] > 1]),
            outside_ms=self.load_outside_ms,
            seats=self.rules.seats,
            kv_tokens=self.rules.kv_tokens,
            cells=counted_cells(times.ttft[fine], times.tpot[fine], batch[fine]),
            parts=counted_parts(times.ttft[fine], times.tpot[fine]),
            token_gaps=played.gaps,
            request_times=times if keep_requests else None,
            hit_rate=_share(asked.cached, asked.cached + asked.new_tokens) or None,
            rejected_prompt_share=_share(asked.new_tokens[first:][~fine], asked.new_tokens[first:]),
            prefix_shares={} if self.held is None else self.held.shares(asked.cached + asked.new_tokens),
            **self._shares(asked, played),
        )

    def played(self, rules: PlayRules, asked: AskedRequests, *, each: bool = False) -> PlayedRequests:
        ready = when_ready(asked, self.before)
        order = np.argsort(ready.arrive_s, kind="stable")
        if np.array_equal(order, np.arange(asked.count)):
            return play(rules, self.prices, ready, _edges_s(), each=each)
        played = play(rules, self.prices, in_order(ready, order), _edges_s(), each=each)
        back = np.argsort(order, kind="stable")
        return replace(
            played,
            first_s=played.first_s[back],
            end_s=played.end_s[back],
            worst_gap_s=None if played.worst_gap_s is None else played.worst_gap_s[back],
            preemptions=None if played.preemptions is None else played.preemptions[back],
        )

    def _shares(self, asked: AskedRequests, played: PlayedRequests) -> dict[str, float]:
        fine = played.end_s >= 0.0
        span = max(float(played.end_s.max()) - float(asked.arrive_s[0]), 1e-12)
        steps = asked.steps[fine]
        tokens = float((1.0 + (steps - 1) * self.gain).sum())
        return {
            "in_flight": float((played.end_s[fine] - asked.arrive_s[fine]).sum()) / span,
            "busy_share": min(1.0, played.busy_s / (span * self.rules.replicas)),  # sums round apart
            "output_tokens_per_s": tokens / span,
        }

    def times(self, asked: AskedRequests, played: PlayedRequests, first: int) -> RequestTimesMs:
        arrive, begun, ended = asked.arrive_s[first:], played.first_s[first:], played.end_s[first:]
        gained = (asked.steps[first:] - 1) * self.gain
        tpot = np.where(gained > 0.0, 1e3 * (ended - begun) / np.maximum(gained, 1.0), 0.0)
        ttft = 1e3 * (begun - arrive) + self.held_steps * self.gain * tpot
        rejected = ended < 0.0
        return RequestTimesMs(
            ttft=np.where(rejected, np.nan, ttft),
            tpot=np.where(rejected, np.nan, tpot),
            e2e=np.where(rejected, np.nan, ttft + gained * tpot),
            arrival_ms=1e3 * arrive,
            prompt=(asked.new_tokens + asked.cached)[first:],
            answer=np.rint(1.0 + gained).astype(np.int64),
            worst_gap=None if played.worst_gap_s is None else 1e3 * played.worst_gap_s[first:],
            preempted=None if played.preemptions is None else played.preemptions[first:],
        )

    @property
    def load_outside_ms(self) -> float:
        phase, engine = self.run.scenario.phase, self.engine
        cost = self.run.scenario.serving_cost_ms
        if phase == "aggregated":
            return engine.request_ms + cost
        return receiving_ms(engine.request_ms, engine.handover_ms) + cost


def _check_known(replicas: int, settings: PlaySettings) -> None:
    """Refuses rules that need at arrival what is only known later."""
    if settings.dispatch == "least" and replicas > 1:
        part = "`dispatch=least` is not simulated with keys or images that requests wait for"
        raise InputError(part, hint="`dispatch=random`")
    if settings.reject_ms is not None or settings.reject_tbt_ms is not None:
        part = "`reject_ttft` and `reject_tbt` are not simulated with keys or images that requests wait for"
        raise InputError(part, hint="leave them out")


def prices_of_trace(run: Run, engine: EngineProfile, seats: int, trace: TracedArrivals) -> tuple[StepPrices, StepTable]:
    """The longest prompt's attention in fine steps: all prompts are its beginnings."""
    longest = int(trace.input_lengths.max())
    answers = float(trace.output_lengths.mean())
    held = (trace.output_lengths * (trace.input_lengths + trace.output_lengths / 2)).sum() / trace.output_lengths.sum()
    kinds = (RequestKind(new_tokens=longest, output_length=answers),)
    return prices_of(run, engine, seats, kinds, stretches=-(-longest // SPACING), keys=float(held))


def kv_room(run: Run, kinds: Sequence[RequestKind], seats: int) -> float:
    scenario = run.scenario
    used = memory_bytes(replace(run, batch_sizes=np.asarray([-(-seats // scenario.plan.pp)])), mean_only=True)
    room = scenario.device.memory_bytes - RESERVED_BYTES - used.weights - float(used.activations[0])
    lengths = weights_of(kinds) * [kind.new_tokens + kind.cached + kind.output_length for kind in kinds]
    mean = float(lengths.sum())
    one = kv_bytes(
        scenario.model,
        scenario.plan,
        kv_cache_bits(scenario.precision),
        np.asarray([mean]),
        np.asarray([1.0]),
        paging="pooled",
        drafting=scenario.drafting,
    )
    tokens = np.floor(room * mean / float(one[0]))
    if tokens < 1.0:
        raise InputError("a replica has no room for keys beside its weights", hint="a plan over more devices")
    return float(tokens)


def _edges_s() -> FloatArray:
    return 1e-3 * edges_ms()


def _share(part: Integers, whole: Integers) -> float:
    return float(part.sum()) / max(1.0, float(whole.sum()))


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if values.size else 0.0
