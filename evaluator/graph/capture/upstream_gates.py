"""The gates of mixtures of experts as upstream runs them, launch by launch.

Softmax gates look at a rank's own tokens. Gates that add a bias to scores and choose among groups of experts run on all
tokens of a replica and in 32 bits; eager graphs even choose experts there, which is then done again on the slice."""

from __future__ import annotations

import torch
from torch import Tensor

from evaluator.graph.capture.blocks import HALF, Step, linear, pointwise
from evaluator.graph.capture.library import operators, parameter
from evaluator.graph.capture.recorder import meta_tensor
from evaluator.inputs.model import MoeMlp

GROUPS = 8  # DeepSeek-V3, section 2.1.2: experts in 8 groups, of which 4 are looked at


def _in_groups(mlp: MoeMlp) -> bool:
    return mlp.router_bias and mlp.shared_intermediate_size > 0


def scores_first(step: Step, x: Tensor, mlp: MoeMlp) -> Tensor | None:
    """Scores of all tokens in 32 bits, where experts are chosen in groups; None for other gates."""
    if not _in_groups(mlp):
        return None
    wide = meta_tensor(1, dtype=torch.float32)
    with step.recorder.within("router"):
        weight = parameter(mlp.experts, x.shape[1])
        if not step.fused:
            operators.cast(weight, wide)
        scores = operators.wide_linear(operators.cast(x, wide), weight)
    if step.plan.ep > 1 and step.plan.tp > 1:
        with step.recorder.within("router.pad", multiple=step.plan.tp, if_needed=True):
            operators.pad(scores)
    if not step.fused:
        with step.recorder.within("groups"):
            _chosen_in_groups(scores, mlp)
    return scores


def _chosen_in_groups(scores: Tensor, mlp: MoeMlp) -> None:
    """Sigmoid, bias, the two best of each group, the best groups, the best experts of those, their weights."""
    chosen = mlp.experts_per_token
    score = pointwise("sigmoid", scores)
    biased = pointwise("add", score)
    grouped = operators.copied(biased).view(scores.shape[0] * GROUPS, mlp.experts // GROUPS)
    best, _ = operators.choose(grouped, 2)
    groups = operators.reduce(best.view(scores.shape[0], GROUPS, 2), 2, False, "sum")
    operators.choose(groups, GROUPS // 2)
    pointwise("scatter", operators.fill(groups), groups)
    mask = operators.cast(biased, meta_tensor(1, dtype=torch.int8))
    pointwise("invert", mask)
    masked = pointwise("mask", biased, mask)
    operators.choose(masked, chosen)
    weights = operators.picked(score, chosen)
    total = operators.reduce(weights, 1, True, "sum")
    pointwise("divide", weights, pointwise("add", total))
    pointwise("multiply", weights)


def gated(step: Step, share: Tensor, mlp: MoeMlp, scores: Tensor | None) -> Tensor:
    """Weights of the chosen experts for this rank's tokens."""
    if _in_groups(mlp):
        return _from_scores(step, share, mlp, scores)
    logits = linear(step, "router", share, mlp.experts, HALF, bias=mlp.router_bias and mlp.expert_bias)
    with step.recorder.within("routing"):
        values = operators.cast(logits, meta_tensor(1, dtype=torch.float32))
        if mlp.router_bias and not mlp.expert_bias:
            score = pointwise("sigmoid", values)
            operators.choose(pointwise("add", score), mlp.experts_per_token)
            weights = operators.picked(score, mlp.experts_per_token)
            total = operators.reduce(weights, 1, True, "sum")
            if not step.fused:
                operators.fill(total)
            return pointwise("divide", weights, total)
        if step.fused:
            largest = operators.reduce(values, 1, True, "maximum")
            raised = pointwise("exponential", pointwise("subtract", values, largest))
            scores = pointwise("divide", raised, operators.reduce(raised, 1, True, "sum"))
        else:
            scores = pointwise("softmax", values)
        weights, _ = operators.choose(scores, mlp.experts_per_token)
        total = operators.reduce(weights, 1, True, "sum")
        return operators.cast(pointwise("divide", weights, total), logits)


def _from_scores(step: Step, share: Tensor, mlp: MoeMlp, scores: Tensor | None) -> Tensor:
    """One launch chooses among the slice's scores; the rest normalises."""
    known = scores if scores is not None else scores_first(step, share, mlp)
    assert known is not None
    with step.recorder.within("routing"):
        weights, _ = operators.choose(known[: share.shape[0]], mlp.experts_per_token)
        total = operators.reduce(weights, 1, True, "sum")
        return operators.cast(pointwise("divide", weights, total), share)
