"""Rules, prices and every request of a play, which its replicas have in common.

Beside them stands the longest time between two tokens of each request, of one replica. The play in Python does what
`play.c` does, statement by statement, equal to the last digit: for machines without a compiler, and for tests. State
changes only when a request arrives, prompts run, or an answer ends; equal decode steps between are one sum.
Source: the scheduler of evaluator.serving.engine.schedule, which plays the same steps without a clock."""

from __future__ import annotations

from bisect import bisect_right
from math import ceil

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.arrivals.play_rules import AskedRequests, PlayRules, StepPrices


class LongestGaps:
    """Gaps by the ending step. Behind prompts, the gap before a second token is the request's own."""

    def __init__(self, play: PlayState) -> None:
        self.play = play
        self.steps: list[int] = []
        self.gaps: list[float] = []

    def note(self, step: int, gap: float) -> None:
        while self.gaps and self.gaps[-1] <= gap:
            self.gaps.pop()
            self.steps.pop()
        self.steps.append(step)
        self.gaps.append(gap)

    def begin(self, request: int, moment: float, clock: float) -> None:
        play = self.play
        if play.lost[request] >= 0.0:
            play.worst[request] = max(play.worst[request], moment - play.lost[request])
        play.since[request] = moment if moment == clock else -1.0
        play.opening[request] = play.lost[request] = -1.0

    def open(self, newest: int, step: int, clock: float, first: float) -> None:
        play, request = self.play, newest
        while request >= 0 and play.begun[request] == step:
            since = play.since[request]
            play.opening[request] = (clock - since) + first if since >= 0.0 else first
            request = play.before[request]

    def preempt(self, request: int, step: int, clock: float, before: float | None) -> None:
        """`before` is the last token of those that prompts hold up."""
        play = self.play
        play.preemptions[request] += 1
        if play.begun[request] < 0:
            return
        if before is not None and play.begun[request] == step and play.since[request] >= 0.0:
            play.lost[request] = play.since[request]
        else:
            play.lost[request] = clock if before is None else before

    def keep(self, request: int) -> None:
        play = self.play
        opening = play.opening[request]
        place = bisect_right(self.steps, play.begun[request] + (1 if opening >= 0.0 else 0))
        later = self.gaps[place] if place < len(self.gaps) else 0.0
        play.worst[request] = max(play.worst[request], opening, later)


class PlayState:
    """Rules, prices, and an array over requests for each fact."""

    def __init__(
        self, rules: PlayRules, prices: StepPrices, asked: AskedRequests, edges: FloatArray, *, each: bool = False
    ) -> None:
        self.rules, self.prices = rules, prices
        self.gain, self.each, self.budget = rules.tokens_per_step, rules.tokens_per_decode, rules.token_budget
        self.arrive: list[float] = asked.arrive_s.tolist()
        self.prompt: list[int] = asked.new_tokens.tolist()
        self.cached: list[int] = asked.cached.tolist()
        self.steps: list[int] = asked.steps.tolist()
        self.node: list[int] = asked.node.tolist()
        self.stretch: list[float] = asked.stretch.tolist()
        self.service: list[float] = asked.service_s.tolist()
        none = np.zeros(asked.count)
        self.images: list[float] = (none if asked.images is None else asked.images).tolist()
        self.image_tokens: list[float] = (none if asked.image_tokens is None else asked.image_tokens).tolist()
        self.encoder: list[float] = prices.encoder_s.tolist()
        self.linear: list[float] = prices.linear.tolist()
        self.attention: list[float] = prices.attention.tolist()
        self.own: list[float] = prices.own_s.tolist()
        self.own_key: list[float] = prices.own_key_s.tolist()
        self.decode: list[float] = prices.decode_s.tolist()
        self.decode_key: list[float] = prices.decode_key_s.tolist()
        self.first = [-1.0] * asked.count
        self.end = [-1.0] * asked.count
        self.begun = [-1] * asked.count  # the step of the first token since it entered; -1: is not decoding
        self.ready = [rules.prefilled] * asked.count
        self.seen = [-1] * asked.count  # the step from which the scheduler knows of it
        self.before, self.after = [-1] * asked.count, [-1] * asked.count  # neighbours in the order of entering
        self.following = [-1] * asked.count  # in the list that a request waits in
        self.edges: list[float] = edges.tolist()
        self.gaps = [0] * (edges.size - 1)
        self.preempted = 0
        self.each_kept = each
        self.worst = [0.0] * asked.count  # the longest gap; what follows tells where gaps begin
        self.opening, self.since, self.lost = ([-1.0] * asked.count for _ in range(3))
        self.preemptions = [0] * asked.count

    def linear_s(self, tokens: int) -> float:
        last, place = len(self.linear) - 1, tokens / self.prices.spacing
        if place >= last:
            return self.linear[last] * place / last
        low = int(place)
        return self.linear[low] + (self.linear[low + 1] - self.linear[low]) * (place - low)

    def attention_s(self, request: int, tokens: int) -> float:
        """Extrapolates the last stretch."""
        place = tokens * self.stretch[request]
        low = min(int(place), self.prices.stretches - 1)
        node = self.node[request] + low
        return self.attention[node] + (self.attention[node + 1] - self.attention[node]) * (place - low)

    def images_until(self, request: int, tokens: int) -> float:
        images, spacing = self.images[request], self.image_tokens[request]
        if images == 0.0 or tokens == 0:
            return 0.0
        return images if spacing == 0.0 else min(images, float(ceil(tokens / spacing)))

    def piece_of(self, request: int, done: int, piece: int, room: float) -> int:
        """Cut before one image too many."""
        # Images of 100 tokens, room for 2: of tokens 150 to 600 those up to 400, where the fifth image begins.
        before = self.images_until(request, done)
        if self.image_tokens[request] == 0.0 or self.images_until(request, done + piece) - before <= room:
            return piece
        return max(0, int((before + float(int(room))) * self.image_tokens[request]) - done)

    def encoder_s(self, images: float) -> float:
        """Extrapolates the last stretch."""
        last = len(self.encoder) - 1
        if images >= last:
            return self.encoder[last] * images / last
        low = int(images)
        return self.encoder[low] + (self.encoder[low + 1] - self.encoder[low]) * (images - low)

    def count_gaps(self, shortest: float, growth: float, steps: int, sequences: int) -> None:
        step, last, place = 0, len(self.gaps) - 1, 0
        while step < steps:
            gap = shortest + growth * step
            low, high = place, last
            while low < high:  # the last bin that begins at or below the gap
                middle = (low + high + 1) // 2
                if self.edges[middle] <= gap:
                    low = middle
                else:
                    high = middle - 1
            place, until = low, steps
            if growth > 0.0 and place < last:
                reached = (self.edges[place + 1] - shortest) / growth
                if reached < steps:
                    until = max(step + 1, ceil(reached))
            self.gaps[place] += (until - step) * sequences
            step = until
