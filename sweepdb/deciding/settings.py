"""Servers at levels of concurrency, among which a question decides."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from evaluator.serving import DecodeSide, PairLoad, PrefillSide

_T = TypeVar("_T")
_STEP = 2.0 ** (1.0 / 3.0)  # between the users of two rungs, where so many are stored


class Server(NamedTuple):
    scenario: str
    scenario_id: int
    model: str
    device: str
    engine: str
    quantization: str
    tp: int
    pp: int
    dp: int
    ep: int
    num_devices: int
    input_length: float
    output_length: float  # in the mean, as clients see it

    @property
    def group(self) -> tuple[str, ...]:
        return self.model, self.device, self.engine, self.quantization


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Prefill and decode instances of a unit, as predicted."""

    prefill: Server
    decode: Server
    prefill_instances: int
    decode_instances: int
    prompts: PrefillSide
    load: PairLoad
    steps: tuple[DecodeSide, ...]  # of all its decode instances, ascending
    decoding: float = 0.0  # requests that decode at once at a setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A server or a pair at one concurrency, as predicted."""

    probe: str
    server: Server
    plan: str
    concurrency: int
    batch_size: int  # of one replica and pipeline stage
    ttft_ms: float
    tpot_ms: float
    pair: Pair | None = field(default=None, compare=False)


def rungs(settings: Iterable[Setting], kept: Collection[str]) -> Iterator[Setting]:
    ordered = sorted(settings, key=lambda one: (one.server.scenario, one.concurrency))
    for _, of_server in groupby(ordered, key=lambda one: one.server.scenario):
        yield from rising(list(of_server), lambda one: one.concurrency, _STEP, lambda one: one.probe in kept)


def rising(
    ladder: Sequence[_T], users: Callable[[_T], int], step: float, kept: Callable[[_T], bool] = lambda _: False
) -> Iterator[_T]:
    """Rungs a step apart, the last, and those kept."""
    wanted = 0.0
    for one in ladder:
        if users(one) >= wanted or one is ladder[-1] or kept(one):
            yield one
        if users(one) >= wanted:
            wanted = max(users(one) * step, users(one) + 1)
