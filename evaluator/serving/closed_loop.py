"""A closed loop of C users played against an engine's scheduler, over tables of step times: pure, no clock, no I/O.

Not here: where the step times come from (evaluator.serving.step_tables) and what engines are like (engines)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import lru_cache
from heapq import heappop, heappush

import numpy as np

from evaluator.serving.engines import EngineProfile
from evaluator.serving.step_tables import StepTable

SEED = 20_240_601
PROMPTS_A_USER = 10  # what the benchmark clients of measured points send
ROUNDS_PLAYED = 4  # of many users; the rest repeat what the second round on has shown
MANY_USERS = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedLoop:
    """What the benchmark client does: `users` at once from the start, each asking again when it is answered."""

    users: int
    output_length: int
    prompts: int | None = None  # None: ten a user
    shortest: float = 1.0  # lengths are uniform in [shortest, 1] of nominal
    poll_steps: int = 1  # decode steps between two looks at the queue, where prompts stop the decodes
    replicas: int = 1  # of attention data parallelism: `users` are those of one


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTimes:
    """Means over all requests, and how long the whole run took."""

    ttft_s: float
    tpot_exclusive_s: float
    makespan_s: float
    requests: int
    output_tokens: int


def decode_steps_s(table: StepTable, engine: EngineProfile) -> list[float]:
    """D of 0, 1, 2 ... sequences: h + hs b + fD (N(b) + G(b)), host time linear in the batch, kernels scaled."""
    kernels = np.asarray(table.decode_linear) + np.asarray(table.decode_own)
    host = engine.step_s() + 1e-3 * engine.step_per_decode_ms * np.arange(kernels.size)
    steps: list[float] = (host + engine.decode_factor * kernels).tolist()
    return steps


def marginal_prompt_s(table: StepTable, engine: EngineProfile) -> float:
    """W: what one more prompt adds to a full step of the engine, host time included."""
    length, budget = table.input_length, engine.token_budget
    steps = length / budget if length > budget else 1.0 / (budget // length)
    tokens = min(budget, (budget // length) * length or budget)
    kernels = steps * table.linear_s(tokens) + table.attention_s(length)
    return (
        steps * (engine.step_s() + engine.prompt_step_s())
        + 1e-3 * engine.step_per_prompt_ms
        + engine.prefill_factor * kernels
    )


def simulate(table: StepTable, engine: EngineProfile, loop: ClosedLoop) -> LoopTimes:
    """Play the loop to its last answer, from event to event: decode steps between two events are one jump."""
    asked = loop.prompts or PROMPTS_A_USER * loop.users
    many = loop.users > MANY_USERS and asked > ROUNDS_PLAYED * loop.users
    play = _Play(table, engine, loop, ROUNDS_PLAYED * loop.users if many else asked)
    if engine.admission == "prefill_first":
        play.prefill_first()
    else:
        play.mixed()
    # Everybody's first request meets a queue of all; of the later ones only some were played.
    first, later = min(loop.users, play.count), play.count - min(loop.users, play.count)
    share = (asked - first) / later if later else 0.0
    ttft = (play.ttft[0] + share * play.ttft[1]) / asked
    return LoopTimes(
        ttft_s=ttft + 1e-3 * engine.request_ms,
        tpot_exclusive_s=(play.tpot[0] + share * play.tpot[1]) / asked,
        makespan_s=play.now * asked / play.count,
        requests=asked,
        output_tokens=round(sum(play.outputs) * asked / play.count),
    )


@lru_cache(maxsize=128)
def _lengths(prompt: int, output: int, shortest: float, count: int) -> tuple[list[int], list[int]]:
    if shortest >= 1.0:
        return [prompt] * count, [output] * count
    draw, width = random.Random(SEED), 1.0 - shortest  # noqa: S311  lengths, no secrets
    tokens = [max(1, round(prompt * (shortest + width * draw.random()))) for _ in range(count)]
    return tokens, [max(1, round(output * (shortest + width * draw.random()))) for _ in range(count)]


class _Play:
    """The run so far. Requests are numbered as they arrive, so those still waiting are `oldest` ... the last."""

    def __init__(self, table: StepTable, engine: EngineProfile, loop: ClosedLoop, count: int) -> None:
        self.table, self.engine, self.users, self.count = table, engine, loop.users, count
        self.tokens, self.outputs = _lengths(table.input_length, loop.output_length, loop.shortest, self.count)
        self.decode_s = decode_steps_s(table, engine)
        self.step_s, self.prompt_step_s = engine.step_s(), engine.prompt_step_s()
        self.poll_steps = loop.poll_steps
        self.held = engine.replica_wait_steps if loop.replicas > 1 else 0.0
        self.now = 0.0
        self.ttft, self.tpot = [0.0, 0.0], [0.0, 0.0]  # of first requests, and of later ones
        self.step = self.oldest = self.done_of_oldest = 0
        self.arrival = [0.0] * min(loop.users, self.count)
        self.begun = [0.0] * self.count
        self.active: list[int] = []  # the step of the last token x count + request

    def prefill_first(self) -> None:
        """Prompts run alone and stop the decodes; new ones are looked for every `poll` decode steps, or when idle."""
        engine, looked = self.engine, 0
        poll = self.poll_steps
        while self.active or self.oldest < len(self.arrival):
            if self.oldest < len(self.arrival) and (not self.active or self.step - looked >= poll):
                seen = len(self.arrival)
                while self.oldest < seen:
                    self._start(self._prompts(engine.token_budget, seen, decodes=0))
                looked = self.step
            waiting = self.oldest < len(self.arrival)
            self._decode(max(1, poll - (self.step - looked)) if waiting else None)

    def mixed(self) -> None:
        """Decodes first, the rest of the budget to the oldest prompts, cut where it ends."""
        while self.active or self.oldest < len(self.arrival):
            if self.oldest == len(self.arrival):
                self._decode(None)
                continue
            decodes = len(self.active)
            begun = self._prompts(max(1, self.engine.token_budget - decodes), len(self.arrival), decodes=decodes)
            self.step += 1
            self._retire()  # what began before this step; the prompts it finished have their first token only now
            self._start(begun)

    def _prompts(self, room: int, seen: int, *, decodes: int) -> range:
        """One step with up to `room` prompt tokens beside `decodes`: the requests whose prompt it finishes."""
        table, tokens, first = self.table, self.tokens, self.oldest
        used, prompts, attention, request = 0, 0, 0.0, first
        while request < seen and used < room:
            piece = min(tokens[request] - self.done_of_oldest, room - used)
            attention += table.attention_s(self.done_of_oldest + piece)
            if self.done_of_oldest:
                attention -= table.attention_s(self.done_of_oldest)
            used, prompts, self.done_of_oldest = used + piece, prompts + 1, self.done_of_oldest + piece
            if self.done_of_oldest == tokens[request]:
                request, self.done_of_oldest = request + 1, 0
        self.now += self._step_with_prompts(used, prompts, attention, decodes)
        self.oldest = request
        return range(first, request)

    def _step_with_prompts(self, used: int, prompts: int, attention: float, decodes: int) -> float:
        """P (no decodes) or M of serving with prompts of `used` tokens in the step."""
        engine, table = self.engine, self.table
        slow, fast = engine.prefill_factor, engine.decode_factor
        factor = (slow * used + fast * decodes) / (used + decodes)
        host = (
            self.step_s
            + self.prompt_step_s
            + 1e-3 * (engine.step_per_decode_ms * decodes + engine.step_per_prompt_ms * prompts)
        )
        kernels = factor * table.linear_s(used + decodes) + slow * attention
        return host + kernels + (fast if decodes else slow) * table.decode_own[decodes]

    def _start(self, requests: range) -> None:
        """The first tokens of requests are out."""
        for request in requests:
            self.begun[request] = self.now
            self.ttft[request >= self.users] += self.now - self.arrival[request]
            heappush(self.active, (self.step + self.outputs[request] - 1) * self.count + request)
        self._retire()

    def _decode(self, most: int | None) -> None:
        """Decode steps with nothing else in them, up to the next answer."""
        if not self.active:
            return
        steps = self.active[0] // self.count - self.step
        steps = steps if most is None else min(steps, most)
        self.now += steps * self.decode_s[len(self.active)]
        self.step += steps
        self._retire()

    def _retire(self) -> None:
        """Every request whose last token is out asks again."""
        active, count, limit = self.active, self.count, (self.step + 1) * self.count
        while active and active[0] < limit:
            request = heappop(active) % count
            each = (self.now - self.begun[request]) / max(self.outputs[request] - 1, 1)
            self.ttft[request >= self.users] += self.held * each
            self.tpot[request >= self.users] += each
            if len(self.arrival) < count:
                self.arrival.append(self.now)
