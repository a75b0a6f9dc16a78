"""The answer of `decide`: deployment, next start, and what its outcomes would change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

from queries import learning
from queries.asking import Answer, Framed
from store.location import StoreLocation

REPORT = "deployments"  # whose options a question has
Mode = Literal["aggregated", "pd", "both"]
MODE: Mode = "aggregated"
MODES: Mapping[str, tuple[str, ...]] = {  # the phases of the servers that are decided among
    "aggregated": ("aggregated",), "pd": ("prefill", "decode"), "both": ("aggregated", "prefill", "decode"),
}  # fmt: skip
GAIN, BUDGET = 0.02, 1  # below which a run is not worth it, as a share; and starts to plan for


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """A load of a started server, with what is expected after own runs."""

    probe: str
    concurrency: int  # requests in flight in one instance: USERS of bench.sh
    rate: float | None  # requests/s to send in place of it, where the question is about a rate
    ttft_ms: float
    tpot_ms: float
    holds: float  # probability that it keeps all limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    probe: str
    device: str
    plan: str
    instances: int
    num_devices: int  # of all instances
    concurrency: int  # of one instance
    requests_per_s: float  # of all instances, as the next four
    output_tokens_per_s: float
    output_tokens_per_s_per_device: float
    ttft_ms: float
    tpot_ms: float
    holds: float  # probability that all limits are kept together
    stands: str  # measured, near 3 runs, far from 3 runs, or predicted

    @property
    def launched(self) -> tuple[str, ...]:
        """As `launch` takes rows."""
        *rows, counts = self.probe.split(" ")
        if not rows:
            return (self.probe,) if self.instances == 1 else (f"{self.instances}x", self.probe)
        prefills, decodes = (int(count) * self.instances for count in counts.removesuffix("D").split("P"))
        return *rows, f"{prefills}P{decodes}D"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    probability: float
    kept: int | None  # the concurrency of the ladder that is the answer then; None: another server is
    then: Chosen | None  # the answer after it


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """A server to start, and loads to ask for."""

    probe: str  # as `launch` takes it: the most users of the ladder
    scenario: str  # what `ruled_out` names
    device: str
    plan: str
    num_devices: int  # of one instance
    ladder: tuple[Rung, ...]  # the one that is worth most first
    gain: float  # that it is expected to bring, as a share of what the answer brings now
    outcomes: tuple[Outcome, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A measured point beside its prediction."""

    measurement: str
    device: str
    plan: str
    concurrency: float
    ttft_ms: float | None
    tpot_ms: float | None
    predicted_ttft_ms: float | None
    predicted_tpot_ms: float | None
    keeps_limits: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Expected times at one load: four of five runs lie between the ends."""

    scenario: str
    device: str
    plan: str
    concurrency: int
    metric: str
    predicted_ms: float
    low_ms: float
    expected_ms: float
    high_ms: float
    measured_ms: float | None


COLUMNS = tuple(item.name for item in fields(Chosen))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision(Framed):
    """An answer with its certainty, and the runs that are worth it. Rows are the best setting of each server."""

    answer: Chosen | None  # None: nothing is believed to keep the limits
    others: tuple[Chosen, ...]  # the best setting of each server, the most promising first
    next_starts: tuple[Start, ...]  # for the budget, the first to be made next; the others as things stand now
    decided: str | None  # why no run is worth it; None while one is
    gain: float  # below which no run is worth it, as a share
    runs: tuple[Run, ...]
    bands: tuple[Band, ...]  # of the answer's server, those of the next starts, and those that come next
    disagreements: tuple[learning.Disagreement, ...]  # runs that lie far from what the others say of them
    versions_left_out: tuple[str, ...]  # of engines, whose runs disagree with the others
    ruled_out: Mapping[str, str]  # scenarios of plans that did not start, and why
    curve: Answer  # the stored rows that it is about
    sweep: str | None
    store: StoreLocation
    simulated: bool = False  # whether loads at a rate say what servers carry
    notes: tuple[str, ...] = ()

    @property
    def columns(self) -> tuple[str, ...]:  # type: ignore[override]
        return COLUMNS

    @property
    def rows(self) -> tuple[tuple[object, ...], ...]:  # type: ignore[override]
        """By server."""
        return tuple(tuple(getattr(one, name) for name in COLUMNS) for one in self.others)

    @property
    def next_start(self) -> Start | None:
        """None: the question is decided."""
        return self.next_starts[0] if self.next_starts else None
