"""Seconds of one occurrence: the sums it sees, its padding, its loop over experts.

Physical: routing is independent and even, so E[touched] = El (1 - (1 - k/E)^T). Upstream: each rank deals assignments
to experts 0, 1, 2 ..., and the device is rank 0, which at small batches holds all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluator.arithmetic import FloatArray, expm1, log1p
from evaluator.graph.operators import Affine, ExpertExtents, Operator
from evaluator.graph.sums import BatchSums
from evaluator.inputs.model import Short
from evaluator.pricing.cost_model import KINDS, CostModel, KindSeconds
from store.light_dataclass import dataclass
from store.schema import Convention


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertLoad:
    """`touched` experts with `tokens` tokens each; expectations."""

    touched: FloatArray
    tokens: FloatArray


def expert_loads(extents: ExpertExtents, group_tokens: FloatArray, convention: Convention) -> tuple[ExpertLoad, ...]:
    """One under even routing; two under upstream's dealing, where some experts get one token more."""
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
    """The larger of a rank's sent and received rows."""
    ranks = extents.ranks
    if convention == "physical":
        return np.full_like(group_tokens, (ranks - 1) / ranks)
    assignments = np.ceil(group_tokens / ranks) * extents.experts_per_token
    own = sum(load.touched * load.tokens for load in _dealt(extents, group_tokens)) / ranks
    return np.asarray(np.maximum(assignments - own, (ranks - 1) * own) / np.maximum(assignments, 1e-300))


def operator_seconds(operator: Operator, cost: CostModel, sums: BatchSums) -> KindSeconds:
    """With its loop over touched experts."""
    seen = seen_by(operator, sums, cost.load)
    if operator.experts is not None and operator.experts.role == "rows":
        return _of_all_rows(operator, operator.experts, cost, seen)
    if not operator.per_expert or operator.experts is None:
        if operator.requests is not None:
            return _times((seen.tokens > 0).astype(np.float64), cost.operator_seconds(operator, seen))
        if operator.multiple == 1:
            seconds = cost.operator_seconds(operator, seen)
            if operator.collective is None or operator.driver != "attention":
                return seconds
            sent = operator.collective.payload_bytes.at(seen) > 0  # nothing is cached, nothing is gathered
            return _times(sent.astype(np.float64), seconds)
        there, tokens = padded(operator, seen.tokens)
        seconds = cost.operator_seconds(operator, replace(seen, tokens=tokens))
        return seconds if there is None else _times(there, seconds)
    group_tokens = operator.experts.tokens.at(seen)
    parts: dict[str, FloatArray] = {}
    for load in expert_loads(operator.experts, group_tokens, cost.convention):
        there, tokens = padded(operator, load.tokens)
        touched = load.touched if there is None else load.touched * there
        one = BatchSums(tokens=tokens, sequences=sums.sequences, pairs=sums.pairs, keys=sums.keys)
        seconds = cost.operator_seconds(operator, one)
        for kind in KINDS:
            part = getattr(seconds, kind)
            if part is not None:
                parts[kind] = parts.get(kind, 0.0) + touched * part
    return KindSeconds(**parts)


def seen_by(operator: Operator, sums: BatchSums, load: float = 1.0) -> BatchSums:
    """Its window, its share, and its requests.

    Experts see `load` times the tokens: all wait for the busiest device."""
    seen = sums.within(operator.attention.window) if operator.attention is not None else sums
    if operator.shares > 1:
        seen = replace(seen, pairs=seen.pairs / operator.shares, keys=seen.keys / operator.shares)
    if load != 1.0 and operator.experts is not None and operator.experts.ranks > 1:
        seen = replace(seen, tokens=load * seen.tokens)
    if operator.requests is not None:
        short = Short(operator.requests.keys)
        seen = seen.only(short) if operator.requests.up_to else seen.beyond(short)
    if operator.prompt_shares == 1:
        return seen
    return replace(seen, tokens=seen.tokens / operator.prompt_shares, pairs=seen.pairs / operator.prompt_shares)


def padded(operator: Operator, tokens: FloatArray) -> tuple[FloatArray | None, FloatArray]:
    if operator.multiple == 1:
        return None, tokens
    whole = np.ceil(tokens / operator.multiple) * operator.multiple
    if not operator.if_needed:
        return None, whole
    # 5 rows to a multiple of 8: it reads 5 and writes 8, 6.5 each.
    return (whole > tokens).astype(np.float64), (tokens + whole) / 2


def _times(factor: FloatArray, seconds: KindSeconds) -> KindSeconds:
    parts = {kind: getattr(seconds, kind) for kind in KINDS}
    return KindSeconds(**{kind: None if part is None else factor * part for kind, part in parts.items()})


def _of_all_rows(operator: Operator, experts: ExpertExtents, cost: CostModel, sums: BatchSums) -> KindSeconds:
    group_tokens = experts.tokens.at(sums)
    loads = expert_loads(experts, group_tokens, cost.convention)
    rows = sum(load.touched * load.tokens for load in loads)
    held = replace(operator, experts=replace(experts, tokens=Affine(sequences=1)))
    seen = BatchSums(tokens=np.asarray(rows), sequences=group_tokens, pairs=sums.pairs, keys=sums.keys)
    seconds = cost.operator_seconds(held, seen)
    if not operator.if_needed:
        return seconds
    idle = sum(load.touched for load in loads) < experts.local_experts
    return _times(np.asarray(idle, dtype=np.float64), seconds)
