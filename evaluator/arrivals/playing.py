"""Continuous batching of requests that arrive: every request's first and last token, exact for its rules.

The play is compiled where the machine can, and in Python elsewhere; both give the same bits. Not here: who asks when
(evaluator.arrivals.streams), and what steps take (evaluator.arrivals.prices)."""

from __future__ import annotations

from evaluator.arithmetic import FloatArray
from evaluator.arrivals.native import compiled_play, play_compiled
from evaluator.arrivals.play_rules import AskedRequests, PlayedRequests, PlayRules, StepPrices
from evaluator.arrivals.twin.python_play import play_in_python


def play(
    rules: PlayRules, prices: StepPrices, asked: AskedRequests, edges: FloatArray, *, each: bool = False
) -> PlayedRequests:
    """Play all requests to their ends. `edges` are those of the bins that times between tokens are counted in; `each`
    keeps the longest of them of every request, and how often it was preempted."""
    library = compiled_play()
    if library is None:
        return play_in_python(rules, prices, asked, edges, each=each)
    return play_compiled(library, rules, prices, asked, edges, each=each)
