"""How far the users of one's own server drift apart: the one number that is chosen among a few, not fitted by slopes.

Not here: what drift does (evaluator.serving.engine.schedule), and the other numbers
(evaluator.ledger.fitting.engine_fit)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evaluator.inputs.engines.engine_profiles import EngineProfile
from evaluator.ledger.fitting.engine_fit import fit_engine, loss_of
from evaluator.ledger.fitting.fit_points import FitPoint

SHORTEST = (1.0, 0.998, 0.995, 0.99, 0.98)  # shares of a length, from users in step to those of servers that drift most
ROUNDS = 2
# What would else be taken for drift: prompts that are priced wrong, and the time to receive a request.
BESIDE = ("prefill_factor", "decode_factor", "request_ms")
SURE = 0.9  # of the loss of the start, below which another drift takes its place


def drifted(points: Sequence[FitPoint], start: EngineProfile) -> EngineProfile:
    """The profile with the drift that leaves these points least, where any drifts as its engine does.

    A point whose client is stated says nothing of drift: its lengths differ anyway. Near a tie the start stays."""
    free = [point for point in points if point.drifts]
    if not free:
        return start
    usual = fit_engine(free, start, names=BESIDE)
    found = usual
    for _ in range(ROUNDS):
        found = min((_with(found, shortest) for shortest in SHORTEST), key=lambda one: loss_of(free, one))
        found = fit_engine(free, _with(start, found.client.shortest), names=BESIDE)
    return start if loss_of(free, found) >= SURE * loss_of(free, usual) else _with(start, found.client.shortest)


def _with(engine: EngineProfile, shortest: float) -> EngineProfile:
    return replace(engine, client=replace(engine.client, shortest=shortest))
