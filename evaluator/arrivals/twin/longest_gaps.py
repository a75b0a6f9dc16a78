"""The longest time between two tokens of each request: of one replica.

Steps that can still be the longest of some request are kept, ever shorter ones. Not here: which steps are taken
(evaluator.arrivals.twin.replicas)."""

from __future__ import annotations

from bisect import bisect_right

from evaluator.arrivals.twin.play_state import PlayState


class LongestGaps:
    """Gaps by the step that ends them. Where prompts held requests up, the gap before a second token is one's own."""

    def __init__(self, play: PlayState) -> None:
        self.play = play
        self.steps: list[int] = []
        self.gaps: list[float] = []

    def note(self, step: int, gap: float) -> None:
        """A gap of all that decode; of several steps that end here, their longest."""
        while self.gaps and self.gaps[-1] <= gap:
            self.gaps.pop()
            self.steps.pop()
        self.steps.append(step)
        self.gaps.append(gap)

    def begin(self, request: int, moment: float, clock: float) -> None:
        """The first token of a request since it entered."""
        play = self.play
        if play.lost[request] >= 0.0:
            play.worst[request] = max(play.worst[request], moment - play.lost[request])
        play.since[request] = moment if moment == clock else -1.0
        play.opening[request] = play.lost[request] = -1.0

    def open(self, newest: int, step: int, clock: float, first: float) -> None:
        """Requests get their second token after prompts held them up."""
        play, request = self.play, newest
        while request >= 0 and play.begun[request] == step:
            since = play.since[request]
            play.opening[request] = (clock - since) + first if since >= 0.0 else first
            request = play.before[request]

    def preempt(self, request: int, step: int, clock: float, before: float | None) -> None:
        """Remember a request's last token; `before` is when those that prompts hold up had theirs."""
        play = self.play
        play.preemptions[request] += 1
        if play.begun[request] < 0:
            return
        if before is not None and play.begun[request] == step and play.since[request] >= 0.0:
            play.lost[request] = play.since[request]
        else:
            play.lost[request] = clock if before is None else before

    def keep(self, request: int) -> None:
        """A request leaves: its longest gap so far."""
        play = self.play
        opening = play.opening[request]
        place = bisect_right(self.steps, play.begun[request] + (1 if opening >= 0.0 else 0))
        later = self.gaps[place] if place < len(self.gaps) else 0.0
        play.worst[request] = max(play.worst[request], opening, later)
