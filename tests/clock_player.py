"""A closed loop played with a clock: one step after the other, every request an object. Slow and plain."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.serving.engine.closed_loop import ClosedLoop
from evaluator.serving.engine.loop_twin import LEAST_PLAYED
from evaluator.serving.engine.request_kinds import requests_of
from evaluator.serving.engine.step_tables import StepTable

Own = Callable[[Sequence[float]], float]  # attention and head of sequences that hold as many keys, in seconds


@dataclass(eq=False)
class Request:
    kind: int
    prompt: int
    output: int
    cached: int = 0
    arrived: float = 0.0
    begun: float = 0.0
    end: float = 0.0
    prefilled: int = 0
    generated: int = 0


class ClockPlayer:
    """One run. `own` prices the keys that sequences really hold; without it all hold the table's mean."""

    def __init__(
        self,
        table: StepTable,
        engine: EngineProfile,
        loop: ClosedLoop,
        requests: Sequence[Request] | None = None,
        own: Own | None = None,
    ) -> None:
        self.table, self.engine, self.loop, self.each, self.own = table, engine, loop, 1 + loop.drafts, own
        self.unsent = deque(asked(table, loop)[0] if requests is None else requests)
        self.seats = len(self.unsent) if loop.seats is None else loop.seats
        self.queue = [self.unsent.popleft() for _ in range(min(loop.users, len(self.unsent)))]
        self.running: list[Request] = []
        self.ended: list[Request] = []
        self.clock, self.step = 0.0, 0
        self.coming: deque[Request] = deque()
        self.freed: deque[int] = deque()  # steps from which seats that were left are known to be free

    def mean_ttft(self) -> float:
        return sum(one.begun - one.arrived for one in self.ended) / len(self.ended)

    def mean_tpot(self) -> float:
        steps = [(one.end - one.begun) / (one.output - 1) for one in self.ended if one.output > 1]
        return sum(steps) / max(len(steps), 1) / self.loop.tokens_per_step

    def waiting(self) -> list[Request]:
        """Those of the queue that have a seat."""
        return self.queue[: max(0, self.seats - len(self.running) - len(self.freed))]

    def play(self) -> None:
        decodes_since_prompts = 0
        while self.queue or self.running or self.coming:
            self.see()
            if self.engine.admission == "mixed":
                self.mixed_step()
                continue
            looking = decodes_since_prompts > 0 and decodes_since_prompts % self.loop.poll_steps == 0
            if self.waiting() and (not self.running or looking):
                seen, decodes_since_prompts = self.waiting(), 0
                while seen:
                    first = self.prompts(seen, self.engine.token_budget, [])
                    seen = [one for one in seen if one not in first]
                    self.start(first)
            if self.running:
                self.decode()
                decodes_since_prompts += 1

    def see(self) -> None:
        """Requests and seats that were not known when the last steps were scheduled."""
        while self.freed and (self.freed[0] <= self.step or not (self.running or self.waiting())):
            known = self.freed[0]
            while self.freed and self.freed[0] == known:
                self.freed.popleft()
                if self.coming:
                    self.queue.append(self.coming.popleft())

    def mixed_step(self) -> None:
        if not self.waiting():
            self.decode()
            return
        decoding = list(self.running)
        room = max(1, self.engine.token_budget - self.each * len(decoding))
        self.step += 1
        first = self.prompts(self.waiting(), room, decoding)
        self.generate(decoding)
        self.start(first)

    def decode(self) -> None:
        b, engine = len(self.running), self.engine
        self.step += 1
        kernels = float(self.table.decode_linear[b]) + self.own_s(self.running)
        self.clock += (engine.step_ms + engine.step_per_decode_ms * b) / 1000 + engine.decode_factor * kernels
        self.generate(list(self.running))

    def own_s(self, decoding: Sequence[Request]) -> float:
        if self.own is None or not decoding:
            return float(self.table.decode_own[len(decoding)])
        gained = self.loop.tokens_per_step
        return self.own([one.cached + one.prompt + gained * one.generated for one in decoding])

    def prompts(self, waiting: list[Request], room: int, decoding: list[Request]) -> list[Request]:
        """One step with up to `room` prompt tokens; returns the requests whose prompt it ends."""
        engine, table, used, pieces, attention = self.engine, self.table, 0, 0, 0.0
        decodes = len(decoding)
        done = []
        for request in waiting:
            if used == room:
                break
            piece = min(request.prompt - request.prefilled, room - used)
            if engine.whole_prompts and used and not request.prefilled and piece < request.prompt:
                break
            attention += table.attention_s(request.prefilled + piece, request.kind)
            attention -= table.attention_s(request.prefilled, request.kind)
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
        self.clock += host / 1000 + kernels + (fast if decodes else slow) * self.own_s(decoding)
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
                    self.coming.append(following)
                self.freed.append(self.step + self.engine.ahead_steps + self.engine.reply_steps)


def asked(table: StepTable, loop: ClosedLoop) -> list[list[Request]]:
    """The requests of every run that the loop stands for: several where few users ask of many lengths."""
    count, kinds = loop.prompts or 10 * loop.users, loop.kinds(table)
    runs = 1 if len(kinds) == 1 and loop.shortest >= 1.0 else -(-LEAST_PLAYED // count)
    drawn = requests_of(kinds, loop.shortest, runs * count)
    each = [
        Request(kind, prompt, output, kinds[kind].cached)
        for kind, prompt, output in zip(
            drawn.kind.tolist(), drawn.new_tokens.tolist(), drawn.output_length.tolist(), strict=True
        )
    ]
    return [each[first : first + count] for first in range(0, runs * count, count)]


def played(table: StepTable, engine: EngineProfile, loop: ClosedLoop, own: Own | None = None) -> list[ClockPlayer]:
    players = [ClockPlayer(table, engine, loop, requests, own) for requests in asked(table, loop)]
    for player in players:
        player.play()
    return players
