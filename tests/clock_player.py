"""A closed loop played with a clock: one step after the other, every request an object. Slow and plain."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from evaluator.serving.closed_loop import ClosedLoop, decode_steps_s
from evaluator.serving.engines import EngineProfile
from evaluator.serving.schedule import lengths_of
from evaluator.serving.step_tables import StepTable


@dataclass(eq=False)
class Request:
    prompt: int
    output: int
    arrived: float = 0.0
    begun: float = 0.0
    end: float = 0.0
    prefilled: int = 0
    generated: int = 0


class ClockPlayer:
    def __init__(self, table: StepTable, engine: EngineProfile, loop: ClosedLoop) -> None:
        self.table, self.engine, self.loop, self.each = table, engine, loop, 1 + loop.drafts
        count = loop.prompts or 10 * loop.users
        tokens, outputs = lengths_of(table.input_length, loop.steps, loop.shortest, count)
        self.unsent = deque(Request(prompt, output) for prompt, output in zip(tokens, outputs, strict=True))
        self.queue = [self.unsent.popleft() for _ in range(min(loop.users, count))]
        self.running: list[Request] = []
        self.ended: list[Request] = []
        self.clock = 0.0

    def mean_ttft(self) -> float:
        return sum(one.begun - one.arrived for one in self.ended) / len(self.ended)

    def mean_tpot(self) -> float:
        steps = sum((one.end - one.begun) / max(one.output - 1, 1) for one in self.ended) / len(self.ended)
        return steps / self.loop.tokens_per_step

    def play(self) -> None:
        decodes_since_prompts = 0
        while self.queue or self.running:
            if self.engine.admission == "mixed":
                self.mixed_step()
                continue
            if self.queue and (not self.running or decodes_since_prompts >= self.loop.poll_steps):
                seen, decodes_since_prompts = list(self.queue), 0
                while seen:
                    first = self.prompts(seen, self.engine.token_budget, 0)
                    seen = [one for one in seen if one not in first]
                    self.start(first)
            if self.running:
                self.decode()
                decodes_since_prompts += 1

    def mixed_step(self) -> None:
        if not self.queue:
            self.decode()
            return
        decoding = list(self.running)
        room = max(1, self.engine.token_budget - self.each * len(decoding))
        first = self.prompts(self.queue, room, len(decoding))
        self.generate(decoding)
        self.start(first)

    def decode(self) -> None:
        self.clock += decode_steps_s(self.table, self.engine)[len(self.running)]
        self.generate(list(self.running))

    def prompts(self, waiting: list[Request], room: int, decodes: int) -> list[Request]:
        """One step with up to `room` prompt tokens; returns the requests whose prompt it ends."""
        engine, table, used, pieces, attention = self.engine, self.table, 0, 0, 0.0
        done = []
        for request in waiting:
            if used == room:
                break
            piece = min(request.prompt - request.prefilled, room - used)
            attention += table.attention_s(request.prefilled + piece) - table.attention_s(request.prefilled)
            request.prefilled += piece
            used, pieces = used + piece, pieces + 1
            if request.prefilled == request.prompt:
                done.append(request)
        slow, fast = engine.prefill_factor, engine.decode_factor
        host = engine.step_ms + engine.prompt_step_ms
        host += engine.step_per_decode_ms * decodes + engine.step_per_prompt_ms * pieces
        together = used + self.each * decodes
        factor = (slow * used + fast * self.each * decodes) / together
        kernels = factor * table.linear_s(together) + slow * attention
        self.clock += host / 1000 + kernels + (fast if decodes else slow) * table.decode_own[decodes]
        return done

    def start(self, requests: list[Request]) -> None:
        for request in requests:
            self.queue.remove(request)
            self.running.append(request)
            request.begun = self.clock
        self.generate(requests)

    def generate(self, requests: list[Request]) -> None:
        for request in requests:
            request.generated += 1
            if request.generated == request.output:
                request.end = self.clock
                self.running.remove(request)
                self.ended.append(request)
                if self.unsent:
                    following = self.unsent.popleft()
                    following.arrived = self.clock
                    self.queue.append(following)
