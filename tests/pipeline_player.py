"""A pipeline played with a clock: every micro-batch through every stage, by the rules of vLLM's and SGLang's loops.

Slow and plain: what evaluator.serving.engine.stages says in rounds is held to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from evaluator.serving.engine.step_tables import StepTable


@dataclass(slots=True)
class Asked:
    arrive: float
    prompt: int
    output: int
    done: int = 0  # tokens of the prompt that are scheduled
    made: int = 0  # tokens of the answer
    busy: int = 0  # micro-batches that it is in
    lane: int | None = None
    first: float = -1.0
    end: float = -1.0


@dataclass(slots=True)
class Batch:
    pieces: list[tuple[Asked, int, int]]
    decodes: list[Asked]
    lane: int = 0
    end: float = 0.0


@dataclass(slots=True)
class Pipeline:
    """Stages that take one micro-batch after the other, as many in flight as there are stages.

    `mixed` fills the budget with decodes first and prompts then; else a micro-batch is prompts alone, which its own
    decodes wait for, and a request stays in the micro-batch that had the end of its prompt. Parts of a prompt follow
    each other through the stages."""

    tables: Sequence[StepTable]
    budget: int
    mixed: bool = True
    seen_later: bool = False  # a request that comes at an answer's end is not in the micro-batch scheduled then
    now: float = 0.0
    free: list[float] = field(default_factory=list)
    waiting: deque[Asked] = field(default_factory=deque)
    running: list[Asked] = field(default_factory=list)
    flying: deque[Batch] = field(default_factory=deque)
    turn: int = 0

    def run(self, coming: Sequence[Asked], users: int | None) -> list[Asked]:
        """All requests to their end: each when it arrives, or (users) as many at once, others when one ends."""
        self.free = [0.0] * len(self.tables)
        rest = deque(coming)
        late: list[Asked] = []
        if users is not None:
            self.waiting.extend(rest.popleft() for _ in range(min(users, len(rest))))
        while rest or self.waiting or self.running or self.flying or late:
            while users is None and rest and rest[0].arrive <= self.now:
                self.waiting.append(rest.popleft())
            if len(self.flying) < len(self.tables):
                batch = self._scheduled()
                self.waiting.extend(late)
                late.clear()
                if batch is not None:
                    self._send(batch)
                    continue
            if not self.flying:
                self.now = max(self.now, rest[0].arrive)
                continue
            if users is None and rest and rest[0].arrive < self.flying[0].end and len(self.flying) < len(self.tables):
                self.now = max(self.now, rest[0].arrive)
                continue
            for ended in self._received(self.flying.popleft()):
                if users is not None and rest:
                    new = rest.popleft()
                    new.arrive = ended.end
                    (late if self.seen_later else self.waiting).append(new)
        return list(coming)

    def _scheduled(self) -> Batch | None:
        return self._mixed() if self.mixed else self._apart()

    def _mixed(self) -> Batch | None:
        decodes = [one for one in self.running if one.made and not one.busy]
        room = self.budget - len(decodes)
        pieces = []
        for one in [*self.running, *self.waiting]:
            if one.done < one.prompt and room > 0:
                end = min(one.prompt, one.done + room)
                pieces.append((one, one.done, end))
                room -= end - one.done
                one.done = end
                if one in self.waiting:
                    self.waiting.remove(one)
                    self.running.append(one)
        return Batch(pieces, decodes) if pieces or decodes else None

    def _apart(self) -> Batch | None:
        for _ in self.tables:
            lane, self.turn = self.turn, (self.turn + 1) % len(self.tables)
            if any(batch.lane == lane for batch in self.flying):
                continue
            pieces, room = [], self.budget
            for one in [*self.running, *self.waiting]:
                if one.done < one.prompt and room > 0:
                    end = min(one.prompt, one.done + room)
                    pieces.append((one, one.done, end))
                    room -= end - one.done
                    one.done, one.lane = end, lane
                    if one in self.waiting:
                        self.waiting.remove(one)
                        self.running.append(one)
            if pieces:
                return Batch(pieces, [], lane)
            decodes = [one for one in self.running if one.lane == lane and one.made and not one.busy]
            if decodes:
                return Batch([], decodes, lane)
        return None

    def _send(self, batch: Batch) -> None:
        moment = self.now
        for stage, table in enumerate(self.tables):
            moment = max(moment, self.free[stage]) + seconds(table, batch)
            self.free[stage] = moment
        batch.end = moment
        for one in [*batch.decodes, *(piece[0] for piece in batch.pieces)]:
            one.busy += 1
        self.flying.append(batch)

    def _received(self, batch: Batch) -> list[Asked]:
        self.now = max(self.now, batch.end)
        ended = []
        for one, _, end in batch.pieces:
            one.busy -= 1
            if end == one.prompt:
                one.made, one.first = 1, batch.end
        for one in batch.decodes:
            one.busy -= 1
            one.made += 1
        for one in list(self.running):
            if one.made == one.output:
                one.end = batch.end
                self.running.remove(one)
                ended.append(one)
        return ended


def seconds(table: StepTable, batch: Batch) -> float:
    """Of a micro-batch on one stage, of an engine without a host."""
    decodes = len(batch.decodes)
    if not batch.pieces:
        return float(table.decode_linear[decodes] + table.decode_own[decodes])
    tokens = decodes + sum(end - start for _, start, end in batch.pieces)
    attention = sum(table.attention_s(end) - table.attention_s(start) for _, start, end in batch.pieces)
    return table.linear_s(tokens) + attention + float(table.decode_own[decodes])
