"""Measured points as questions read them: server, setting, values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Literal

from store.light_dataclass import NamedTuple, dataclass
from store.location import StoreLocation

if TYPE_CHECKING:
    from queries.learning.process import Setting


# A client counts a little off what it was asked for, and people state what they asked for.
NEAR_LENGTHS = 0.06
NOT_STARTED = "did not start, or crashed,"
MOST_RUNS = 200  # of one server, the newest: the time of an answer grows by their square


Kind = Literal["whole", "apart", "at a rate"]


class Server(NamedTuple):
    """Points and rows must share it: model key, device, engine and formats."""

    model_key: str
    device: str
    engine: str
    linear: str
    experts: str
    attention: str


class Apart(NamedTuple):
    """Prefill instances of a point; its setting is the decode instances'."""

    plan: str
    instances: int
    decoding: int  # instances that decode
    requests_per_s: float  # of all of them, as measured
    answer_ms: float  # from the first token to the last
    prompts_per_user: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPoint:
    """A point that can teach. `users` match a stored row of as many requests."""

    key: str
    source: str
    server: Server
    setting: Setting
    batch_size: int
    measured: Mapping[str, float]  # ttft_ms, tpot_exclusive_ms, e2e_ms, output_tokens_per_s
    version: str | None = None
    repeats: int = 1  # runs whose mean it is
    prompts: Apart | None = None
    requests_per_s: float | None = None  # that arrive at one instance, whoever waits
    order: tuple[float, int] = (0.0, 0)  # when measured, its number in the store
    shortest_length: float | None = None  # where a client draws lengths: the shortest over the longest
    of_bursts: bool = False  # TTFT teaches nothing: it is of prompts that came all at once

    @property
    def kind(self) -> Kind:
        """Rows that it is a run of."""
        return "apart" if self.prompts else "at a rate" if self.requests_per_s else "whole"


class FailedStart(NamedTuple):
    """A server without numbers."""

    point: OwnPoint
    why: str
    day: str | None = None

    def __str__(self) -> str:
        return f"{NOT_STARTED}{f' on {self.day}' if self.day else ''}: {self.why}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPoints:
    """Points that can teach, and servers that failed."""

    points: tuple[OwnPoint, ...] = ()
    failed: tuple[FailedStart, ...] = ()


PointReader = Callable[[StoreLocation, Collection[int]], OwnPoints]
"""Of models on devices that some scenarios, by their numbers, are of. More do not change an answer."""


def no_points(_: StoreLocation, __: Collection[int]) -> OwnPoints:
    """For sessions that answer as predicted."""
    return OwnPoints()
