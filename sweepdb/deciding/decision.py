"""What `decide` answers: the deployment to take now, the start to make next, and what its outcomes would change.

Not here: which start is worth most (sweepdb.deciding.choosing), and words (sweepdb.deciding.saying)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Stands = Literal["measured", "near", "predicted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A load of one started server, and what is expected of it, own runs read."""

    probe: str
    concurrency: int  # requests in flight in one instance: USERS of bench.sh
    rate: float | None  # requests/s to send in place of it, where the question is about a rate
    ttft_ms: float | None
    tpot_ms: float | None
    holds: float  # probability that it keeps all limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one result of a start would change."""

    what: str  # `keeps the limits at 128 users or more`
    probability: float
    then: str  # the answer after it


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One server to start, and the loads to ask it for."""

    probe: str  # as `launch` takes it: the most users of the ladder
    scenario: str  # what `ruled_out` names
    device: str
    plan: str
    num_devices: int  # of one instance
    ladder: tuple[Rung, ...]  # the one that is worth most first
    gain: float  # that it is expected to bring, as a share of what the answer brings now
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The deployment to take on what is known."""

    probe: str
    device: str
    plan: str
    instances: int
    concurrency: int  # of one instance
    output_tokens_per_s_per_device: float
    stands: Stands
    holds: float  # probability that all limits are kept, together


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """An answer with its certainty, and the runs that are worth it."""

    answer: Chosen | None  # None: nothing is believed to keep the limits
    next_starts: tuple[Start, ...]  # for the budget, the first to be made next; the others as things stand now
    decided: str | None  # why no run is worth it; None while one is
    ruled_out: Mapping[str, str]

    @property
    def next_start(self) -> Start | None:
        """The start to make next; None where the question is decided."""
        return self.next_starts[0] if self.next_starts else None
