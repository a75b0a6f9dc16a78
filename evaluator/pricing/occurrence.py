"""Seconds of one occurrence of an operator: the step's sums that it sees, its padding, its loop over experts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import Affine, ExpertExtents, Operator
from evaluator.graph.sums import BatchSums
from evaluator.inputs.model import Short
from evaluator.pricing.cost_model import KINDS, CostModel, KindSeconds
from evaluator.pricing.routing import expert_loads


def operator_seconds(operator: Operator, cost: CostModel, sums: BatchSums) -> KindSeconds:
    """One occurrence of an operator, its loop over touched experts included."""
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
    """The sums as an operator sees them: within its window, its share of them, of the requests that it runs for.

    Experts and what is sent to them see `load` times the tokens: all wait for the busiest device."""
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
