"""Logs of measured requests, replayed by workers: a shard each, whose times travel back to be compared.

Not here: how a log is replayed (evaluator.ledger), and its distance from what was measured (sweepdb.measuring)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from evaluator.evaluate import capture_requests
from evaluator.graph import OperatorSet, operators_to_json
from evaluator.ledger import LookUp, MeasuredLog, PlayedLog, Unmatched, operators_of, played_or_why, replayed_scenario
from store.errors import EvaluationError
from sweepdb.working.coordinating import MOST_ATTEMPTS
from sweepdb.working.tasks import EngineLostError, ShardEngine, ShardOutcome, ShardTask

if TYPE_CHECKING:
    from evaluator.graph.capture import CaptureRequest


def replayed_on(engine: ShardEngine, logs: Sequence[MeasuredLog], captured: LookUp | None = None) -> list[PlayedLog]:
    """What `played_or_why` says of each log, in their order. Operators are captured here, once.

    A log whose shard fails three times is left out with the reason; the others go on."""
    try:
        return _replayed(engine, logs, captured)
    except EngineLostError as error:
        raise EvaluationError(
            f"nothing was compared: {error}", hint="run the same command again once workers are there"
        ) from error
    finally:
        engine.cancel()


def _replayed(engine: ShardEngine, logs: Sequence[MeasuredLog], captured: LookUp | None) -> list[PlayedLog]:
    run = secrets.randbelow(2**31)  # tells its shards from those of others on the same scheduler
    made: dict[str, PlayedLog] = {}
    places: list[str] = []

    def take_one() -> None:
        task, outcome = next(engine.results())
        if isinstance(outcome, ShardOutcome) and outcome.replayed is not None:
            made[task.key] = outcome.replayed
        elif task.attempt < MOST_ATTEMPTS:
            engine.submit(replace(task, attempt=task.attempt + 1))
        else:
            reason = str(outcome).partition("\n")[0] or type(outcome).__name__
            made[task.key] = f"log not replayed: its shard failed {MOST_ATTEMPTS} times: {reason}"

    for number, log in enumerate(logs):
        key = hashlib.sha256(f"{run} {number} {log.point}".encode()).hexdigest()
        places.append(key)
        try:
            texts = _operators(log, captured)
        except Unmatched as reason:
            made[key] = reason.rule
            continue
        while engine.busy:
            take_one()
        engine.submit(ShardTask(sweep_id=run, key=key, items=(), operators=texts, folder=None, store_url=None, log=log))
    while len(made) < len(places):
        take_one()
    return [made[key] for key in places]


def _operators(log: MeasuredLog, captured: LookUp | None) -> dict[str, str]:
    scenario = replayed_scenario(log.deployment)
    sets = operators_of(scenario, captured)
    return {request.key: operators_to_json(sets[trace]) for trace, request in capture_requests(scenario).items()}


@dataclass(frozen=True, slots=True)
class Known:
    """Operators of a shard, looked up by the capture that they are of."""

    operators: Mapping[str, OperatorSet]

    def __call__(self, request: CaptureRequest) -> OperatorSet:
        """The set of one capture."""
        return self.operators[request.key]


def replay_shard(log: MeasuredLog, operators: Mapping[str, OperatorSet]) -> PlayedLog:
    """Replay the log of a shard."""
    return played_or_why(log, Known(operators))
