"""The closed loop in Python: what `loop.c` does, statement by statement, for machines without a compiler; and
everything that decides its schedule."""

from __future__ import annotations

from collections import defaultdict, deque

import numpy as np

from evaluator.arithmetic import Integers
from evaluator.inputs.engines.engine_profiles import Admission
from evaluator.serving.engine.request_kinds import RequestKind
from store.light_dataclass import dataclass

# Requests played at least where lengths vary: those of a few users are too few to show them all, and their TTFT would
# jump by a tenth from one number of users to the next.
LEAST_PLAYED = 640


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Everything a schedule depends on. `stretches` and `spacing` are those of the tables it will be priced with, and
    outputs of `kinds` count in steps: one with the prompt, and the decodes."""

    admission: Admission
    token_budget: int
    poll_steps: int
    users: int
    requests: int
    kinds: tuple[RequestKind, ...]
    shortest: float
    spacing: int
    stretches: int
    tokens_per_decode: int = 1  # of the budget: one, and the drafts to verify
    seats: int | None = None  # requests served at once; None: all that are asked
    ahead_steps: int = 0  # that are scheduled already when a request comes: it is in none of them
    whole_prompts: bool = False  # beside decodes, unless none fits into what is left of the budget

    @property
    def alike(self) -> bool:
        """Whether all requests ask for as much: TPOT is then one number, but for how much shorter each one is."""
        return len({kind.output_length for kind in self.kinds}) == 1

    @property
    def served(self) -> int:
        """Requests served at once. With fewer seats than users the next request takes a seat when one is left, just as
        with that many users: seats decide when it was asked, and never what is in a step."""
        return self.users if self.seats is None else min(self.users, self.seats)

    @property
    def repeats(self) -> int:
        """How often the loop is played, each time with the requests that follow: once where all of them are equal."""
        equal = len(self.kinds) == 1 and self.shortest >= 1.0
        return 1 if equal else -(-LEAST_PLAYED // self.requests)


def loop_in_python(rules: Rules, ends: Integers, outputs: Integers) -> Integers:
    """Rows of (equal steps, decodes in each, position after, step number after)."""
    play = _Play(rules, ends, outputs)
    play.run()
    return np.asarray(play.steps, dtype=np.int64).reshape(-1, 4)


class _Play:
    """The run so far. Requests are numbered as they arrive, and their prompts are one line of tokens: those before
    `position` are prefilled. `seated` of them have got a seat by now, those that are through included. `steps` gets,
    one after the other, (equal steps, decodes in each, position after, step number after). `last_tokens` is a calendar:
    how many requests end in which step; `busy` marks its steps."""

    def __init__(self, rules: Rules, ends: Integers, outputs: Integers) -> None:
        self.rules, self.outputs, self.longest = rules, outputs.tolist(), int(outputs.max())
        self.alike = int(outputs.min()) == self.longest
        self.ends = [0, *ends.tolist()]  # of the prompts of the first n requests
        self.steps: list[int] = []
        self.step = self.position = self.begun = self.active = 0
        self.seated = self.last = 0  # `last` requests are asked by the end of this run
        self.last_tokens: defaultdict[int, int] = defaultdict(int)
        self.busy = bytearray()
        self.coming: deque[tuple[int, int]] = deque()  # (step before which they are seen, requests)

    def run(self) -> None:
        for first in range(0, len(self.outputs), self.rules.requests):
            self.last = first + self.rules.requests
            self.seated = min(first + self.rules.served, self.last)
            if self.rules.admission == "prefill_first":
                self.prefill_first()
            else:
                self.mixed()

    def prefill_first(self) -> None:
        """Prompts run alone and stop the decodes. New ones are looked for every `poll` decode steps since the last
        prompts, or when idle."""
        looked, poll, budget, steps = 0, self.rules.poll_steps, self.rules.token_budget, self.steps
        while self._goes_on():
            since = self.step - looked
            if self.begun < self.seated and (not self.active or (since and since % poll == 0)):
                seen = self.ends[self.seated]
                for position in (*range(self.position + budget, seen, budget), seen):
                    steps += (1, 0, position, self.step)
                self.position = seen
                self._start()
                looked = self.step
            waiting = self.begun < self.seated
            self._decode(poll - (self.step - looked) % poll if waiting else self._unseen())

    def mixed(self) -> None:
        budget, ends, steps, each = self.rules.token_budget, self.ends, self.steps, self.rules.tokens_per_decode
        while self._goes_on():
            if self.begun == self.seated:
                self._decode(self._unseen())
                continue
            decodes, room = self.active, budget - each * self.active
            position = self.position = self._position_after(room)
            self.step += 1
            steps += (1, decodes, position, self.step)
            if decodes and self.busy[self.step]:
                self._retire()  # what began before this step; the prompts it ended have their first token only now
            if position >= ends[self.begun + 1]:
                self._start()

    def _position_after(self, room: int) -> int:
        """Where a step with room for so many tokens ends the line: with the last prompt that is whole before it, if
        one is."""
        ends: list[int] = self.ends
        until = min(self.position + max(1, room), ends[self.seated])
        if not self.rules.whole_prompts:
            return until
        last = self.begun
        while last < self.seated and ends[last + 1] <= until:
            last += 1
        whole: int = ends[last]
        return whole if whole > self.position else until

    def _goes_on(self) -> bool:
        """Whether there is a step to take; requests that it may hold are seen. A server that has nothing else to do
        waits for nothing."""
        while self.coming and (self.coming[0][0] <= self.step or not (self.active or self.begun < self.seated)):
            self.seated = min(self.seated + self.coming.popleft()[1], self.last)
        return bool(self.active or self.begun < self.seated)

    def _unseen(self) -> int | None:
        return self.coming[0][0] - self.step if self.coming else None

    def _start(self) -> None:
        first, base, ends, position, seated = self.begun, self.step - 1, self.ends, self.position, self.seated
        until = first + 1
        while until < seated and ends[until + 1] <= position:
            until += 1
        self.begun = until
        self.active += until - first
        room = base + self.longest + 1 - len(self.busy)
        if room > 0:
            self.busy.extend(bytes(room + len(self.busy)))
        busy, last_tokens = self.busy, self.last_tokens
        if self.alike:
            busy[base + self.longest] = 1
            last_tokens[base + self.longest] += until - first
        else:
            for output in self.outputs[first:until]:
                busy[base + output] = 1
                last_tokens[base + output] += 1
        if busy[self.step]:  # answers of one token
            self._retire()

    def _decode(self, most: int | None) -> None:
        if not self.active:
            return
        until = self.busy.find(1, self.step + 1)
        self.step = step = until if most is None else min(until, self.step + most)
        self.steps += (step - (self.steps[-1] if self.steps else 0), self.active, self.position, step)
        if step == until:
            self._retire()

    def _retire(self) -> None:
        ended = self.last_tokens.pop(self.step)
        self.busy[self.step] = 0
        self.active -= ended
        if self.rules.ahead_steps:
            seen = self.step + self.rules.ahead_steps
            if self.coming and self.coming[-1][0] == seen:  # answers of one token end with others
                ended += self.coming.pop()[1]
            self.coming.append((seen, ended))
        else:
            self.seated = min(self.seated + ended, self.last)
