"""Upstream's mixture: a loop over experts, each padded, split and reduced by itself.

A replica's tokens are sliced over tensor-parallel ranks, dealt to experts in turn (evaluator.pricing.occurrence), and
gathered. Softmax gates see a rank's own tokens. Gates with a bias and groups run on all tokens in 32 bits; eager
graphs also choose experts there, and again on the slice. Verified against upstream's tables of operators."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from evaluator.graph.capture.blocks import HALF, Step, all_reduced, dense_mlp, divided, linear, pointwise
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.shapes import Kind, Tensor, meta_tensor, parameter
from evaluator.graph.operators import Affine, ExpertExtents
from evaluator.inputs.model import DenseMlp, MoeMlp

GROUPS = 8  # DeepSeek-V3, section 2.1.2: experts in 8 groups, of which 4 are looked at


def _in_groups(mlp: MoeMlp) -> bool:
    return mlp.router_bias and mlp.shared_intermediate_size > 0


def scores_first(step: Step, x: Tensor, mlp: MoeMlp) -> Tensor | None:
    """Scores of all tokens in 32 bits, where experts are chosen in groups."""
    if not _in_groups(mlp):
        return None
    wide = meta_tensor(1, dtype=Kind.FP32)
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
    """Sigmoid, bias, the two best of each group, the best groups, their best experts, weights."""
    chosen = mlp.experts_per_token
    score = pointwise("sigmoid", scores)
    biased = pointwise("add", score)
    grouped = operators.copied(biased).view(scores.shape[0] * GROUPS, mlp.experts // GROUPS)
    best, _ = operators.choose(grouped, 2)
    groups = operators.reduce(best.view(scores.shape[0], GROUPS, 2), 2, False, "sum")
    operators.choose(groups, GROUPS // 2)
    pointwise("scatter", operators.fill(groups), groups)
    mask = operators.cast(biased, meta_tensor(1, dtype=Kind.INT8))
    pointwise("invert", mask)
    masked = pointwise("mask", biased, mask)
    operators.choose(masked, chosen)
    weights = operators.picked(score, chosen)
    total = operators.reduce(weights, 1, True, "sum")
    pointwise("divide", weights, pointwise("add", total))
    pointwise("multiply", weights)


def gated(step: Step, share: Tensor, mlp: MoeMlp, scores: Tensor | None) -> Tensor:
    if _in_groups(mlp):
        return _from_scores(step, share, mlp, scores)
    logits = linear(step, "router", share, mlp.experts, HALF, bias=mlp.router_bias and mlp.expert_bias)
    with step.recorder.within("routing"):
        values = operators.cast(logits, meta_tensor(1, dtype=Kind.FP32))
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
    """One launch chooses from the slice's scores, others normalise."""
    known = scores if scores is not None else scores_first(step, share, mlp)
    assert known is not None
    with step.recorder.within("routing"):
        weights, _ = operators.choose(known[: share.shape[0]], mlp.experts_per_token)
        total = operators.reduce(weights, 1, True, "sum")
        return operators.cast(pointwise("divide", weights, total), share)


def upstream_mixture(step: Step, x: Tensor, mlp: MoeMlp) -> Tensor:
    """Without expert parallelism every rank has slices of all experts, and all tokens."""
    plan, recorder = step.plan, step.recorder
    sliced = plan.ep > 1 and plan.tp > 1
    scores = scores_first(step, x, mlp) if plan.ep > 1 else None
    with recorder.within("", multiple=plan.tp if sliced else 1):
        if sliced:
            with recorder.within("pad", if_needed=True):
                operators.pad(x)
        share = _entered(step, x)
        out = _routed(step, share, mlp, scores)
        split = step.request.shared_split and plan.ep > 1
        if mlp.shared_intermediate_size and not split:
            out = _added(step, out, _shared(step, share, mlp, split=plan.ep == 1))
        if sliced:
            with recorder.within("all_gather"):
                out = operators.all_gather(out, 0, plan.tp, 1)
    if mlp.shared_intermediate_size and split:
        out = _added(step, out, _shared(step, x, mlp, split=True))
    return out


