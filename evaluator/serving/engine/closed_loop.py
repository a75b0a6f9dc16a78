"""A closed loop of C users played against an engine's scheduler, over tables of step times: pure, no clock, no I/O.

Source: the scheduler study in docs/explanation/how-a-number-comes-about.md."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import fsum

import numpy as np

from evaluator.arithmetic import FloatArray, dot
from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.serving.engine.loop_twin import Rules
from evaluator.serving.engine.request_kinds import RequestKind, weights_of
from evaluator.serving.engine.schedule import Schedule, schedule_of
from evaluator.serving.engine.step_tables import StepTable
from store.light_dataclass import dataclass

PROMPTS_A_USER = 10  # what the benchmark clients of measured points send


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """The behaviour of the benchmark client: `users` ask at once from the start, each again when it is answered."""

    users: int
    output_length: float  # the mean, where lengths are distributed
    prompts: int | None = None  # None: ten a user
    shortest: float = 1.0  # lengths are uniform in [shortest, 1] of nominal
    poll_steps: int = 1  # decode steps between two looks at the queue, where prompts stop the decodes
    replicas: int = 1  # of attention data parallelism: `users` are those of one
    wait_steps: int = 0  # decode steps that the launch lets a prompt wait for others
    drafts: int = 0  # tokens that each decode step drafts and verifies beside its own
    tokens_per_step: float = 1.0  # that a request gains in a decode step, those of its drafts that hold included
    seats: int | None = None  # requests served at once; None: all that are asked

    @property
    def served(self) -> int:
        return self.users if self.seats is None else min(self.users, self.seats)

    @property
    def steps(self) -> int:
        return steps_of(self.output_length, self.tokens_per_step)

    def kinds(self, table: StepTable) -> tuple[RequestKind, ...]:
        if table.kinds:
            return _in_steps(table.kinds, self.tokens_per_step)
        return (RequestKind(new_tokens=table.input_length, output_length=self.steps),)


def steps_of(output_length: float, tokens_per_step: float) -> int:
    # 101 tokens, 2 a decode: 1 + 50 = 51 steps.
    return max(1, 1 + round((output_length - 1) / tokens_per_step))


@lru_cache(maxsize=16)
def _in_steps(kinds: tuple[RequestKind, ...], tokens_per_step: float) -> tuple[RequestKind, ...]:
    return tuple(replace(kind, output_length=steps_of(kind.output_length, tokens_per_step)) for kind in kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTimes:
    """Means over all requests, and how long the whole run took. `token_s` is the mean over tokens after the first
    where outputs are distributed: that over requests weighs the tokens of a short answer more."""

    ttft_s: float
    tpot_exclusive_s: float
    token_s: float
    makespan_s: float
    requests: int
    output_tokens: int

    def e2e_s(self, output_length: float) -> float:
        """Of a request of mean output: with outputs as they are drawn, the mean over requests."""
        return self.ttft_s + (output_length - 1.0) * self.token_s


def decode_steps_s(table: StepTable, engine: EngineProfile) -> list[float]:
    """D of 0, 1, 2 ... sequences: h + hs b + fD (N(b) + G(b)), host time linear in the batch, kernels scaled."""
    # 4 sequences: host 2 + 4 x 0.5 = 4 ms; kernels 5 + 1 = 6 ms at factor 1.5; together 13 ms.
    kernels = table.decode_linear + table.decode_own
    host = engine.step_s() + 1e-3 * engine.step_per_decode_ms * np.arange(kernels.size)
    steps: list[float] = (host + engine.decode_factor * kernels).tolist()
    return steps


def marginal_prompt_s(table: StepTable, engine: EngineProfile, *, alone: bool = False) -> float:
    """W: what one more prompt adds to full steps of the engine, host time included; the mean over kinds of prompts.

    Of a mixed engine the step itself is left out: its decodes run it anyway, unless prompts are `alone` on their
    instance. Prompts are cut where the budget ends only if they are longer than it."""
    each = marginal_prompts_s(table, engine, alone=alone)
    return each[0] if len(each) == 1 else fsum((weights_of(table.kinds) * each).tolist())


def marginal_prompts_s(table: StepTable, engine: EngineProfile, *, alone: bool = False) -> list[float]:
    alone = alone or engine.admission == "prefill_first"
    return [_marginal_s(table, engine, kind, length, alone=alone) for kind, length in enumerate(table.prompts)]


def _marginal_s(table: StepTable, engine: EngineProfile, kind: int, length: int, *, alone: bool) -> float:
    budget = engine.token_budget
    # Budget 8,192: a prompt of 3,000 is half of a step of 6,000 tokens; one of 20,000 is 2.44 steps of 8,192.
    steps = length / budget if length > budget else 1.0 / (budget // length)
    tokens = min(budget, (budget // length) * length or budget)
    host = steps * (engine.step_s() * alone + engine.prompt_step_s()) + 1e-3 * engine.step_per_prompt_ms
    head = steps * float(table.decode_own[0]) * alone
    attention = table.attention_s(length, kind)
    return host + engine.prefill_factor * (steps * table.linear_s(tokens) + head + attention)


def simulate(table: StepTable, engine: EngineProfile, loop: ClosedLoop) -> LoopTimes:
    """Play the loop to its last answer. The schedule is looked up where another table or engine has asked for it.

    TTFT + (O - 1) TPOT = O D(C) + C W holds to one decode in O where lengths are fixed and every prompt is prefilled
    whole: beside the decodes (mixed) or in full steps (prefill first). Elsewhere scheduling adds work, and the sum is
    larger: a prompt cut by the budget is host work twice, a step that prompts do not fill costs a whole one (3 % at
    most over users of 1 to 128, prompts of 500 to 4,000 and budgets of 2,048 to 8,192 tokens; 7 % where a prompt is
    longer than the budget), decodes that take most of a mixed engine's budget leave more steps than O to a cycle (40 %
    at three times the budget), and of ten requests a user the last round empties the server (up to 3 %)."""
    asked = loop.prompts or PROMPTS_A_USER * loop.users
    schedule = schedule_of(
        Rules(
            admission=engine.admission,
            token_budget=engine.token_budget,
            poll_steps=loop.poll_steps if engine.admission == "prefill_first" else 1,
            users=loop.users,
            requests=asked,
            kinds=loop.kinds(table),
            shortest=loop.shortest,
            tokens_per_decode=1 + loop.drafts,
            spacing=table.spacing,
            stretches=table.stretches,
            seats=loop.served if loop.served < loop.users else None,
            ahead_steps=engine.ahead_steps + engine.reply_steps,
            whole_prompts=bool(engine.whole_prompts),
        )
    )
    ttft, tpot, makespan, *decode = (float(value) for value in priced(schedule, table, engine))
    held = loop.wait_steps + (engine.replica_wait_steps if loop.replicas > 1 else 0.0)
    # 10 requests of 50 steps, 2 tokens a decode: 10 + 490 x 2 = 990 output tokens.
    return LoopTimes(
        ttft_s=ttft + held * tpot + 1e-3 * engine.request_ms,
        tpot_exclusive_s=tpot / loop.tokens_per_step,
        token_s=(decode or [tpot])[0] / loop.tokens_per_step,
        makespan_s=makespan,
        requests=asked,
        output_tokens=round(asked + (schedule.output_tokens - asked) * loop.tokens_per_step),
    )


def priced(schedule: Schedule, table: StepTable, engine: EngineProfile) -> FloatArray:
    """Seconds of [mean TTFT, mean TPOT, makespan, mean decode], without what waits outside of steps.

    A decode step is h + hs b + fD (N(b) + G(b)); a step with prompts h + h' + hs b + hp k + (fP p + fD b) / (p + b)
    N(p + b) + fP (sum of dA) + fD G(b), for k prompts, p prefill tokens and b decodes in it."""
    slow, fast = engine.prefill_factor, engine.decode_factor
    host = (
        engine.step_s() * schedule.steps
        + engine.prompt_step_s() * schedule.prompt_steps
        + 1e-3 * (engine.step_per_decode_ms * schedule.decodes + engine.step_per_prompt_ms * schedule.prompts)
    )
    nodes, most = schedule.linear_prefill.shape[1], schedule.decode_linear.shape[1]
    linear = table.linear_nodes(nodes)
    prefill = dot(schedule.linear_prefill, linear) + dot(schedule.attention, table.attention)
    decode = dot(schedule.linear_decode, linear) + dot(schedule.decode_linear, table.decode_linear[:most])
    return np.asarray(
        host
        + slow * (prefill + schedule.own_prefill * table.decode_own[0])
        + fast * (decode + dot(schedule.own_decode, table.decode_own[:most]))
    )
