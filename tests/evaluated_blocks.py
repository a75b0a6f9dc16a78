"""What a request evaluates to and a fit of one server's points, stored nowhere."""

from __future__ import annotations

from evaluator.ledger.fitting import user_points
from evaluator.sweep import SCENARIOS_AT_ONCE, _worth_evaluating, in_lists
from evaluator.together import AskedSizes, evaluate_many


def evaluate_all(request, operators=None):
    """Every block of a request. `operators` keeps what is captured."""
    worth = _worth_evaluating(request, {} if operators is None else operators)
    for some in in_lists(worth, SCENARIOS_AT_ONCE):
        for block in evaluate_many([AskedSizes(planned.scenario, sets, *sizes) for planned, sets, sizes in some]):
            if isinstance(block, Exception):
                raise block
            yield block


def fitted_to(measured, start):
    own = user_points.own_points(measured)
    return user_points._corrected(own, start, user_points._fitted_numbers(own, start)).profile
