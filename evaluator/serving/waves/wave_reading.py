"""Keys from outside the devices under the formulas: a prefill step takes the longer of computing and reading.

No engine is named, so the order is the formulas' own: prompts are all there, and links read one prompt after another
from the start on, layer by layer beside computing. Steps of equal prompts that follow each other then take the longer
of both each, which is exact; of several lengths a step reads what its tokens read in the mean. Not here: engines, and
what a link carries (evaluator.serving.engine.tier_loads)."""

from __future__ import annotations

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.sums import BatchSums
from evaluator.pricing.cost_model import KINDS
from evaluator.pricing.step import StepTimes
from evaluator.scenario import Scenario
from evaluator.serving.batches import BatchSource, FixedLengths
from evaluator.serving.engine.request_kinds import RequestKind, weights_of
from evaluator.serving.engine.tier_loads import load_seconds, said_of_loads
from evaluator.serving.interface import Run
from evaluator.serving.waves.mixed import MixedLengths
from store.schema import FORMULA_MODELS


def reading_s(run: Run, sums: BatchSums) -> FloatArray:
    """Seconds in which the links bring what lies outside of the prompts of steps; 0 under engines."""
    scenario = run.scenario
    if not scenario.workload.tiers or scenario.serving_model not in FORMULA_MODELS:
        return np.zeros_like(sums.tokens)
    kinds = _kinds(run.source)
    weights = weights_of(kinds)
    seconds = (weights * [load_seconds(scenario, kind) for kind in kinds]).sum()
    # 100 ms for prompts of 1,000 new tokens: a step of 4,000 tokens reads for 400 ms.
    return np.asarray(sums.tokens * (seconds / (weights * [kind.new_tokens for kind in kinds]).sum()))


def with_reading(run: Run, step: StepTimes, sums: BatchSums) -> StepTimes:
    """Prefill steps with what of their reading computing does not hide, as overhead. A pipeline has one stage."""
    waiting = np.maximum(reading_s(run, sums) - step.total, 0.0)
    if not waiting.any():
        return step
    overhead = np.zeros_like(step.kinds)
    overhead[KINDS.index("overhead")] = waiting
    return step + StepTimes(kinds=overhead, slowest_stage=waiting)


def said_of_reading(scenario: Scenario, source: BatchSource) -> tuple[str, ...]:
    """A sentence on what the mean prompt reads."""
    return said_of_loads(scenario, _kinds(source)) if scenario.workload.tiers and scenario.phase != "decode" else ()


def _kinds(source: BatchSource) -> tuple[RequestKind, ...]:
    if isinstance(source, MixedLengths):
        return source.kinds
    if isinstance(source, FixedLengths):
        return (RequestKind(new_tokens=source.new_tokens, cached=source.input_length - source.new_tokens),)
    raise TypeError(f"no kinds of requests in {type(source).__name__}")
