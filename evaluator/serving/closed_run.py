"""An engine as the serving model of a scenario: times of every batch size, by its closed loop or of a phase alone.

Not here: the scheduler itself (evaluator.serving.closed_loop)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from evaluator.arithmetic import exp, log
from evaluator.serving.batches import BatchSource, FixedLengths
from evaluator.serving.closed_loop import ClosedLoop, decode_steps_s, marginal_prompt_s, simulate
from evaluator.serving.engines import EngineProfile, engine_profile, list_engines
from evaluator.serving.formulas import PrefillCompletion, RequestTimes, request_times, tokens_per_step
from evaluator.serving.phases import Integers, Run, Scenario
from evaluator.serving.step_tables import StepTable, TableExtents, launched, step_table
from evaluator.sums import FloatArray
from store.errors import InputError

EVERY_UP_TO = 16
GROWTH = 1.15
BEND = 0.01  # log TTFT off the line between its neighbours, from which the sizes around it are played too
MOST_STEPS = 5_000_000  # with prompts in them, of one size: some seconds
_WAVES = "--serving-model waves"


def engine_of(scenario: Scenario) -> EngineProfile | None:
    """The engine of a scenario, under the token budget of its workload; None where formulas serve."""
    engine = scenario.engine
    if engine is None and scenario.serving_model in list_engines():
        engine = engine_profile(scenario.serving_model)
    return None if engine is None else replace(engine, token_budget=scenario.workload.max_batched_tokens)


def refusal(scenario: Scenario, source: BatchSource) -> InputError | None:
    """Why an engine cannot serve this scenario; None where it can."""
    name = scenario.serving_model
    if scenario.convention == "upstream":
        return InputError(f"{name} has no upstream convention", hint=f"--convention physical, or {_WAVES}")
    if not isinstance(source, FixedLengths):
        return InputError(f"{name} serves one prompt length, not a distribution", hint=_WAVES)
    if scenario.plan.pp > 1:
        return InputError(f"{name} has no pipeline stages: pp must be 1, not {scenario.plan.pp}", hint=_WAVES)
    return None


def closed_loop_times(run: Run, engine: EngineProfile) -> tuple[PrefillCompletion, RequestTimes]:
    """TTFT with the time until every prompt of a batch that is all there has a first token, and times of a request;
    by batch size: users of one replica, each asking again.

    Between sizes that are played, TTFT is interpolated in logarithms, and so is what a cycle takes over what its
    decodes and prompts take alone (O D + C W). The sizes depend on the scenario and not on the range asked for."""
    output = run.scenario.workload.output_length
    table = _table(run, engine, _ladder(run.batch_sizes)[-1])
    curve = _Curve(table, engine, _loop(run.scenario, engine))
    played = curve.sizes(run.batch_sizes)
    ttft = _between(run.batch_sizes, played, [curve.ttft(size) for size in played])
    alone = np.asarray([curve.alone(size) for size in run.batch_sizes.tolist()])
    cycle = _between(run.batch_sizes, played, [curve.cycle_share(size) for size in played]) * alone
    makespan = prompt_batches(table, engine, run.batch_sizes).makespan
    return PrefillCompletion(mean=ttft, makespan=makespan), request_times(ttft, np.maximum(cycle, ttft), output)


def prompts_alone(run: Run, engine: EngineProfile) -> PrefillCompletion:
    """A prefill instance: prompts of each batch that are all there at the start."""
    return prompt_batches(_table(run, engine, int(run.batch_sizes.max())), engine, run.batch_sizes)


def decodes_alone(run: Run, engine: EngineProfile) -> FloatArray:
    """A decode instance: seconds of a step of each batch size."""
    steps = np.asarray(decode_steps_s(_table(run, engine, int(run.batch_sizes.max())), engine))
    return np.asarray(steps[run.batch_sizes])


def _loop(scenario: Scenario, engine: EngineProfile) -> ClosedLoop:
    """The loop of one user; others differ in users and prompts."""
    workload, client = scenario.workload, engine.client
    return ClosedLoop(
        users=1,
        output_length=round(workload.output_length),
        shortest=client.shortest,
        poll_steps=client.poll_steps,
        replicas=scenario.plan.dp,
        drafts=workload.mtp_tokens,
        tokens_per_step=tokens_per_step(workload.mtp_tokens, workload.mtp_acceptance),
    )


def prompt_batches(table: StepTable, engine: EngineProfile, batch_sizes: Integers) -> PrefillCompletion:
    """When the prompts of batches of every size have their first tokens, in steps of the token budget: mean with the
    request's own time, and last without. Steps before the last are those of every larger batch, too."""
    length, budget, most = table.input_length, engine.token_budget, int(batch_sizes.max())
    full = most * length // budget
    ends = budget * np.arange(full + 1, dtype=np.int64)
    clock = np.concatenate(([0.0], np.cumsum(_prompt_steps(table, engine, ends[:-1], ends[1:]))))
    finishing = -(-length * np.arange(1, most + 1, dtype=np.int64) // budget)  # the step that ends each prompt
    waited = np.concatenate(([0.0], np.cumsum(clock[np.minimum(finishing, full)])))
    tokens = batch_sizes * length
    whole, rest = np.divmod(tokens, budget)
    last = np.where(rest > 0, _prompt_steps(table, engine, whole * budget, np.maximum(tokens, whole * budget + 1)), 0.0)
    makespan = clock[whole] + last
    before = whole * budget // length  # prompts that the full steps end
    mean = (waited[before] + (batch_sizes - before) * makespan) / batch_sizes
    return PrefillCompletion(mean=mean + 1e-3 * engine.request_ms, makespan=makespan)


def _prompt_steps(table: StepTable, engine: EngineProfile, start: Integers, end: Integers) -> FloatArray:
    """P of steps that take the line of all prompts' tokens from `start` to `end`."""
    length, whole = table.input_length, table.attention_s(table.input_length)
    grown = length * np.linspace(0.0, 1.0, table.attention.size)

    def attention(tokens: Integers) -> FloatArray:
        return np.asarray(tokens // length * whole + np.interp(tokens % length, grown, table.attention))

    nodes = table.linear_nodes(engine.token_budget // table.spacing + 2)
    linear = np.interp((end - start) / table.spacing, np.arange(nodes.size), nodes)
    pieces = -(-end // length) - start // length
    host = engine.step_s() + engine.prompt_step_s() + 1e-3 * engine.step_per_prompt_ms * pieces
    kernels = linear + attention(end) - attention(start) + table.decode_own[0]
    return np.asarray(host + engine.prefill_factor * kernels)


def _table(run: Run, engine: EngineProfile, sequences: int) -> StepTable:
    scenario, source = run.scenario, run.source
    error = refusal(scenario, source)
    if error is not None or not isinstance(source, FixedLengths):
        raise error or InputError(f"{scenario.serving_model} serves one prompt length")
    steps = sequences * engine.client.prompts_per_user * source.new_tokens // engine.token_budget
    if steps > MOST_STEPS:
        raise InputError(
            f"{sequences} users with prompts of {source.new_tokens} tokens are {steps:,} steps of"
            f" {engine.token_budget} tokens",
            hint="a larger --max-batched-tokens, or a smaller --batch-range",
        )
    mean = (1.0 + engine.client.shortest) / 2
    extents = TableExtents(
        input_length=source.new_tokens,
        decode_keys=mean * (source.input_length + scenario.workload.output_length / 2),
        sequences=sequences,
        tokens=min(engine.token_budget, sequences * source.new_tokens) + sequences * source.tokens_per_decode,
        cached=source.input_length - source.new_tokens,
        drafts=scenario.workload.mtp_tokens,
    )
    # A phase alone has one trace; what the table takes from the other is not asked for.
    traces = {name: run.operators.get(name) or run.operators[scenario.phase] for name in ("prefill", "decode")}
    table = step_table(traces, run.cost, extents, windows=source.windows, replicas=scenario.plan.dp)
    return launched(table, engine.launch_s(sum(group.count for group in scenario.model.layers)))


@dataclass(slots=True)
class _Curve:
    """Times by users, each size played when it is first asked for."""

    table: StepTable
    engine: EngineProfile
    loop: ClosedLoop
    known: dict[int, tuple[float, float]] = field(default_factory=dict)
    decode_s: list[float] = field(init=False)
    prompt_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.decode_s = decode_steps_s(self.table, self.engine)
        self.prompt_s = marginal_prompt_s(self.table, self.engine)

    def alone(self, users: int) -> float:
        """O D + C W, with as many decodes as the output takes steps."""
        return self.loop.steps * self.decode_s[users] + users * self.prompt_s

    def ttft(self, users: int) -> float:
        """Mean seconds to the first token."""
        return self._played(users)[0]

    def cycle_share(self, users: int) -> float:
        """TTFT + (O - 1) TPOT over O D + C W."""
        return self._played(users)[1]

    def sizes(self, wanted: Integers) -> list[int]:
        """The ladder around the wanted sizes, with finer steps where TTFT bends: where prompts begin to queue."""
        ladder = _ladder(wanted)
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
        place = log(size / before) / log(after / before)
        line = (1.0 - place) * log(self.ttft(before)) + place * log(self.ttft(after))
        return float(abs(log(self.ttft(size)) - line))

    def _played(self, users: int) -> tuple[float, float]:
        if users not in self.known:
            loop = replace(self.loop, users=users, prompts=self.engine.client.prompts_per_user * users)
            times = simulate(self.table, self.engine, loop)
            cycle = times.ttft_s + (loop.output_length - 1) * times.tpot_exclusive_s
            self.known[users] = times.ttft_s, cycle / self.alone(users)
        return self.known[users]


def _ladder(wanted: Integers) -> list[int]:
    """Every small size, then five for each doubling: those around the wanted ones, and one more on each side."""
    sizes = _steps_up_to(int(wanted.max()))
    first = max(0, int(np.searchsorted(sizes, int(wanted.min()), side="right")) - 2)
    return sizes[first:]


def _steps_up_to(largest: int) -> list[int]:
    sizes = list(range(1, EVERY_UP_TO + 1))
    while sizes[-2] < largest:
        sizes.append(round(sizes[-1] * GROWTH))
    return sizes[: int(np.searchsorted(sizes, largest)) + 2]


def _between(wanted: Integers, played: Iterable[int], values: list[float]) -> FloatArray:
    """Linear in the logarithms."""
    return exp(np.interp(log(wanted), log(list(played)), log(values)))
