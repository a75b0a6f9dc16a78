"""Measured points on workers; numbers travel back."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from evaluator import ledger
from evaluator.canonical import content_key
from evaluator.evaluate import capture_requests
from evaluator.graph import operators_to_json
from evaluator.identity import RecordBuilder
from evaluator.probe_block import ProbeBlock, joined_blocks
from evaluator.scenario import Scenario
from evaluator.shards import Cut, ShardScenario, cut_shards
from store.errors import EvaluationError
from store.parts import ShardBlock
from sweepdb.working.coordinating import engine_of
from sweepdb.working.tasks import MOST_ATTEMPTS, EngineLostError, ShardEngine, ShardOutcome, ShardTask, ended_shards

if TYPE_CHECKING:
    from sweepdb.working.tasks import Workers


Progress = Callable[[int, int], None]


def comparing_by(workers: Workers) -> tuple[ledger.Evaluate, Callable[[str], bool] | None]:
    if workers.kind == "share":
        return ledger.evaluated_or_why, lambda key: int(key[:16], 16) % workers.count == workers.share

    def evaluate(
        sizes: Mapping[Scenario, Sequence[int]], captured: ledger.LookUp | None, on_progress: Progress
    ) -> tuple[ledger.Evaluations, ledger.Failures]:
        return evaluated_on(engine_of(workers), sizes, captured, on_progress)

    return evaluate, None


def replaying_by(
    workers: Workers,
) -> Callable[[Sequence[ledger.MeasuredLog], ledger.LookUp | None], list[ledger.PlayedLog]]:
    if workers.kind == "share":
        return ledger.replayed_all
    return lambda logs, captured: replayed_on(engine_of(workers), logs, captured)


def evaluated_on(
    engine: ShardEngine,
    sizes: Mapping[Scenario, Sequence[int]],
    captured: ledger.LookUp | None = None,
    on_progress: Progress = lambda _done, _all: None,
) -> tuple[ledger.Evaluations, ledger.Failures]:
    """With failures. Operators are captured here, once.

    A shard that fails three times fails its scenarios; others go on."""
    waiting: dict[str, Cut[_Item]] = {}
    found: dict[Scenario, ledger.Evaluated] = {}
    failures: dict[Scenario, str] = {}
    run, done = _run_number(), 0

    def tasks() -> Iterator[ShardTask]:
        for cut in cut_shards(_items(sizes), compared=True):
            waiting[cut.key] = cut
            yield _task(cut, run, captured)

    with _until_done(engine):
        for task, outcome in ended_shards(engine, tasks()):
            cut = waiting.pop(task.key)
            if isinstance(outcome, ShardOutcome):
                _keep(cut, outcome, found, failures)
            else:
                told = f"its shard failed {MOST_ATTEMPTS} times: {outcome}"
                failures.update((item.scenario, told) for item in cut.items)
            done += len(cut.items)
            on_progress(done, len(sizes))
    return {scenario: found[scenario] for scenario in sizes if scenario in found}, failures


def replayed_on(
    engine: ShardEngine, logs: Sequence[ledger.MeasuredLog], captured: ledger.LookUp | None = None
) -> list[ledger.PlayedLog]:
    """Times in order, or the rule that excludes a log. Operators are captured here, once.

    A shard that fails three times excludes its logs."""
    run = _run_number()
    keys = [hashlib.sha256(f"{run} {number} {log.point}".encode()).hexdigest() for number, log in enumerate(logs)]
    made: dict[str, ledger.PlayedLog] = {}

    def tasks() -> Iterator[ShardTask]:
        for key, log in zip(keys, logs, strict=True):
            try:
                texts = _operators(log, captured)
            except ledger.Unmatched as reason:
                made[key] = reason.rule
            else:
                yield ShardTask(sweep_id=run, key=key, items=(), operators=texts, folder=None, store_url=None, log=log)

    with _until_done(engine):
        for task, outcome in ended_shards(engine, tasks()):
            if isinstance(outcome, ShardOutcome) and outcome.replayed is not None:
                made[task.key] = outcome.replayed
            else:
                made[task.key] = f"log not replayed: its shard failed {MOST_ATTEMPTS} times: {outcome}"
    return [made[key] for key in keys]


def _run_number() -> int:
    """Tells a run's shards from others on the scheduler."""
    return secrets.randbelow(2**31)


@contextmanager
def _until_done(engine: ShardEngine) -> Iterator[None]:
    """Says what to do where the engine was lost."""
    try:
        yield
    except EngineLostError as error:
        raise EvaluationError(
            f"nothing was compared: {error}", hint="run the same command again once workers are there"
        ) from error
    finally:
        engine.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Item:
    """For cutting shards."""

    number: int
    scenario: Scenario
    sizes: Sequence[int]
    key: str

    @property
    def interval(self) -> tuple[int, int]:
        """Sizes need not be neighbours."""
        return 1, len(self.sizes)


def _task(cut: Cut[_Item], run: int, captured: ledger.LookUp | None) -> ShardTask:
    texts: dict[str, str] = {}
    items = []
    for item in cut.items:
        keys: dict[str, str] = {trace: request.key for trace, request in capture_requests(item.scenario).items()}
        if not set(keys.values()) <= set(texts):
            for trace, operators in ledger.operators_of(item.scenario, captured).items():
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
    return ShardTask(sweep_id=run, key=cut.key, items=tuple(items), operators=texts, folder=None, store_url=None)


def _keep(
    cut: Cut[_Item], outcome: ShardOutcome, found: dict[Scenario, ledger.Evaluated], failures: dict[Scenario, str]
) -> None:
    scenarios = {item.number: item.scenario for item in cut.items}
    blocks: dict[Scenario, list[ProbeBlock]] = {}
    for block in outcome.blocks:
        blocks.setdefault(scenarios[block.scenario_id], []).append(_probes(block))
    found.update({scenario: ledger.Evaluated(block=joined_blocks(some)) for scenario, some in blocks.items()})
    failures.update({scenarios[number]: reason for number, reason in outcome.failures.items()})


def _items(sizes: Mapping[Scenario, Sequence[int]]) -> Iterator[_Item]:
    builder = RecordBuilder()
    for number, (scenario, some) in enumerate(sizes.items()):
        key = content_key([builder.scenario("", scenario).key, list(some)])
        yield _Item(number=number, scenario=scenario, sizes=some, key=key)


def _stretches(sizes: Sequence[int]) -> Iterable[tuple[int, int]]:
    ends = (np.flatnonzero(np.diff(sizes) > 1) + 1).tolist()
    for start, end in pairwise((0, *ends, len(sizes))):
        yield sizes[start], sizes[end - 1]


def _probes(block: ShardBlock) -> ProbeBlock:
    columns: dict[str, Any] = dict(block.record.columns)  # a block that was evaluated has every one of them
    return ProbeBlock(batch_size=np.asarray(block.record.batch_sizes), **columns)


def _operators(log: ledger.MeasuredLog, captured: ledger.LookUp | None) -> dict[str, str]:
    scenario = ledger.replayed_scenario(log.deployment)
    sets = ledger.operators_of(scenario, captured)
    return {request.key: operators_to_json(sets[trace]) for trace, request in capture_requests(scenario).items()}
