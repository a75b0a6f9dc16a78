"""Cuts a sweep into shards and evaluates one.

Cuts depend neither on workers nor on what is stored. Pure."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

from evaluator.evaluate import composition_of
from evaluator.graph.operators import OperatorSet
from evaluator.probe_block import ProbeBlock
from evaluator.scenario import Scenario
from evaluator.together import AskedSizes, evaluate_many
from store.errors import InputError
from store.light_dataclass import dataclass
from store.parts import ShardBlock
from store.records import BlockRecord

SIZE = "SWEEPDB_SHARD_PROBES"
_PROBES = 500_000  # a few seconds of evaluation: what a worker costs beside that is a fiftieth
PLAYED_AS_PROBES = 50_000  # a scenario that requests are played against takes as long as about so many
COMPARED_AS_PROBES = 25_000  # and one of a measured point, of whose batch sizes few are evaluated, as long as these


class Wanted(Protocol):
    @property
    def key(self) -> str: ...

    @property
    def interval(self) -> tuple[int, int] | None: ...


WantedT = TypeVar("WantedT", bound=Wanted)


@dataclass(frozen=True, slots=True)
class Cut(Generic[WantedT]):
    number: int
    key: str
    items: tuple[WantedT, ...]
    probes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardScenario:
    """Its row, operators by trace, and batch sizes not stored."""

    scenario_id: int
    key: str
    scenario: Scenario
    operators: Mapping[str, str]  # key of the operator set
    missing: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatedShard:
    """Blocks, failures by id, and CPU seconds."""

    blocks: tuple[ShardBlock, ...]
    failures: Mapping[int, str]
    cpu_s: float


def shard_probes() -> int:
    asked = os.environ.get(SIZE, "")
    if not asked:
        return _PROBES
    if not asked.isdecimal() or int(asked) < 1:
        raise InputError(f"{SIZE} is {asked!r}: a whole number of probes is expected", hint=f"such as {SIZE}=500000")
    return int(asked)


def cut_shards(
    items: Iterable[WantedT], probes: int | None = None, *, played: str | None = None, compared: bool = False
) -> Iterator[Cut[WantedT]]:
    """In order, of at least `probes` each; the last has the rest.

    `played` keys requests to simulate, `compared` marks measured points: such shards are smaller."""
    least = shard_probes() if probes is None else probes
    beside = COMPARED_AS_PROBES if compared else 0 if played is None else PLAYED_AS_PROBES
    taken: list[WantedT] = []
    number = held = 0
    for item in items:
        taken.append(item)
        if item.interval is not None:
            held += item.interval[1] - item.interval[0] + 1 + beside
        if held >= least:
            yield Cut(number, _key(taken, played), tuple(taken), held)
            taken, held, number = [], 0, number + 1
    if taken:
        yield Cut(number, _key(taken, played), tuple(taken), held)


def _key(items: Iterable[Wanted], played: str | None) -> str:
    content: list[object] = [[item.key, item.interval] for item in items]
    if played is not None:
        content.append(played)
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def evaluate_shard(items: Iterable[ShardScenario], operators: Mapping[str, OperatorSet]) -> EvaluatedShard:
    """Only missing ones; a failure does not end the others."""
    started = time.process_time()
    asked = [
        (item, AskedSizes(item.scenario, {trace: operators[key] for trace, key in item.operators.items()}, first, last))
        for item in items
        for first, last in item.missing
    ]
    blocks: list[ShardBlock] = []
    failures: dict[int, str] = {}
    for (item, _), block in zip(asked, evaluate_many([one for _, one in asked]), strict=True):
        if isinstance(block, Exception):
            failures[item.scenario_id] = f"{type(block).__name__}: {block}"
        else:
            blocks.append(_shard_block(item, block))
    made = tuple(block for block in blocks if block.scenario_id not in failures)
    return EvaluatedShard(blocks=made, failures=failures, cpu_s=time.process_time() - started)


def _shard_block(item: ShardScenario, block: ProbeBlock) -> ShardBlock:
    plan = item.scenario.plan
    composition = composition_of(item.scenario, block.batch_size)
    record = BlockRecord(batch_sizes=block.batch_size, columns=block.columns(), composition=composition)
    return ShardBlock(scenario_id=item.scenario_id, scenario_key=item.key, replicas=plan.dp * plan.pp, record=record)
