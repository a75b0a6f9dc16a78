"""Scenarios of measured points on workers: the same shards, whose numbers travel back to be compared.

Not here: comparing, and keeping what was compared (sweepdb.measuring)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from evaluator.canonical import content_key
from evaluator.evaluate import capture_requests
from evaluator.graph import operators_to_json
from evaluator.identity import RecordBuilder
from evaluator.ledger import (
    Evaluate,
    Evaluated,
    Evaluations,
    Failures,
    LookUp,
    MeasuredLog,
    PlayedLog,
    evaluated_or_why,
    operators_of,
    replayed_all,
)
from evaluator.probe_block import ProbeBlock, joined_blocks
from evaluator.scenario import Scenario
from evaluator.shards import Cut, ShardScenario, cut_shards
from store.errors import EvaluationError
from store.parts import ShardBlock
from sweepdb.working.coordinating import MOST_ATTEMPTS, engine_of
from sweepdb.working.replaying_logs import replayed_on
from sweepdb.working.tasks import EngineLostError, ShardEngine, ShardOutcome, ShardTask

if TYPE_CHECKING:
    from sweepdb.working.workers_option import Workers

Progress = Callable[[int, int], None]


def comparing_by(workers: Workers) -> tuple[Evaluate, Callable[[str], bool] | None]:
    """How measured points are evaluated: on an engine, or here and only the points of a share, which keys tell."""
    if workers.kind == "share":
        return evaluated_or_why, lambda key: int(key[:16], 16) % workers.count == workers.share

    def evaluate(
        sizes: Mapping[Scenario, Sequence[int]], captured: LookUp | None, on_progress: Progress
    ) -> tuple[Evaluations, Failures]:
        return evaluated_on(engine_of(workers), sizes, captured, on_progress)

    return evaluate, None


def replaying_by(workers: Workers) -> Callable[[Sequence[MeasuredLog], LookUp | None], list[PlayedLog]]:
    """How logs of measured points are replayed: on an engine, or here, where only the points of a share are."""
    if workers.kind == "share":
        return replayed_all
    return lambda logs, captured: replayed_on(engine_of(workers), logs, captured)


def evaluated_on(
    engine: ShardEngine,
    sizes: Mapping[Scenario, Sequence[int]],
    captured: LookUp | None = None,
    on_progress: Progress = lambda _done, _all: None,
) -> tuple[Evaluations, Failures]:
    """Scenarios at batch sizes, and why some could not be evaluated. Operators are captured here, once.

    The scenarios of a shard that fails three times count as failed; the others go on."""
    run = _Comparing(engine=engine, captured=captured, on_progress=on_progress, total=len(sizes))
    try:
        run.run(sizes)
    except EngineLostError as error:
        raise EvaluationError(
            f"nothing was compared: {error}", hint="run the same command again once workers are there"
        ) from error
    finally:
        engine.cancel()
    return {scenario: run.found[scenario] for scenario in sizes if scenario in run.found}, run.failures


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """A scenario of measured points, as shards are cut of them."""

    number: int
    scenario: Scenario
    sizes: Sequence[int]
    key: str

    @property
    def interval(self) -> tuple[int, int]:
        """As many batch sizes as are asked for: they need not be neighbours."""
        return 1, len(self.sizes)


class _Comparing:
    """The scenarios of one comparison, in progress."""

    def __init__(self, *, engine: ShardEngine, captured: LookUp | None, on_progress: Progress, total: int) -> None:
        self.found: dict[Scenario, Evaluated] = {}
        self.failures: dict[Scenario, str] = {}
        self._engine = engine
        self._captured = captured
        self._on_progress = on_progress
        self._total = total
        self._done = 0
        self._run = secrets.randbelow(2**31)  # tells its shards from those of others on the same scheduler
        self._waiting: dict[str, Cut[_Item]] = {}

    def run(self, sizes: Mapping[Scenario, Sequence[int]]) -> None:
        """Hand out every shard, and take every outcome."""
        for cut in cut_shards(_items(sizes), compared=True):
            self._waiting[cut.key] = cut
            task = self._task(cut)
            while self._engine.busy:
                self._take_one()
            self._engine.submit(task)
        while self._waiting:
            self._take_one()

    def _task(self, cut: Cut[_Item]) -> ShardTask:
        texts: dict[str, str] = {}
        items = []
        for item in cut.items:
            keys: dict[str, str] = {trace: request.key for trace, request in capture_requests(item.scenario).items()}
            if not set(keys.values()) <= set(texts):
                for trace, operators in operators_of(item.scenario, self._captured).items():
                    texts[keys[trace]] = operators_to_json(operators)
            items.append(
                ShardScenario(
                    scenario_id=item.number,
                    key=item.key,
                    scenario=item.scenario,
                    operators=keys,
                    missing=tuple(_stretches(item.sizes)),
                )
            )
        return ShardTask(
            sweep_id=self._run, key=cut.key, items=tuple(items), operators=texts, folder=None, store_url=None
        )

    def _take_one(self) -> None:
        task, outcome = next(self._engine.results())
        if isinstance(outcome, ShardOutcome):
            self._keep(self._waiting.pop(task.key), outcome)
        elif task.attempt < MOST_ATTEMPTS:
            self._engine.submit(replace(task, attempt=task.attempt + 1))
        else:
            reason = str(outcome).partition("\n")[0] or type(outcome).__name__
            cut = self._waiting.pop(task.key)
            told = f"its shard failed {MOST_ATTEMPTS} times: {reason}"
            self.failures.update((item.scenario, told) for item in cut.items)
            self._ended(cut)

    def _keep(self, cut: Cut[_Item], outcome: ShardOutcome) -> None:
        scenarios = {item.number: item.scenario for item in cut.items}
        blocks: dict[Scenario, list[ProbeBlock]] = {}
        for block in outcome.blocks:
            blocks.setdefault(scenarios[block.scenario_id], []).append(_probes(block))
        self.found.update({scenario: Evaluated(block=joined_blocks(some)) for scenario, some in blocks.items()})
        self.failures.update({scenarios[number]: reason for number, reason in outcome.failures.items()})
        self._ended(cut)

    def _ended(self, cut: Cut[_Item]) -> None:
        self._done += len(cut.items)
        self._on_progress(self._done, self._total)


def _items(sizes: Mapping[Scenario, Sequence[int]]) -> Iterator[_Item]:
    """Scenarios in the order they have, each with a content key of itself and its batch sizes."""
    builder = RecordBuilder()
    for number, (scenario, some) in enumerate(sizes.items()):
        key = content_key([builder.scenario("", scenario).key, list(some)])
        yield _Item(number=number, scenario=scenario, sizes=some, key=key)


def _stretches(sizes: Sequence[int]) -> Iterable[tuple[int, int]]:
    """Neighbouring batch sizes, first and last of each."""
    ends = (np.flatnonzero(np.diff(sizes) > 1) + 1).tolist()
    for start, end in pairwise((0, *ends, len(sizes))):
        yield sizes[start], sizes[end - 1]


def _probes(block: ShardBlock) -> ProbeBlock:
    columns: dict[str, Any] = dict(block.record.columns)  # a block that was evaluated has every one of them
    return ProbeBlock(batch_size=np.asarray(block.record.batch_sizes), **columns)
