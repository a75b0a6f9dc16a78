"""An engine as the serving model of a scenario: times of every batch size, by its closed loop or of a phase alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, dot, exp, log
from evaluator.inputs.engines.engine_profiles import EngineProfile, Nearby
from evaluator.scenario import Scenario
from evaluator.serving.batches import BatchSource, FixedLengths
from evaluator.serving.encoding import prompt_encoding_s
from evaluator.serving.engine.closed_loop import ClosedLoop, LoopTimes, decode_steps_s, marginal_prompt_s, simulate
from evaluator.serving.engine.encoders_apart import with_encoders
from evaluator.serving.engine.in_step import between, in_step_ttft, ladder_of, most_played
from evaluator.serving.engine.request_kinds import RequestKind, even_order, weights_of
from evaluator.serving.engine.stages import in_rounds, round_table
from evaluator.serving.engine.step_tables import StepTable, TableExtents, launched
from evaluator.serving.engine.tier_loads import tier_refusal, with_loads
from evaluator.serving.interface import Run
from evaluator.serving.pairs import receiving_ms
from evaluator.serving.waves.mixed import MixedLengths
from evaluator.serving.waves.wave_latencies import PrefillCompletion, RequestTimes, request_times, tokens_per_step
from store.errors import InputError
from store.light_dataclass import dataclass

BEND = 0.01  # log TTFT off the line between its neighbours, from which the sizes around it are played too
MOST_STEPS = 5_000_000  # with prompts in them, of one size: some seconds
DOUBLINGS = 2.0  # so many doublings away, of users, a length or devices, a point counts 0.61 times as much
PLACE = ("users", "input_length", "output_length", "devices")
_WAVES = "`serving_model=waves`"


def refusal(scenario: Scenario) -> InputError | None:
    name = scenario.serving_model
    if scenario.convention == "upstream":
        return InputError(f"{name} has no upstream convention", hint=f"`convention=physical`, or {_WAVES}")
    return tier_refusal(scenario)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedTimes:
    """One replica of a scenario under an engine: its kernel seconds, and what its client and launch ask of it.

    The engine may be replaced by another with the same admission, token budget and client: tables stay as they are."""

    kernels: StepTable
    layers: int
    latent_layers: int
    state_layers: int = 0
    engine: EngineProfile
    loop: ClosedLoop  # of one user
    devices: int = 1
    wait_s: float = 0.0  # for keys and embeddings that come before a prompt is scheduled
    table: StepTable = field(init=False)  # step times no shorter than the engine's host takes to launch their kernels

    def __post_init__(self) -> None:
        table = launched(self.kernels, self.engine, self.layers, self.latent_layers, self.state_layers)
        object.__setattr__(self, "table", table)

    def of_users(self, users: int) -> ClosedLoop:
        return replace(self.loop, users=users, prompts=self.engine.client.prompts_per_user * users)

    def closed(self, users: int) -> LoopTimes:
        """Times of the loop, played for this number of users, as points measured near it correct them."""
        times = simulate(self.table, self.engine, self.of_users(users))
        if self.wait_s:
            times = replace(times, ttft_s=times.ttft_s + self.wait_s)
        if not self.engine.near:
            return times
        ttft, tpot = factors_near(self.engine.near, self.place(users))
        return replace(
            times,
            ttft_s=ttft * times.ttft_s,
            tpot_exclusive_s=tpot * times.tpot_exclusive_s,
            token_s=tpot * times.token_s,
        )

    def place(self, users: int) -> Nearby:
        kinds = self.kernels.kinds
        prompt = mean_prompt(kinds) if kinds else float(self.kernels.input_length)
        output, devices = float(self.loop.output_length), float(self.devices)
        return Nearby(users=float(users), input_length=prompt, output_length=output, devices=devices)


def kinds_of(scenario: Scenario, source: BatchSource) -> tuple[RequestKind, ...]:
    lengths = _lengths(source)
    if isinstance(lengths, MixedLengths):
        return lengths.kinds
    cached, output = lengths.input_length - lengths.new_tokens, scenario.workload.output_length
    return (RequestKind(new_tokens=lengths.new_tokens, cached=cached, output_length=output),)


def _lengths(source: BatchSource) -> FixedLengths | MixedLengths:
    if isinstance(source, FixedLengths | MixedLengths):
        return source
    raise TypeError(f"no kinds of requests in {type(source).__name__}")


def mean_prompt(kinds: Sequence[RequestKind]) -> float:
    return float((weights_of(kinds) * [kind.new_tokens for kind in kinds]).sum())


def served(run: Run, engine: EngineProfile, sequences: int) -> ServedTimes:
    scenario, source = run.scenario, run.source
    engine = in_rounds(engine, scenario.plan)
    error = refusal(scenario)
    if error is not None:
        raise error
    kinds, windows = kinds_of(scenario, source), _lengths(source).windows
    steps = sequences * engine.client.prompts_per_user * mean_prompt(kinds) // engine.token_budget
    if steps > MOST_STEPS:
        raise InputError(
            f"{sequences} users with prompts of {mean_prompt(kinds):.0f} tokens are {steps:,.0f} steps of"
            f" {engine.token_budget} tokens",
            hint="a larger `max_num_batched_tokens`, or a smaller `batch_range`",
        )
    drafts = scenario.workload.mtp_tokens
    extents = TableExtents(
        kinds=kinds,
        sequences=sequences,
        tokens=engine.token_budget + sequences * (1 + drafts),
        share=(1.0 + engine.client.shortest) / 2,
        drafts=drafts,
        passes=scenario.draft_passes,
    )
    # A phase alone has one trace; what the table takes from the other is not asked for.
    traces = {name: run.steps.get(name) or run.steps[scenario.phase] for name in ("prefill", "decode")}
    kernels = round_table(
        traces,
        run.cost,
        extents,
        engine.token_budget,
        node_devices=scenario.device.grid[-1],
        windows=windows,
        encoding_s=prompt_encoding_s(run),
    )
    loads = with_loads(scenario, kernels, kinds, engine.token_budget, engine.prefill_factor)
    encoded = with_encoders(run, engine, loads.table, kinds, engine.token_budget)
    return ServedTimes(
        kernels=encoded.table,
        wait_s=loads.wait_s + encoded.wait_s,
        layers=scenario.layers,
        latent_layers=scenario.latent_layers,
        state_layers=scenario.state_layers,
        engine=engine,
        loop=_loop(scenario, engine),
        devices=scenario.plan.num_devices,
    )


def replica_of(run: Run, engine: EngineProfile) -> ServedTimes:
    budget = in_rounds(engine, run.scenario.plan).token_budget
    full = int(budget // mean_prompt(kinds_of(run.scenario, run.source)))
    return served(run, engine, max(int(run.requests.max()), full))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopColumns:
    """Times of a closed loop by batch size. `in_step` is its TTFT if users of equal lengths stayed in step, where that
    is far off; NaN elsewhere."""

    completion: PrefillCompletion
    times: RequestTimes
    in_step: FloatArray


def closed_loop_times(run: Run, engine: EngineProfile) -> LoopColumns:
    """Times of a closed loop by batch size, of the users of one replica, each asking again when answered.

    The completion holds the mean TTFT of the loop, and when a batch of prompts that are all there has its last first
    token. Between sizes that are played, TTFT is interpolated in logarithms, and so is what a cycle takes over what its
    decodes and prompts take alone (O D + C W). The sizes depend on the scenario and not on the range asked for."""
    output = run.scenario.workload.output_length
    seats, users = run.scenario.launch.seats, run.requests
    replica = served(run, engine, most_played(users, seats))
    curve = _Curve(replica)
    played = curve.sizes(users)
    ttft = between(users, played, [curve.ttft(size) for size in played])
    alone = curve.alone(users)
    cycle = between(users, played, [curve.cycle_share(size) for size in played]) * alone
    each = between(users, played, [curve.request_share(size) for size in played])
    times = request_times(ttft, np.maximum(cycle, ttft), output)
    makespan = prompt_batches(replica.table, replica.engine, users).makespan + replica.wait_s
    completion = PrefillCompletion(mean=ttft, makespan=makespan)
    return LoopColumns(
        completion=completion,
        times=replace(times, tpot_exclusive=times.tpot_exclusive * each),
        in_step=in_step_ttft(replica, users, ttft, curve.ttft),
    )


def whole_run_tokens_per_s(run: Run, engine: EngineProfile, users: int) -> float:
    """Output tokens of a replica from the first prompt to the last answer, while fewer and fewer users are left."""
    replica = served(run, engine, users)
    times = replica.closed(users)
    # 16 users of 5 prompts, 52 s of steps and 0.1 s outside of them for each: 40,000 tokens in 52.5 s.
    return times.output_tokens / (times.makespan_s + 1e-3 * engine.request_ms * engine.client.prompts_per_user)


def prompts_alone(replica: ServedTimes, requests: Integers) -> PrefillCompletion:
    """A prefill instance, which others generate beside: prompts of each batch that are all there at the start."""
    batches = prompt_batches(replica.table, replica.engine, requests)
    request_ms, handover_ms = replica.engine.request_ms, replica.engine.handover_ms
    outside_s = 1e-3 * (receiving_ms(request_ms, handover_ms) - request_ms)
    # What prompts wait for is in both: a pair of instances takes their difference for receiving, and has it once.
    return PrefillCompletion(mean=batches.mean + outside_s + replica.wait_s, makespan=batches.makespan + replica.wait_s)


def prompt_service_s(replica: ServedTimes) -> float:
    return marginal_prompt_s(replica.table, replica.engine, alone=True)


def decodes_alone(replica: ServedTimes, requests: Integers) -> FloatArray:
    steps = np.asarray(decode_steps_s(replica.table, replica.engine))
    return np.asarray(steps[requests])


def _loop(scenario: Scenario, engine: EngineProfile) -> ClosedLoop:
    workload, client = scenario.workload, engine.client
    return ClosedLoop(
        users=1,
        output_length=workload.output_length if workload.bins else round(workload.output_length),
        shortest=client.shortest,
        poll_steps=client.poll_steps,
        replicas=scenario.plan.dp,
        wait_steps=scenario.launch.wait_steps,
        drafts=workload.mtp_tokens,
        tokens_per_step=tokens_per_step(workload.mtp_tokens, workload.mtp_acceptance),
        seats=scenario.launch.seats,
    )


def prompt_batches(table: StepTable, engine: EngineProfile, batch_sizes: Integers) -> PrefillCompletion:
    """When the prompts of batches of every size have their first tokens, in steps of the token budget: mean with the
    request's own time, and last without. Steps before the last are those of every larger batch, too."""
    line, budget = PromptLine(table, int(batch_sizes.max())), engine.token_budget
    full = int(line.ends[-1]) // budget
    ends = budget * np.arange(full + 1, dtype=np.int64)
    clock = np.concatenate(([0.0], np.cumsum(_prompt_steps(line, engine, ends[:-1], ends[1:]))))
    finishing = -(-line.ends[1:] // budget)  # the step that ends each prompt
    waited = np.concatenate(([0.0], np.cumsum(clock[np.minimum(finishing, full)])))
    tokens = line.ends[batch_sizes]
    whole, rest = np.divmod(tokens, budget)
    last = np.where(rest > 0, _prompt_steps(line, engine, whole * budget, np.maximum(tokens, whole * budget + 1)), 0.0)
    makespan = clock[whole] + last
    before = line.ended(whole * budget)  # prompts that the full steps end
    # 2 prompts of 3 tokens, budget 4, 1 s a token: steps end at 4 and 6 s, and so do the prompts: 5 s in the mean.
    mean = (waited[before] + (batch_sizes - before) * makespan) / batch_sizes
    return PrefillCompletion(mean=mean + 1e-3 * engine.request_ms, makespan=makespan)


class PromptLine:
    """The prompts of ever larger batches end to end, every beginning with the lengths of the distribution."""

    def __init__(self, table: StepTable, count: int) -> None:
        kind = even_order(table.kinds, count) if table.kinds else np.zeros(count, dtype=np.int64)
        self.table = table
        lengths, nodes = np.asarray(table.prompts, dtype=np.int64), table.stretches + 1
        self.ends = np.concatenate(([0], np.cumsum(lengths[kind])))  # of the first n prompts
        # One prompt more, of no tokens, so that positions at the very end belong to one.
        kind = np.append(kind, kind[-1])
        self._base, self._stretch = nodes * kind, (table.stretches / lengths)[kind]
        self._before = np.concatenate(([0.0], np.cumsum(table.attention[nodes - 1 :: nodes][kind])))

    def ended(self, position: Integers) -> Integers:
        return np.searchsorted(self.ends, position, side="right") - 1

    def begun(self, position: Integers) -> Integers:
        return np.searchsorted(self.ends, position, side="left")

    def attention_s(self, position: Integers) -> FloatArray:
        ended, attention = self.ended(position), self.table.attention
        place = (position - self.ends[ended]) * self._stretch[ended]
        low = np.minimum(place.astype(np.int64), self.table.stretches - 1)
        below, above = (attention[self._base[ended] + low + more] for more in (0, 1))
        return np.asarray(self._before[ended] + below + (above - below) * (place - low))


def _prompt_steps(line: PromptLine, engine: EngineProfile, start: Integers, end: Integers) -> FloatArray:
    table, tokens = line.table, end - start
    linear = table.linear_nodes(int(tokens.max(initial=0)) // table.spacing + 2)
    kernels = np.interp(tokens / table.spacing, np.arange(linear.size), linear)
    kernels += line.attention_s(end) - line.attention_s(start) + table.decode_own[0]
    pieces = line.begun(end) - line.ended(start)
    host = engine.step_s() + engine.prompt_step_s() + 1e-3 * engine.step_per_prompt_ms * pieces
    return np.asarray(host + engine.prefill_factor * kernels)


@dataclass(slots=True)
class _Curve:
    """Times by users, each size played when it is first asked for."""

    replica: ServedTimes
    known: dict[int, LoopTimes] = field(default_factory=dict)
    decode_s: FloatArray = field(init=False)
    prompt_s: float = field(init=False)

    def __post_init__(self) -> None:
        table, engine = self.replica.table, self.replica.engine
        self.decode_s = np.asarray(decode_steps_s(table, engine))
        self.prompt_s = marginal_prompt_s(table, engine)

    def alone(self, users: Integers) -> FloatArray:
        """O D + C W seconds, with as many decodes as the output takes steps.

        With fewer seats than users, the decodes are of all users in turn."""
        seats = self.replica.loop.seats
        seated = users if seats is None else np.minimum(users, seats)
        # 4 users, 51 steps, W = 100 ms: 51 x 10 + 4 x 100 = 910 ms at D(4) = 10; on 2 seats 2 x 51 x 8 + 400 = 1,216.
        decodes = users / seated * self.replica.loop.steps * self.decode_s[seated]
        return np.asarray(decodes + users * self.prompt_s)

    def ttft(self, users: int) -> float:
        return self._played(users).ttft_s

    def cycle_share(self, users: int) -> float:
        alone = float(self.alone(np.asarray([users]))[0])
        return self._played(users).e2e_s(self.replica.loop.output_length) / alone

    def request_share(self, users: int) -> float:
        """TPOT as the mean over requests, over that of all tokens; 1 where no request has a second token."""
        times = self._played(users)
        return times.tpot_exclusive_s / times.token_s if times.token_s > 0.0 else 1.0

    def sizes(self, wanted: Integers) -> list[int]:
        """The ladder around the wanted sizes, with finer steps where TTFT bends: where prompts begin to queue."""
        ladder = ladder_of(wanted, self.replica.loop.seats)
        bent = {
            step
            for index in range(1, len(ladder) - 1)
            if self._bend(*ladder[index - 1 : index + 2]) > BEND
            for step in (index - 1, index)
        }
        finer = [
            size
            for step in bent
            if ladder[step + 1] > wanted.min() and ladder[step] < wanted.max()
            for size in np.linspace(ladder[step], ladder[step + 1], 5).astype(int).tolist()
        ]
        return sorted({*ladder, *finer})

    def _bend(self, before: int, size: int, after: int) -> float:
        ttfts = self.ttft(before), self.ttft(size), self.ttft(after)
        here, whole, first, middle, last = log((size / before, after / before, *ttfts)).tolist()
        place = here / whole
        return float(abs(middle - ((1.0 - place) * first + place * last)))

    def _played(self, users: int) -> LoopTimes:
        if users not in self.known:
            self.known[users] = self.replica.closed(users)
        return self.known[users]


def alike(points: Sequence[Nearby], place: Nearby) -> FloatArray:
    # 8 users to 32 are 2 doublings: exp(-1/2) = 0.61; another 2 from 1,024 tokens to 4,096: exp(-1) = 0.37.
    there = log(np.asarray([[getattr(one, name) for name in PLACE] for one in points], dtype=np.float64))
    here = log(np.asarray([getattr(place, name) for name in PLACE], dtype=np.float64))
    away = (there - here) / (DOUBLINGS * math.log(2.0))
    return exp(-0.5 * np.sum(away * away, axis=1))


def factors_near(points: Sequence[Nearby], place: Nearby) -> tuple[float, float]:
    """Corrections of TTFT and TPOT by points measured near."""
    if not points:
        return 1.0, 1.0
    near = alike(points, place)
    sums = [dot(near, np.asarray([getattr(one, name) for one in points])) for name in ("ttft", "tpot")]
    ttft, tpot = exp(np.asarray([float(one) for one in sums])).tolist()
    return ttft, tpot
