"""One replica: its contents, who enters and leaves, and its steps."""

from __future__ import annotations

from heapq import heappop, heappush
from math import ceil, inf, sqrt

from evaluator.arrivals.play_state import LongestGaps, PlayState

_NUMBER_BITS = 31  # of a request's number, behind the step that it ends in


class Replica:
    """`keys_base` and `keys_steps` are prompts and steps of decoding sequences.

    `entered` requests run without a first token yet, and hold `entering_keys`."""

    def __init__(self, play: PlayState) -> None:
        self.play, self.rules = play, play.rules
        self.clock = self.busy = self.reserved = self.waiting_s = 0.0
        self.step = self.looked = self.active = self.in_flight = self.entered = self.left = 0
        self.left_at = -1.0
        self.keys_base = self.keys_steps = self.entering_keys = 0
        self.queued = self.queued_keys = 0  # those that wait
        self.expected = self.expected_last = self.waiting = self.waiting_last = self.newest = self.partial = -1
        self.partial_done = 0
        self.prompting = False
        self.ends: list[int] = []  # a heap of (step, request)
        self.stalled: list[tuple[float, int]] = []  # last token, sequences: those that prompts hold up
        self.longest = LongestGaps(play) if play.each_kept else None

    def expect(self, request: int) -> None:
        self.in_flight += 1
        if self.expected < 0:
            self.expected = request
        else:
            self.play.following[self.expected_last] = request
        self.expected_last = request

    def present(self, moment: float) -> int:
        """Includes requests that the running step will answer."""
        return self.in_flight + (self.left if self.left_at > moment else 0)

    def advance(self, until: float) -> None:
        while True:
            self._receive()
            if self.active == 0 and self.waiting < 0 and self.partial < 0:
                if self.expected < 0:
                    return
                self.clock = self.play.arrive[self.expected]
                continue
            if self.clock >= until:
                return
            if self.rules.prefilled:
                self._join()
            if self.rules.admission == "mixed":
                if not self._prompts(self.active):
                    self._decode(until)
            else:
                since = self.step - self.looked
                due = self.active == 0 or self.prompting or (since and since % self.rules.poll_steps == 0)
                if not (due and self._prompts(0)):
                    self.prompting = False
                    self._decode(until)

    def _receive(self) -> None:
        play = self.play
        while self.expected >= 0 and play.arrive[self.expected] <= self.clock:
            request = self.expected
            self.expected = play.following[request]
            play.following[request] = -1
            predicted = (self.clock - play.arrive[request]) + self.waiting_s + play.service[request]
            if predicted > self.rules.reject_s or self._too_dense(request):
                self.in_flight -= 1
                continue
            self.waiting_s += play.service[request]
            self.queued += 1
            self.queued_keys += play.cached[request] + play.prompt[request]
            play.seen[request] = self.step + (self.rules.ahead_steps if self.active or self.partial >= 0 else 0)
            if self.waiting < 0:
                self.waiting = request
            else:
                play.following[self.waiting_last] = request
            self.waiting_last = request

    def _too_dense(self, request: int) -> bool:
        """Its decode step would exceed the limit."""
        play, rules = self.play, self.rules
        if rules.reject_tbt_s == inf or play.steps[request] == 1:
            return False
        sequences = min(self.active + self.entered + self.queued + 1, rules.seats)
        keys = self._keys() + (self.entering_keys + self.queued_keys + play.cached[request] + play.prompt[request])
        return play.decode[sequences] + play.decode_key[sequences] * keys > rules.reject_tbt_s

    def _keys(self) -> float:
        return self.keys_base + self.play.gain * self.keys_steps

    def _fits(self, request: int) -> bool:
        if self.active + self.entered >= self.rules.seats:
            return False
        if self.active + self.entered == 0:
            return True
        if self.play.seen[request] > self.step:
            return False
        play, rules = self.play, self.rules
        size = play.cached[request] + play.prompt[request]
        if rules.kv_admission == "reserved":
            return self.reserved + (size + play.gain * play.steps[request]) <= rules.kv_tokens
        held = self._keys() + self.entering_keys + size
        return held + play.gain * (self.active + self.entered + 1) <= rules.kv_tokens

    def _enter(self) -> int:
        play, request = self.play, self.waiting
        self.waiting = play.following[request]
        play.following[request] = -1
        self.waiting_s = self.waiting_s - play.service[request] if self.waiting >= 0 else 0.0
        size = play.cached[request] + play.prompt[request]
        self.queued -= 1
        self.queued_keys -= size
        self.entered += 1
        self.entering_keys += size
        self.reserved += size + play.gain * play.steps[request]
        return request

    def _join(self) -> None:
        play = self.play
        while self.waiting >= 0 and play.ready[self.waiting] and self._fits(self.waiting):
            request = self._enter()
            play.ready[request] = False
            self._start(request, play.arrive[request])

    def _start(self, request: int, moment: float) -> None:
        play = self.play
        size = play.cached[request] + play.prompt[request]
        self.entered -= 1
        self.entering_keys -= size
        if play.first[request] < 0.0:
            play.first[request] = moment
        if self.longest:
            self.longest.begin(request, moment, self.clock)
        self.active += 1
        self.keys_base += size
        self.keys_steps += 1
        play.begun[request] = self.step
        play.before[request], play.after[request] = self.newest, -1
        if self.newest >= 0:
            play.after[self.newest] = request
        self.newest = request
        if play.steps[request] == 1:
            self._leave(request, 1)
            self._answered(request, moment)
        else:
            heappush(self.ends, (self.step + play.steps[request] - 1) << _NUMBER_BITS | request)

    def _leave(self, request: int, generated: int) -> None:
        play = self.play
        size = play.cached[request] + play.prompt[request]
        self.active -= 1
        self.keys_base -= size
        self.keys_steps -= generated
        self.reserved -= size + play.gain * play.steps[request]
        if self.longest:
            self.longest.keep(request)
        play.begun[request] = -1
        before, after = play.before[request], play.after[request]
        if before >= 0:
            play.after[before] = after
        if after >= 0:
            play.before[after] = before
        else:
            self.newest = before

    def _answered(self, request: int, moment: float) -> None:
        self.play.end[request] = moment
        self.in_flight -= 1
        if self.left_at != moment:
            self.left_at, self.left = moment, 0
        self.left += 1

    def _next_end(self) -> int:
        play = self.play
        while True:
            step, request = self.ends[0] >> _NUMBER_BITS, self.ends[0] & ((1 << _NUMBER_BITS) - 1)
            if play.begun[request] >= 0 and play.begun[request] + play.steps[request] - 1 == step:
                return step
            heappop(self.ends)  # of before it was preempted

    def _retire(self) -> None:
        play = self.play
        while self.active and self._next_end() == self.step:
            request = heappop(self.ends) & ((1 << _NUMBER_BITS) - 1)
            self._leave(request, play.steps[request])
            self._answered(request, self.clock)

    def _make_room(self) -> None:
        play, rules = self.play, self.rules
        while self._keys() + self.entering_keys + play.gain * self.active > rules.kv_tokens:
            if self.partial >= 0 and self.active:
                request = self.partial
                self._note_preempted(request)
                size = play.cached[request] + play.prompt[request]
                self.entered -= 1
                self.entering_keys -= size
                self.reserved -= size + play.gain * play.steps[request]
                self.partial = -1
            elif self.active > 1:
                request = self.newest
                self._note_preempted(request)
                generated = 1 + self.step - play.begun[request]
                self._leave(request, generated)
                self._forget_stalled()
                play.prompt[request] += ceil(play.gain * generated)  # else it would fit again at once
                play.steps[request] -= generated
            else:
                return
            play.preempted += 1
            self._wait_first(request)

    def _note_preempted(self, request: int) -> None:
        if self.longest:
            before = self.stalled[0][0] if self.stalled else None
            self.longest.preempt(request, self.step, self.clock, before)

    def _wait_first(self, request: int) -> None:
        play = self.play
        play.following[request] = self.waiting
        if self.waiting < 0:
            self.waiting_last = request
        self.waiting = request
        self.waiting_s += play.service[request]
        self.queued += 1
        self.queued_keys += play.cached[request] + play.prompt[request]

    def _forget_stalled(self) -> None:
        if self.stalled:
            last, sequences = self.stalled.pop()
            if sequences > 1:
                self.stalled.append((last, sequences - 1))

    def _prompts(self, decodes: int) -> bool:
        play, prices = self.play, self.play.prices
        if self.partial < 0 and (self.waiting < 0 or not self._fits(self.waiting)):
            return False
        if self.rules.kv_admission == "current" and decodes:
            self._make_room()
            decodes = self.active
            if self.partial < 0 and (self.waiting < 0 or not self._fits(self.waiting)):
                return False
        room = max(1, play.budget - play.each * decodes)
        used, pieces, attention, ended = self._fill(room)
        host = (prices.step_s + prices.prompt_step_s) + (prices.per_decode_s * decodes + prices.per_prompt_s * pieces)
        together = used + play.each * decodes
        factor = (prices.prefill_factor * used + prices.decode_factor * (play.each * decodes)) / together
        if decodes:
            own = prices.decode_factor * (play.own[decodes] + play.own_key[decodes] * self._keys())
        else:
            own = prices.prefill_factor * play.own[0]
        self._spend(host + (factor * play.linear_s(together) + (prices.prefill_factor * attention + own)), decodes)
        self._first_tokens(ended)
        return True

    def _fill(self, room: int) -> tuple[int, int, float, list[int]]:
        """A step's prompts, cut at its tokens or images: tokens, count, seconds, and those that end."""
        play = self.play
        used = pieces = 0
        attention = images = 0.0
        ended: list[int] = []
        while used < room:
            if self.partial >= 0:
                request, done = self.partial, self.partial_done
            elif self.waiting >= 0 and self._fits(self.waiting):
                request, done = self.waiting, 0
            else:
                break
            piece = min(play.prompt[request] - done, room - used)
            if self.rules.whole_prompts and used and not done and piece < play.prompt[request]:
                break
            if play.images[request] > 0.0:
                piece = play.piece_of(request, done, piece, self.rules.images_a_step - images)
                if piece == 0:
                    break
                images += play.images_until(request, done + piece) - play.images_until(request, done)
            if self.partial < 0:
                self._enter()
            attention += play.attention_s(request, done + piece) - play.attention_s(request, done)
            used += piece
            pieces += 1
            self.partial, self.partial_done = request, done + piece
            if done + piece == play.prompt[request]:
                ended.append(request)
                self.partial = -1
        return used, pieces, attention + play.encoder_s(images) if images > 0.0 else attention, ended

    def _spend(self, seconds: float, decodes: int) -> None:
        """Decodes elsewhere are held up."""
        if self.rules.admission == "prefill_first" and not self.prompting and self.active:
            self.stalled.append((self.clock, self.active))
        self.clock += seconds
        self.busy += seconds
        if self.rules.admission == "mixed":
            self.step += 1
            self.keys_steps += decodes
            if decodes:
                self.play.count_gaps(seconds, 0.0, 1, decodes)
                if self.longest:
                    self.longest.note(self.step, seconds)
                self._retire()

    def _first_tokens(self, ended: list[int]) -> None:
        before = self.active
        for request in ended:
            self._start(request, self.clock)
        if self.rules.admission == "prefill_first":
            self.prompting, self.looked = True, self.step
            if self.active > before:
                self.stalled.append((self.clock, self.active - before))

    def _decode(self, until: float) -> None:
        """Equal steps up to the next end, an arrival that may enter, or full memory."""
        play, rules = self.play, self.rules
        if self.active == 0:
            return
        if rules.kv_admission == "current":
            self._make_room()
        sequences, keys = self.active, self._keys()
        first = play.decode[sequences] + play.decode_key[sequences] * keys
        growth = play.decode_key[sequences] * (play.gain * sequences)
        most = self._next_end() - self.step
        if rules.kv_admission == "current" and rules.kv_tokens < inf and sequences + self.entered > 1:
            room = (rules.kv_tokens - (keys + self.entering_keys)) / (play.gain * sequences)
            most = 1 if room < 1.0 else min(most, int(min(room, 1e9)))
        full = sequences + self.entered >= rules.seats
        if self.waiting >= 0 and play.seen[self.waiting] > self.step:
            most = min(most, play.seen[self.waiting] - self.step)
        if self.waiting >= 0 and rules.admission == "prefill_first" and self._fits(self.waiting):
            most = min(most, rules.poll_steps - (self.step - self.looked) % rules.poll_steps)
        stop = until
        # The step in which a request comes matters where it may be rejected, or is seen later.
        told = rules.reject_s < inf or rules.reject_tbt_s < inf or rules.ahead_steps > 0
        if self.expected >= 0 and (told or not (full or self.waiting >= 0)):
            stop = min(stop, play.arrive[self.expected])
        steps = most if stop == inf else _steps_until(stop - self.clock, first, growth, most)
        self._count_decodes(first, growth, steps)
        seconds = steps * first + growth * (0.5 * steps * (steps - 1.0))
        self.clock += seconds
        self.busy += seconds
        self.step += steps
        self.keys_steps += steps * sequences
        self._retire()

    def _count_decodes(self, first: float, growth: float, steps: int) -> None:
        play, after = self.play, 0
        if self.stalled:
            for last, sequences in self.stalled:
                play.count_gaps((self.clock - last) + first, 0.0, 1, sequences)
            if self.longest:
                self.longest.open(self.newest, self.step, self.clock, first)
                self.longest.note(self.step + 1, (self.clock - self.stalled[0][0]) + first)
            self.stalled.clear()
            after = 1
        if steps > after:
            play.count_gaps(first + growth * after, growth, steps - after, self.active)
            if self.longest:
                self.longest.note(self.step + steps, first + growth * (steps - 1))


def _steps_until(seconds: float, first: float, growth: float, most: int) -> int:
    """At least 1, at most `most`.

    n first + growth n (n - 1) / 2 >= seconds: a quadratic's root, made exact by its neighbours."""
    # Steps of 10, 11, 12 ... ms: 30 ms have passed after 3, of 33 ms.
    if growth > 0.0:
        half = first - 0.5 * growth
        guess = ceil(min((sqrt(half * half + 2.0 * growth * max(seconds, 0.0)) - half) / growth, float(most)))
    else:
        guess = ceil(min(max(seconds, 0.0) / first, float(most)))
    steps = max(1, min(guess, most))
    while steps > 1 and (steps - 1) * first + growth * (0.5 * (steps - 1) * (steps - 2.0)) >= seconds:
        steps -= 1
    while steps < most and steps * first + growth * (0.5 * steps * (steps - 1.0)) < seconds:
        steps += 1
    return steps
