"""Logs of measured requests, replayed by workers: a shard each, whose times travel back to be compared.

Not here: how a log is replayed (evaluator.ledger), and its distance from what was measured (sweepdb.measuring)."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import replace

from evaluator.evaluate import capture_requests
from evaluator.graph import operators_to_json
from evaluator.ledger import LookUp, MeasuredLog, PlayedLog, Unmatched, operators_of, replayed_scenario
from store.errors import EvaluationError
from sweepdb.working.coordinating import MOST_ATTEMPTS
from sweepdb.working.tasks import EngineLostError, ShardEngine, ShardOutcome, ShardTask


def replayed_on(engine: ShardEngine, logs: Sequence[MeasuredLog], captured: LookUp | None = None) -> list[PlayedLog]:
    """Times of each log, in their order, or the rule by which it is left out. Operators are captured here, once.

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
