"""Traces a step at a few points and fits its operators exactly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from fractions import Fraction
from operator import attrgetter
from typing import Any

from evaluator.graph.capture.affine_fit import NotAffineError, Point, fitted, trace_points
from evaluator.graph.capture.blocks import HALF, Step
from evaluator.graph.capture.capture_request import CaptureRequest
from evaluator.graph.capture.decoder import trace_step
from evaluator.graph.capture.encoder_blocks import trace_encoder
from evaluator.graph.capture.formulas import Work
from evaluator.graph.capture.recorder import Record, Recorder, Scope
from evaluator.graph.operators import (
    Affine,
    CollectiveExtents,
    ExpertExtents,
    GemmExtents,
    Operator,
    OperatorSet,
    Rational,
)


def trace(request: CaptureRequest) -> OperatorSet:
    plan, tower = request.plan, request.tower
    unit = plan.pcp * math.lcm(plan.tp * plan.ep * plan.moe_dp * plan.moe_tp, plan.moe_dp * plan.ep)
    if tower is not None:
        unit = math.lcm(tower.token_patches, *(one.merged for one in tower.deep))
    shares = plan.pcp if request.trace == "prefill" and tower is None else 1
    points = [_own(point, shares) for point in trace_points(unit)]
    recorders = [_traced(request, point) for point in points]
    rows = [recorder.records for recorder in recorders]
    if len({len(row) for row in rows}) != 1:
        raise NotAffineError("the operators of a step differ between the traced points")
    columns = list(zip(*rows, strict=True))
    merged = _merged([(_operator(points, records, shares), records[0].scope) for records in columns])
    return OperatorSet(
        key=request.key,
        trace=request.trace,
        stages=plan.pp,
        operators=tuple(operator for operator, draft in merged if not draft),
        draft_operators=tuple(operator for operator, draft in merged if draft),
        windows=request.model.windows if tower is None else (),
        alive_bytes=tuple(_of_all(form, shares) for form in _peaks(points, columns)),
        unmodelled=tuple(dict.fromkeys(recorders[0].unmodelled)),
        micro_batches=plan.micro_batches,
    )


def _own(point: Point, shares: int) -> Point:
    """For one group that divides prompts: its share of new tokens, and every key."""
    return replace(point, tokens=point.tokens // shares, pairs=point.pairs // shares)


def _of_all(form: Affine, shares: int) -> Affine:
    if shares == 1:
        return form
    return replace(form, tokens=Fraction(form.tokens) / shares, pairs=Fraction(form.pairs) / shares)


def _traced(request: CaptureRequest, point: Point) -> Recorder:
    named = (HALF, request.linear, request.experts, request.mixers, request.head, request.drafts)
    formats = {form.name: form for form in named if form is not None}
    recorder = Recorder(formats, request.convention)
    with recorder:
        step = Step(request=request, recorder=recorder, point=point)
        if request.tower is None:
            trace_step(step)
        else:
            trace_encoder(step, request.tower)
    return recorder


# What a call and its scope say of an operator as it is; the numbers of a call are fitted over the points.
_FITTED = {name: attrgetter(f"work.{name}") for name in ("matrix_flops", "vector_flops", "bytes_read", "bytes_written")}
_OF_WORK, _OF_SCOPE = (
    tuple({field.name for field in fields(Operator)} & {field.name for field in fields(kind)} - set(own))
    for kind, own in ((Work, ("label", "gemm", "collective", *_FITTED)), (Scope, ("label", "counts", "experts")))
)


def _operator(points: Sequence[Point], records: Sequence[Record], prompt_shares: int) -> Operator:
    first = records[0]
    work, scope = first.work, first.scope

    def fit(read: Callable[[Record], Rational]) -> Affine:
        return fitted(points, [read(record) for record in records], f"{first.label} ({work.kind})")

    experts = scope.experts
    if experts is not None:
        tokens = fit(lambda record: (record.scope.experts or _absent(record)).tokens.tokens)
        experts = replace(experts, tokens=tokens, role=work.role or experts.role)
    values: dict[str, Any] = {
        **{name: getattr(work, name) for name in _OF_WORK},
        **{name: getattr(scope, name) for name in _OF_SCOPE},
        **{name: fit(read) for name, read in _FITTED.items()},
    }
    return Operator(
        **values,
        label=first.label,
        counts=(),
        gemm=_gemm(records, fit),
        experts=experts if _needs_experts(first) else None,
        collective=_collective(records, fit),
        prompt_shares=prompt_shares,
    )


def _needs_experts(record: Record) -> bool:
    scope = record.scope
    rows = scope.experts is not None and scope.experts.role == "rows"
    return rows or scope.per_expert or record.work.kind in {"moe_grouped_gemm", "all_to_all"}


def _absent(record: Record) -> ExpertExtents:
    raise NotAffineError(f"{record.label}: experts at one traced point and none at another")


_Fit = Callable[[Callable[[Record], Rational]], Affine]


def _gemm(records: Sequence[Record], fit: _Fit) -> GemmExtents | None:
    gemm = records[0].work.gemm
    if gemm is None:
        return None
    return GemmExtents(m=fit(lambda record: (record.work.gemm or gemm)[0]), n=gemm[1], k=gemm[2], batch=gemm[3])


def _collective(records: Sequence[Record], fit: _Fit) -> CollectiveExtents | None:
    collective = records[0].work.collective
    if collective is None:
        return None
    payload = fit(lambda record: (record.work.collective or collective)[2])
    return CollectiveExtents(group_size=collective[0], stride=collective[1], payload_bytes=payload)


def _merged(operators: Sequence[tuple[Operator, Scope]]) -> list[tuple[Operator, bool]]:
    """Equal operators under one label become one, such as both halves of a rope table.

    Each says whether it is of drafts."""
    merged: dict[tuple[Operator, bool], tuple[int, ...]] = {}
    for operator, scope in operators:
        bare, counts = (operator, scope.draft), scope.counts
        known = merged.get(bare)
        merged[bare] = counts if known is None else tuple(a + b for a, b in zip(known, counts, strict=True))
    return [(replace(bare[0], counts=counts), bare[1]) for bare, counts in merged.items()]


def _peaks(points: Sequence[Point], columns: Sequence[Sequence[Record]]) -> tuple[Affine, ...]:
    """Activations alive in each operator, without those that others always exceed.

    Short requests need no more than long ones."""
    forms = {
        fitted(points, [record.alive for record in records], "activations alive")
        for records in columns
        if not ((requests := records[0].scope.requests) and requests.up_to)
    }
    kept: list[Affine] = []
    for form in sorted(forms, key=lambda affine: tuple(float(c) for c in affine.coefficients), reverse=True):
        pairs = (zip(form.coefficients, other.coefficients, strict=True) for other in kept)
        if not any(all(a <= b for a, b in pair) for pair in pairs):
            kept.append(form)
    return tuple(kept)
