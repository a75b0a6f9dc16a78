"""Everything that decides the schedule of a closed loop. Not here: the play (evaluator.serving.engine.schedule)."""

from __future__ import annotations

from dataclasses import dataclass

from evaluator.inputs.engines.engine_profiles import Admission
from evaluator.serving.engine.request_kinds import RequestKind

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
    def served(self) -> int:
        """Requests served at once. With fewer seats than users the next request takes a seat when one is left, just as
        with that many users: seats decide when it was asked, and never what is in a step."""
        return self.users if self.seats is None else min(self.users, self.seats)

    @property
    def repeats(self) -> int:
        """How often the loop is played, each time with the requests that follow: once where all of them are equal."""
        equal = len(self.kinds) == 1 and self.shortest >= 1.0
        return 1 if equal else -(-LEAST_PLAYED // self.requests)
