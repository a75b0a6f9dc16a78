"""How far the users of one's own server drift apart: the one number that is chosen among a few, not fitted by slopes.

Not here: what drift does (evaluator.serving.engine.schedule), and the other numbers
(evaluator.ledger.fitting.engine_fit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.ledger.fitting.engine_fit import fit_engine, log_errors, loss_of
from evaluator.ledger.fitting.fit_points import FitPoint

SHORTEST = (1.0, 0.998, 0.995, 0.99, 0.98)  # shares of a length, from users in step to those of servers that drift most
ROUNDS = 2
# What would else be taken for drift: prompts that are priced wrong, and the time to receive a request.
BESIDE = ("prefill_factor", "decode_factor", "request_ms")
SURE = 0.9  # of the loss of the start, below which another drift takes its place
BETTER = 0.99  # of the loss of an earlier drift, below which a later one is better: ties are no chance


def drifted(points: Sequence[FitPoint], start: EngineProfile) -> EngineProfile:
    """The profile with the drift that leaves these points least, where any drifts as its engine does.

    A point whose client is stated says nothing of drift: its lengths differ anyway. Near a tie the start stays."""
    free = [point for point in points if point.drifts]
    if not free:
        return start
    usual = found = fit_engine(free, start, names=BESIDE).profile
    for _ in range(ROUNDS):
        shortest = _least_drift(free, found)
        found = fit_engine(free, _with(start, shortest), names=BESIDE).profile
    return start if _loss(free, found) >= SURE * _loss(free, usual) else _with(start, found.client.shortest)


def _least_drift(free: Sequence[FitPoint], engine: EngineProfile) -> float:
    best, least = engine.client.shortest, _loss(free, engine)
    for shortest in SHORTEST:
        loss = _loss(free, _with(engine, shortest))
        if loss < BETTER * least:
            best, least = shortest, loss
    return best


def _loss(points: Sequence[FitPoint], engine: EngineProfile) -> float:
    return loss_of(points, log_errors(points, engine))


def _with(engine: EngineProfile, shortest: float) -> EngineProfile:
    return replace(engine, client=replace(engine.client, shortest=shortest))
