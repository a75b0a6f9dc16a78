"""Requests that arrive, played with a clock: one step after the other, every request an object. Slow and plain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import ceil

import numpy as np

from evaluator.arrivals.play_rules import AskedRequests, PlayRules, StepPrices


@dataclass(eq=False)
class Arrived:
    number: int
    arrive: float
    prompt: int
    cached: int
    steps: int
    node: int
    stretch: float
    service: float
    ready: bool
    images: list[int] = field(default_factory=list)  # tokens that they begin at
    seen: int = 0  # the step from which the scheduler knows of it
    done: int = 0
    generated: int = 0  # since it last entered

    @property
    def keys(self) -> int:
        return self.cached + self.prompt


@dataclass
class Server:
    """One replica that looks at its queue before every step."""

    rules: PlayRules
    prices: StepPrices
    unseen: list[Arrived]
    clock: float = 0.0
    queue: list[Arrived] = field(default_factory=list)
    entered: list[Arrived] = field(default_factory=list)
    decoding: list[Arrived] = field(default_factory=list)  # in the order of entering
    first: dict[int, float] = field(default_factory=dict)
    end: dict[int, float] = field(default_factory=dict)
    gaps: list[float] = field(default_factory=list)
    last: dict[int, float] = field(default_factory=dict)  # token of a sequence
    worst: dict[int, float] = field(default_factory=dict)  # gap of a sequence
    preemptions: dict[int, int] = field(default_factory=dict)
    since_prompts: int = 0
    step: int = 0  # with prompts in it only where decodes share it
    preempted: int = 0
    rejected: int = 0

    def play(self) -> None:
        for _ in self.steps():
            pass

    def steps(self) -> Iterator[None]:
        """One step after the other, until nobody is there any more."""
        while self.unseen or self.queue or self.entered or self.decoding:
            self.look()
            if not (self.queue or self.entered or self.decoding):
                if self.unseen:
                    self.clock = self.unseen[0].arrive
                continue
            self.join()
            if self.rules.admission == "mixed":
                if self.decoding:
                    self.make_room()
                if not self.prompts(list(self.decoding)):
                    self.decode()
                yield
                continue
            looking = self.since_prompts > 0 and self.since_prompts % self.rules.poll_steps == 0
            if (not self.decoding or looking) and self.prompts([]):
                yield
                self.look()
                self.join()
                while self.prompts([]):
                    yield
                    self.look()
                    self.join()
                self.since_prompts = 0
            if self.decoding:
                self.decode()
                yield
                self.since_prompts += 1

    def look(self) -> None:
        while self.unseen and self.unseen[0].arrive <= self.clock:
            one = self.unseen.pop(0)
            waited = sum(other.service for other in self.queue)
            if self.clock - one.arrive + waited + one.service > self.rules.reject_s or self.too_dense(one):
                self.rejected += 1
            else:
                one.seen = self.step + (self.rules.ahead_steps if self.decoding or self.entered else 0)
                self.queue.append(one)

    def too_dense(self, one: Arrived) -> bool:
        sequences = min(len(self.decoding) + len(self.entered) + len(self.queue) + 1, self.rules.seats)
        keys = self.held() + sum(other.keys for other in [*self.queue, one])
        step = self.prices.decode_s[sequences] + self.prices.decode_key_s[sequences] * keys
        return one.steps > 1 and step > self.rules.reject_tbt_s

    def join(self) -> None:
        while self.rules.prefilled and self.queue and self.queue[0].ready and self.fits(self.queue[0]):
            one = self.queue.pop(0)
            one.ready = False
            self.begin(one, one.arrive)

    def held(self) -> float:
        gained = self.rules.tokens_per_step
        decoding = sum(one.keys + gained * one.generated for one in self.decoding)
        return decoding + sum(one.keys for one in self.entered)

    def fits(self, one: Arrived) -> bool:
        inside = [*self.decoding, *self.entered]
        if len(inside) >= self.rules.seats:
            return False
        gained = self.rules.tokens_per_step
        if not inside:
            return True
        if one.seen > self.step:
            return False
        if self.rules.kv_admission == "reserved":
            whole = sum(other.keys + gained * other.steps for other in [*inside, one])
            return whole <= self.rules.kv_tokens
        return self.held() + one.keys + gained * (len(inside) + 1) <= self.rules.kv_tokens

    def make_room(self) -> None:
        if self.rules.kv_admission == "reserved":
            return
        while self.held() + self.rules.tokens_per_step * len(self.decoding) > self.rules.kv_tokens:
            if self.entered and self.decoding:
                one = self.entered.pop()
                one.done = 0
            elif len(self.decoding) > 1:
                one = self.decoding.pop()
                one.prompt += ceil(self.rules.tokens_per_step * one.generated)
                one.steps -= one.generated
                one.generated = one.done = 0
            else:
                return
            self.preempted += 1
            self.preemptions[one.number] = self.preemptions.get(one.number, 0) + 1
            self.queue.insert(0, one)

    def prompts(self, decoding: list[Arrived]) -> bool:
        rules, prices = self.rules, self.prices
        room = max(1, rules.token_budget - rules.tokens_per_decode * len(decoding))
        used = pieces = 0
        attention = 0.0
        pictures = []  # (request, image) of the step
        ended = []
        while used < room:
            if not self.entered or self.entered[-1] in ended:
                if not self.queue or not self.fits(self.queue[0]):
                    break
                self.entered.append(self.queue.pop(0))
            one = self.entered[-1]
            piece = min(one.prompt - one.done, room - used)
            if rules.whole_prompts and used and not one.done and piece < one.prompt:
                self.queue.insert(0, self.entered.pop())
                break
            begin = [token for token in one.images if one.done <= token < one.done + piece]
            most = rules.images_a_step - len(pictures)
            if len(begin) > most:
                piece = begin[int(most)] - one.done
                begin = begin[: int(most)]
            pictures += begin
            if piece == 0:
                if not one.done:
                    self.queue.insert(0, self.entered.pop())
                break
            attention += self.attention(one, one.done + piece) - self.attention(one, one.done)
            one.done += piece
            used, pieces = used + piece, pieces + 1
            if one.done == one.prompt:
                ended.append(one)
        if not used:
            return False
        attention += float(np.interp(len(pictures), np.arange(prices.encoder_s.size), prices.encoder_s))
        b, together = len(decoding), used + rules.tokens_per_decode * len(decoding)
        host = prices.step_s + prices.prompt_step_s + prices.per_decode_s * b + prices.per_prompt_s * pieces
        factor = (prices.prefill_factor * used + prices.decode_factor * rules.tokens_per_decode * b) / together
        keys = sum(one.keys + rules.tokens_per_step * one.generated for one in decoding)
        own = prices.decode_factor * (prices.own_s[b] + prices.own_key_s[b] * keys) if b else 0.0
        head = 0.0 if b else prices.prefill_factor * prices.own_s[0]
        linear = np.interp(together / prices.spacing, np.arange(prices.linear.size), prices.linear)
        self.step += rules.admission == "mixed"
        self.clock += float(host + factor * linear + prices.prefill_factor * attention + own + head)
        self.generate(decoding)
        for one in ended:
            self.entered.remove(one)
            self.begin(one, self.clock, generated=0)
        return True

    def attention(self, one: Arrived, tokens: int) -> float:
        place = tokens * one.stretch
        nodes = self.prices.attention[one.node : one.node + self.prices.stretches + 1]
        low = min(int(place), self.prices.stretches - 1)
        return float(nodes[low] + (nodes[low + 1] - nodes[low]) * (place - low))

    def begin(self, one: Arrived, moment: float, generated: int = 0) -> None:
        self.first.setdefault(one.number, moment)
        one.generated = generated + 1
        if one.number in self.last:  # it was preempted
            self.worst[one.number] = max(self.worst.get(one.number, 0.0), moment - self.last[one.number])
        self.last[one.number] = moment
        if one.steps == 1:
            self.end[one.number] = moment
        else:
            self.decoding.append(one)

    def decode(self) -> None:
        if not self.decoding:  # all that joined had their last token with them
            return
        self.make_room()
        b = len(self.decoding)
        self.step += 1
        keys = sum(one.keys + self.rules.tokens_per_step * one.generated for one in self.decoding)
        self.clock += float(self.prices.decode_s[b] + self.prices.decode_key_s[b] * keys)
        self.generate(list(self.decoding))

    def generate(self, decoding: list[Arrived]) -> None:
        for one in decoding:
            self.gaps.append(self.clock - self.last[one.number])
            self.worst[one.number] = max(self.worst.get(one.number, 0.0), self.gaps[-1])
            self.last[one.number] = self.clock
            one.generated += 1
            if one.generated == one.steps:
                self.end[one.number] = self.clock
                self.decoding.remove(one)


def arrived(rules: PlayRules, asked: AskedRequests) -> list[Arrived]:
    return [
        Arrived(
            number=number,
            arrive=float(asked.arrive_s[number]),
            prompt=int(asked.new_tokens[number]),
            cached=int(asked.cached[number]),
            steps=int(asked.steps[number]),
            node=int(asked.node[number]),
            stretch=float(asked.stretch[number]),
            service=float(asked.service_s[number]),
            ready=rules.prefilled,
            images=_begins(asked, number),
        )
        for number in range(asked.count)
    ]


def _begins(asked: AskedRequests, number: int) -> list[int]:
    if asked.images is None or asked.image_tokens is None:
        return []
    return [int(place * asked.image_tokens[number]) for place in range(int(asked.images[number]))]


def play_with_a_clock(
    rules: PlayRules, prices: StepPrices, asked: AskedRequests
) -> tuple[Server, np.ndarray, np.ndarray]:
    """One replica's requests; first and last token by request, -1 where it was rejected."""
    server = Server(rules, prices, arrived(rules, asked))
    server.play()
    first = np.asarray([server.first.get(number, -1.0) for number in range(asked.count)])
    end = np.asarray([server.end.get(number, -1.0) for number in range(asked.count)])
    return server, first, end