def _entered(step: Step, x: Tensor) -> Tensor:
    plan = step.plan
    if plan.ep > 1:
        return x[: x.shape[0] // plan.tp]
    if plan.dp == 1:
        return x
    with step.recorder.within("enter_all_gather"):
        return operators.all_gather(x, 0, plan.dp, plan.tp)


def _added(step: Step, out: Tensor, shared: Tensor) -> Tensor:
    with step.recorder.within("shared_experts.add"):
        return pointwise("add", out, shared)


def _shared(step: Step, x: Tensor, mlp: MoeMlp, *, split: bool) -> Tensor:
    size = mlp.shared_intermediate_size
    with step.recorder.within("shared_experts"):
        width = divided(size, step.plan.tp) if split else size
        out = dense_mlp(step, x, DenseMlp(intermediate_size=size), step.request.linear, width)
        if mlp.shared_gate:
            gate = linear(step, "gate", x, 1, HALF)
            with step.recorder.within("gate"):
                out = pointwise("multiply", out, pointwise("sigmoid", gate))
        if split:
            with step.recorder.within("all_reduce"):
                out = all_reduced(step, out)
    return out


def _routed(step: Step, share: Tensor, mlp: MoeMlp, scores: Tensor | None) -> Tensor:
    recorder, chosen = step.recorder, mlp.experts_per_token
    weights = gated(step, share, mlp, scores)
    with recorder.within("permute"):
        rows = operators.dealt(share, chosen)
    _exchanged(step, rows, mlp, "dispatch")
    _experts(step, mlp)
    _exchanged(step, rows, mlp, "gather")
    with recorder.within("combine"):
        rows = operators.undealt(rows)
        each = rows.view(share.shape[0], chosen, rows.shape[1])
        # Weights of 32 bits widen the product, and the sum is narrowed again.
        wide = weights.dtype == Kind.FP32
        product = operators.weighted(each, weights.unsqueeze(-1))
        out = operators.reduce(product, 1, False, "sum")
        return operators.cast(out, share) if wide else out


def _extents(step: Step, mlp: MoeMlp) -> ExpertExtents:
    plan, tokens = step.plan, step.point.tokens
    # Each of `ep` ranks routes its own slice; without expert parallelism one device routes the tokens of all replicas.
    routed = Fraction(tokens * plan.ep, plan.tp) if plan.ep > 1 else Fraction(tokens * plan.dp)
    return ExpertExtents(
        tokens=Affine(tokens=routed.numerator if routed.denominator == 1 else routed),
        experts=mlp.experts,
        local_experts=divided(mlp.experts, plan.ep),
        ranks=plan.ep,
        experts_per_token=mlp.experts_per_token,
        hidden_size=step.model.hidden_size,
        intermediate_size=divided(mlp.intermediate_size, plan.moe_tp),
    )


def _exchanged(step: Step, rows: Tensor, mlp: MoeMlp, label: str) -> None:
    plan = step.plan
    if plan.ep > 1:
        with step.recorder.within(label, experts=replace(_extents(step, mlp), role="exchange")):
            operators.all_to_all(rows, rows.shape[0], plan.ep, plan.moe_tp)


def _experts(step: Step, mlp: MoeMlp) -> None:
    """Rows are put together by expert, for all, and by rank; compiled graphs fuse the first."""
    extents, recorder, hidden = _extents(step, mlp), step.recorder, step.model.hidden_size
    # These operators see an expert's tokens, or all rows of the device, as the tokens of the step.
    some = meta_tensor(step.point.tokens, hidden)
    crossing = step.plan.moe_tp > 1 and step.plan.moe_tp != step.plan.tp
    with recorder.within("experts"):
        with recorder.within("collect", experts=replace(extents, role="rows")):
            operators.join([some], 0)
            with recorder.within("", if_needed=step.fused):  # compiled graphs do so only where experts are idle
                operators.join([some], 0)
        grouped = step.fused and not crossing
        if grouped:
            with recorder.within("gate_up", experts=replace(extents, role="rows")):
                _grouped_gate_up(step, some, mlp, extents)
        with recorder.within("expert", experts=extents, per_expert=True, multiple=1):
            if not step.fused:
                operators.join([some], 0)
            with recorder.within("", multiple=step.plan.tp):
                if step.plan.tp > 1:
                    with recorder.within("pad", if_needed=True):
                        operators.pad(some)
                _one_expert(step, some, mlp, crossing=crossing, grouped=grouped)


def _grouped_gate_up(step: Step, rows: Tensor, mlp: MoeMlp, extents: ExpertExtents) -> None:
    form, local = step.request.experts, extents.local_experts
    if form.activation_bits < HALF.activation_bits:
        rows = operators.quantise(rows, form.activation_bits)
    bias = parameter(local, 2 * extents.intermediate_size) if mlp.expert_bias else None
    weight = parameter(local, 2 * extents.intermediate_size, step.model.hidden_size)
    operators.grouped_linear(rows, weight, bias, form.name, "rows")


def _one_expert(step: Step, x: Tensor, mlp: MoeMlp, *, crossing: bool, grouped: bool) -> None:
    form, width = step.request.experts, divided(mlp.intermediate_size, step.plan.moe_tp)
    hidden = _gate_up(step, x, mlp, crossing=crossing, grouped=grouped)
    if crossing:
        with step.recorder.within("down_enter"):
            hidden = _to_expert_ranks(step, hidden)
            # A rank takes its columns: into zeros where the graph is not compiled.
            mine = hidden[:, :width]
            if not step.fused:
                operators.fill(mine)
            operators.overwrite(mine)
            hidden = mine
    out = linear(step, "down_proj", hidden, step.model.hidden_size, form, bias=mlp.expert_bias)
    if step.plan.moe_tp > 1:
        with step.recorder.within("down_all_reduce"):
            out = operators.all_reduce(out, step.plan.moe_tp, 1)
    if crossing:
        with step.recorder.within("down_leave"):
            _from_expert_ranks(step, out)


def _gate_up(step: Step, x: Tensor, mlp: MoeMlp, *, crossing: bool, grouped: bool) -> Tensor:
    """Apart, or one linear in compiled graphs."""
    form, plan = step.request.experts, step.plan
    width, bias = divided(mlp.intermediate_size, plan.moe_tp), mlp.expert_bias
    full = x.new_empty((x.shape[0], mlp.intermediate_size if crossing else width))
    if not grouped:
        names = {"gate_up_proj": 2 * width} if step.fused else {"gate_proj": width, "up_proj": width}
        for name, columns in names.items():
            mine = x
            if crossing:
                with step.recorder.within(f"{name}_enter"):
                    mine = _to_expert_ranks(step, x)
            out = linear(step, name, mine, columns, form, bias=bias)
        if crossing:
            for name in ("gate", "up"):
                with step.recorder.within(f"{name}_leave"):
                    columns = operators.all_gather(out[:, :width], 1, plan.moe_tp, 1)
                    _from_expert_ranks(step, columns)
    with step.recorder.within("activation"):
        if step.fused:
            return operators.gated_activation(x.new_empty((x.shape[0], 2 * full.shape[1])))
        return pointwise("multiply", pointwise("silu", full), full)


def _to_expert_ranks(step: Step, x: Tensor) -> Tensor:
    plan = step.plan
    return operators.all_gather(x[: x.shape[0] // plan.tp], 0, plan.moe_tp, 1)


def _from_expert_ranks(step: Step, x: Tensor) -> Tensor:
    plan = step.plan
    return operators.all_gather(x[: x.shape[0] // plan.moe_tp], 0, plan.tp, 1)
