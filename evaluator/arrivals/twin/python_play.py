"""All requests played to their ends, in Python.

Not here: what one replica does (evaluator.arrivals.twin.replicas)."""

from __future__ import annotations

from math import inf

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.arrivals.play_rules import AskedRequests, PlayedRequests, PlayRules, StepPrices
from evaluator.arrivals.twin.play_state import PlayState
from evaluator.arrivals.twin.replicas import Replica


def play_in_python(
    rules: PlayRules, prices: StepPrices, asked: AskedRequests, edges: FloatArray, *, each: bool = False
) -> PlayedRequests:
    """Play all requests to their ends."""
    play = PlayState(rules, prices, asked, edges, each=each)
    replicas = [Replica(play) for _ in range(rules.replicas)]
    if rules.dispatch == "least" and rules.replicas > 1:
        for number, arrived in enumerate(play.arrive):
            for replica in replicas:
                replica.advance(arrived)
            min(replicas, key=lambda one: one.present(arrived)).expect(number)
    else:
        for number, place in enumerate(asked.replica.tolist()):
            replicas[place].expect(number)
    for replica in replicas:
        replica.advance(inf)
    return PlayedRequests(
        first_s=np.asarray(play.first),
        end_s=np.asarray(play.end),
        gaps=np.asarray(play.gaps, dtype=np.int64),
        busy_s=sum((replica.busy for replica in replicas), 0.0),
        preempted=play.preempted,
        worst_gap_s=np.asarray(play.worst) if each else None,
        preemptions=np.asarray(play.preemptions, dtype=np.int64) if each else None,
    )
