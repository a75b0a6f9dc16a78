"""The contents of every step of a closed loop, in whole numbers: played once, then priced under any table and engine.

Requests arrive when others end and are looked for between steps, so the schedule never depends on how long a step
takes. Every mean that is asked for is a sum over steps of their time, each step weighted by the requests that wait or
decode in it. Not here: step times (evaluator.serving.engine.step_tables) and the pricing
(evaluator.serving.engine.closed_loop)."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from evaluator.arithmetic import FloatArray, Integers, dot
from evaluator.inputs.engines.engine_profiles import Admission
from evaluator.serving.engine.request_kinds import RequestKind, Requests, requests_of

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

    @property
    def alike(self) -> bool:
        """Whether all requests ask for as much: TPOT is then one number, but for how much shorter each one is."""
        return len({kind.output_length for kind in self.kinds}) == 1

    @property
    def repeats(self) -> int:
        """How often the loop is played, each time with the requests that follow: once where all of them are equal."""
        equal = len(self.kinds) == 1 and self.shortest >= 1.0
        return 1 if equal else -(-LEAST_PLAYED // self.requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """How often each price of a table and of an engine counts in [mean TTFT, mean TPOT, makespan, mean decode].

    Rows are those four: TPOT is the mean over requests that have one, the last row the mean over all decodes of all
    requests; it is left out where all requests ask for as much. Host times count by step, step with
    prompts, decoding sequence and prompt; kernels by the node of their table: linear ones of steps with prompts apart
    for prefill and decode tokens."""

    steps: FloatArray
    prompt_steps: FloatArray
    decodes: FloatArray
    prompts: FloatArray
    linear_prefill: FloatArray
    linear_decode: FloatArray
    attention: FloatArray
    decode_linear: FloatArray
    own_decode: FloatArray
    own_prefill: FloatArray
    output_tokens: int


@lru_cache(maxsize=2048)
def schedule_of(rules: Rules) -> Schedule:
    """Play the loop of `rules`, and count."""
    asked = requests_of(rules.kinds, rules.shortest, rules.requests * rules.repeats)
    ends = np.cumsum(asked.new_tokens)
    play = _Play(rules, ends, asked.output_length)
    play.run()
    return _counted(rules, asked, ends, np.asarray(play.steps, dtype=np.int64).reshape(-1, 4))


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
        """The loop as often as its rules say, each time from the start with the requests that follow."""
        for first in range(0, len(self.outputs), self.rules.requests):
            self.last = first + self.rules.requests
            self.seated = min(first + _served(self.rules), self.last)
            if self.rules.admission == "prefill_first":
                self.prefill_first()
            else:
                self.mixed()

    def prefill_first(self) -> None:
        """Prompts run alone and stop the decodes; new ones are looked for every `poll` decode steps, or when idle."""
        looked, poll, budget, steps = 0, self.rules.poll_steps, self.rules.token_budget, self.steps
        while self._goes_on():
            if self.begun < self.seated and (not self.active or self.step - looked >= poll):
                seen = self.ends[self.seated]
                for position in (*range(self.position + budget, seen, budget), seen):
                    steps += (1, 0, position, self.step)
                self.position = seen
                self._start()
                looked = self.step
            waiting = self.begun < self.seated
            self._decode(max(1, poll - (self.step - looked)) if waiting else self._unseen())

    def mixed(self) -> None:
        """Decodes first, the rest of the budget to the oldest prompts, cut where it ends."""
        budget, ends, steps, each = self.rules.token_budget, self.ends, self.steps, self.rules.tokens_per_decode
        while self._goes_on():
            if self.begun == self.seated:
                self._decode(self._unseen())
                continue
            decodes, room = self.active, budget - each * self.active
            position = self.position = min(self.position + max(1, room), ends[self.seated])
            self.step += 1
            steps += (1, decodes, position, self.step)
            if decodes and self.busy[self.step]:
                self._retire()  # what began before this step; the prompts it ended have their first token only now
            if position >= ends[self.begun + 1]:
                self._start()

    def _goes_on(self) -> bool:
        """Whether there is a step to take; requests that it may hold are seen. A server that has nothing else to do
        waits for nothing."""
        while self.coming and (self.coming[0][0] <= self.step or not (self.active or self.begun < self.seated)):
            self.seated = min(self.seated + self.coming.popleft()[1], self.last)
        return bool(self.active or self.begun < self.seated)

    def _unseen(self) -> int | None:
        """Steps until the next request that has come is seen; None where nobody comes."""
        return self.coming[0][0] - self.step if self.coming else None

    def _start(self) -> None:
        """The first tokens of requests are out."""
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
        """Decode steps with nothing else in them, up to the next answer."""
        if not self.active:
            return
        until = self.busy.find(1, self.step + 1)
        self.step = step = until if most is None else min(until, self.step + most)
        self.steps += (step - (self.steps[-1] if self.steps else 0), self.active, self.position, step)
        if step == until:
            self._retire()

    def _retire(self) -> None:
        """Every request whose last token is out leaves its seat to the next one."""
        ended = self.last_tokens.pop(self.step)
        self.busy[self.step] = 0
        self.active -= ended
        if self.rules.ahead_steps:
            self.coming.append((self.step + self.rules.ahead_steps, ended))
        else:
            self.seated = min(self.seated + ended, self.last)


def _served(rules: Rules) -> int:
    """Requests served at once. With fewer seats than users the next request takes a seat when one is left, just as
    with that many users: seats decide when it was asked, and never what is in a step."""
    return rules.users if rules.seats is None else min(rules.users, rules.seats)


def _counted(rules: Rules, asked: Requests, ends: Integers, steps: Integers) -> Schedule:
    repeats, decodes, positions, numbers = steps.T
    used = np.diff(positions, prepend=0)
    weights = _weights(rules, asked.output_length, _first_tokens(positions, ends), numbers)
    with_prompts = used > 0
    tail = ~with_prompts
    pieces = _pieces(positions[with_prompts], asked.new_tokens, ends)
    prompts = np.zeros(used.size)
    prompts[with_prompts] = np.bincount(pieces.step, minlength=int(with_prompts.sum()))
    host = weights * repeats
    together = np.maximum(used + rules.tokens_per_decode * decodes, 1)
    mixed, share = weights[:, with_prompts], (used / together)[with_prompts]
    nodes = np.asarray(together[with_prompts] / rules.spacing)
    largest = int(decodes.max(initial=0)) + 1
    return Schedule(
        steps=host.sum(axis=1),
        prompt_steps=mixed.sum(axis=1),
        decodes=dot(host, decodes),
        prompts=dot(weights, prompts),
        linear_prefill=_on_nodes(mixed * share, nodes),
        linear_decode=_on_nodes(mixed * (1.0 - share), nodes),
        attention=_attention(rules, asked.kind, pieces, mixed),
        decode_linear=_by_number(host[:, tail], decodes[tail], largest),
        own_decode=_by_number(host * (decodes > 0), decodes, largest),
        own_prefill=(weights * (decodes == 0)).sum(axis=1),
        output_tokens=round(int(asked.output_length.sum()) / rules.repeats),
    )


def _attention(rules: Rules, kind: Integers, pieces: _Pieces, weights: FloatArray) -> FloatArray:
    """The weight of each node of the attention tables, those of one kind of prompt after those of another."""
    nodes = rules.stretches + 1
    lengths = np.asarray([one.new_tokens for one in rules.kinds], dtype=np.float64)
    kinds = kind[pieces.request]
    base, stretch = nodes * kinds, (rules.stretches / lengths)[kinds]
    grown = pieces.start > 0
    until, since = base + pieces.end * stretch, (base + pieces.start * stretch)[grown]
    attention = _on_nodes(weights[:, pieces.step], until, nodes * lengths.size)
    attention -= _on_nodes(weights[:, pieces.step[grown]], since, nodes * lengths.size)
    return attention


def _first_tokens(positions: Integers, ends: Integers) -> Integers:
    """The step that ends each prompt."""
    return np.searchsorted(positions, ends).astype(np.int64)


def _weights(rules: Rules, outputs: Integers, begun: Integers, numbers: Integers) -> FloatArray:
    """[TTFT, TPOT, makespan, decode] x step: requests that wait in it; that decode in it, each one over its O - 1; 1;
    and all that decode over all decodes."""
    count, users, steps = outputs.size, min(rules.users, rules.requests), numbers.size
    ended = np.maximum(begun, np.searchsorted(numbers, numbers[begun] + outputs - 1))
    runs = np.sort(ended.reshape(rules.repeats, rules.requests), axis=1)
    arrived = np.full(runs.shape, -1, dtype=np.int64)
    arrived[1:, :users] = runs[:-1, -1:]  # a run begins when the one before it has ended
    arrived[:, users:] = runs[:, : rules.requests - users]
    # 4 requests of 11 tokens: each of the 10 decodes of each counts 1/4 x 1/10 in the mean TPOT.
    later = outputs - 1
    rows = [
        _during(arrived.ravel(), begun, np.full(count, 1.0 / count), steps),
        _during(begun, ended, (later > 0) / (max(int((later > 0).sum()), 1) * np.maximum(later, 1)), steps),
        np.full(steps, 1.0 / rules.repeats),
    ]
    if not rules.alike:
        rows.append(_during(begun, ended, np.full(count, 1.0 / max(int(later.sum()), 1)), steps))
    return np.stack(rows)


def _during(after: Integers, until: Integers, counts: FloatArray, steps: int) -> FloatArray:
    """The sum of `counts` in each step. Request r counts in steps after[r] + 1 ... until[r]."""
    changes = np.bincount(after + 1, counts, steps + 1) - np.bincount(until + 1, counts, steps + 1)
    return np.asarray(np.cumsum(changes)[:steps])


@dataclass(frozen=True, slots=True)
class _Pieces:
    """Parts of prompts that one step prefills: tokens of the prompt before and after, the step, and whose prompt."""

    start: Integers
    end: Integers
    step: Integers
    request: Integers


def _pieces(positions: Integers, tokens: Integers, ends: Integers) -> _Pieces:
    """Cut the line of prompt tokens where a step ends or a prompt does."""
    until = np.sort(np.concatenate((positions, ends)))
    until = until[np.diff(until, prepend=0) > 0]
    since = np.concatenate(([0], until[:-1]))
    request = np.searchsorted(ends, until)
    before = ends[request] - tokens[request]
    return _Pieces(since - before, until - before, np.searchsorted(positions, until), request)


def _on_nodes(weights: FloatArray, places: FloatArray, size: int | None = None) -> FloatArray:
    """Linear interpolation turned round: how much of each weight every node of a table gets."""
    # Weight 1 at place 2.25: 0.75 for node 2, 0.25 for node 3.
    low = places.astype(np.int64)
    high_share = places - low
    nodes = size or int(low.max(initial=0)) + 2
    return np.stack([
        np.bincount(low, row * (1.0 - high_share), nodes) + np.bincount(low + 1, row * high_share, nodes + 1)[:nodes]
        for row in weights
    ])  # fmt: skip


def _by_number(weights: FloatArray, numbers: Integers, size: int) -> FloatArray:
    return np.stack([np.bincount(numbers, row, size) for row in weights])
