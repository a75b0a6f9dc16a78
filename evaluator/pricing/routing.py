"""How a batch's tokens fall on the experts of one device: touched experts, tokens of each, and what an exchange moves.

Physical: routing is independent and even, so E[touched] = El (1 - (1 - k/E)^T). Upstream: each rank deals its
assignments to experts 0, 1, 2 ... in turn and the device modelled is rank 0, which at small batch holds them all."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evaluator.arithmetic import FloatArray, expm1, log1p
from evaluator.graph.operators import ExpertExtents
from store.schema import Convention


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLoad:
    """`touched` experts on the device, each with `tokens` tokens; expectations under even routing."""

    touched: FloatArray
    tokens: FloatArray


def expert_loads(extents: ExpertExtents, group_tokens: FloatArray, convention: Convention) -> tuple[ExpertLoad, ...]:
    """One load under even routing; two under upstream's dealing (experts with one token more, and the others)."""
    if convention == "upstream":
        return _dealt(extents, group_tokens)
    share = extents.experts_per_token / extents.experts
    # -expm1(T log1p(-share)) keeps its digits when few experts are touched.
    reached = -expm1(group_tokens * log1p(-share)) if share < 1 else np.minimum(group_tokens, 1.0)
    touched = extents.local_experts * reached
    assignments = group_tokens * share * extents.local_experts
    return (ExpertLoad(touched=touched, tokens=assignments / np.maximum(touched, 1e-300)),)


def _dealt(extents: ExpertExtents, group_tokens: FloatArray) -> tuple[ExpertLoad, ...]:
    assignments = np.ceil(group_tokens / extents.ranks) * extents.experts_per_token  # of one sending rank
    each, rest = np.divmod(assignments, extents.experts)
    first = np.minimum(rest, extents.local_experts)  # rank 0 holds the lowest experts
    others = np.where(each > 0, extents.local_experts - first, 0.0)
    return (
        ExpertLoad(touched=first, tokens=(each + 1) * extents.ranks),
        ExpertLoad(touched=others, tokens=each * extents.ranks),
    )


def touched_experts(extents: ExpertExtents, group_tokens: FloatArray, convention: Convention) -> FloatArray:
    loads = expert_loads(extents, group_tokens, convention)
    return np.asarray(sum((load.touched for load in loads[1:]), loads[0].touched))


def exchanged_share(extents: ExpertExtents, group_tokens: FloatArray, convention: Convention) -> FloatArray:
    """Share of a rank's rows that cross the wire in an all-to-all: the larger of sent and received."""
    ranks = extents.ranks
    if convention == "physical":
        return np.full_like(group_tokens, (ranks - 1) / ranks)
    assignments = np.ceil(group_tokens / ranks) * extents.experts_per_token
    own = sum(load.touched * load.tokens for load in _dealt(extents, group_tokens)) / ranks
    return np.asarray(np.maximum(assignments - own, (ranks - 1) * own) / np.maximum(assignments, 1e-300))
