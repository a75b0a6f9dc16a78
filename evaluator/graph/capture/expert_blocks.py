"""A routed mixture: gate, dispatch, experts, combination, shared experts.

Routing is even on average; the step prices how many experts a batch touches (evaluator.pricing.step)."""

from __future__ import annotations

from dataclasses import replace

from evaluator.graph.capture.blocks import HALF, Step, all_reduced, dense_mlp, divided, linear, normed, pointwise
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.mixers.context_parallel import prompt_shares
from evaluator.graph.capture.shapes import Kind, Tensor, meta_tensor, parameter
from evaluator.graph.operators import Affine, ExpertExtents
from evaluator.inputs.model import DenseMlp, MoeMlp


def mixture(step: Step, x: Tensor, mlp: MoeMlp) -> Tensor:
    """Complete on every tensor-parallel rank."""
    plan = step.plan
    replicated = plan.ep == 1 and plan.moe_dp == 1 and plan.groups == 1
    read = normed(step, "routed_norm", x) if mlp.apart_norms else x
    out = _replicated(step, read, mlp) if replicated else _dispatched(step, read, mlp)
    whole = not replicated or _summed_early(mlp)
    if mlp.apart_norms:
        out = normed(step, "routed_output_norm", out)
    if mlp.shared_intermediate_size:
        shared = _shared(step, x, mlp)
        if whole:
            with step.recorder.within("shared_experts.all_reduce"):
                shared = all_reduced(step, shared)
        if mlp.apart_norms:
            shared = normed(step, "shared_experts.output_norm", shared)
        with step.recorder.within("shared_experts.add"):
            out = pointwise("add", out, shared)
    if not whole:
        # Routed and shared experts are partial sums of the same ranks: one reduction for both.
        with step.recorder.within("all_reduce"):
            out = all_reduced(step, out)
    return out


def _summed_early(mlp: MoeMlp) -> bool:
    """Sum routed experts before shared ones are added: for a norm, or where they are added a layer later."""
    return mlp.latent_norm or mlp.apart_norms or mlp.shortcut


def _shared(step: Step, x: Tensor, mlp: MoeMlp) -> Tensor:
    with step.recorder.within("shared_experts"):
        shared = DenseMlp(intermediate_size=mlp.shared_intermediate_size, gated=mlp.gated)
        out = dense_mlp(step, x, shared, step.request.linear)
        if mlp.shared_gate:
            gate = linear(step, "gate", x, 1, HALF)
            with step.recorder.within("gate"):
                out = pointwise("multiply", out, pointwise("sigmoid", gate))
        return out


def _dispatched(step: Step, x: Tensor, mlp: MoeMlp) -> Tensor:
    """A replica's tokens are split over its tensor-parallel ranks, and gathered afterwards."""
    recorder = step.recorder
    holders = _holders(step)
    share = x[: x.shape[0] // holders]
    weights, idle = _gated(step, share, mlp), share
    share = _latent(step, share, mlp)
    with recorder.within("permute"):
        rows = operators.permute_tokens(share, mlp.experts_per_token)
    rows = _exchanged(step, rows, mlp, outward=True)
    rows = _experts(step, rows, mlp)
    rows = _exchanged(step, rows, mlp, outward=False)
    with recorder.within("combine"):
        out = _combined(step, rows, weights)
    out = _with_idle(step, _out_of_latent(step, out, mlp), idle, mlp)
    if holders > 1:
        with recorder.within("all_gather"):
            out = operators.all_gather(out, 0, holders, 1)
    return out


def _holders(step: Step) -> int:
    return step.plan.tp * step.plan.pcp // prompt_shares(step)


def _replicated(step: Step, x: Tensor, mlp: MoeMlp) -> Tensor:
    """Every rank has all tokens and slices of all experts; the caller sums unless it is wanted earlier."""
    weights = _gated(step, x, mlp)
    inner = _latent(step, x, mlp)
    with step.recorder.within("permute"):
        rows = operators.permute_tokens(inner, mlp.experts_per_token)
    rows = _experts(step, rows, mlp)
    with step.recorder.within("combine"):
        out = _combined(step, rows, weights)
    if _summed_early(mlp):
        with step.recorder.within("latent_all_reduce" if mlp.latent_norm else "routed_all_reduce"):
            out = all_reduced(step, out)
    return _with_idle(step, _out_of_latent(step, out, mlp), x, mlp)


def _with_idle(step: Step, out: Tensor, x: Tensor, mlp: MoeMlp) -> Tensor:
    if not mlp.idle_experts:
        return out
    with step.recorder.within("idle_experts"):
        return pointwise("add", out, x)


def _latent(step: Step, x: Tensor, mlp: MoeMlp) -> Tensor:
    """Routed experts work in these dimensions; whole on every device."""
    return x if mlp.latent_size is None else linear(step, "latent_down_proj", x, mlp.latent_size, step.request.linear)


def _out_of_latent(step: Step, out: Tensor, mlp: MoeMlp) -> Tensor:
    if mlp.latent_size is None:
        return out
    if mlp.latent_norm:
        out = normed(step, "latent_norm", out, step.request.linear)
    return linear(step, "latent_up_proj", out, step.model.hidden_size, step.request.linear)


def _gated(step: Step, x: Tensor, mlp: MoeMlp) -> Tensor:
    if not mlp.apart_norms:
        return _routed(step, x, mlp)
    weights = _routed(step, normed(step, "router_norm", x), mlp)
    with step.recorder.within("router_scale"):
        return operators.scale(weights, parameter(mlp.experts))


def _routed(step: Step, x: Tensor, mlp: MoeMlp) -> Tensor:
    logits = linear(step, "router", x, mlp.scored, HALF, bias=mlp.router_bias)
    with step.recorder.within("routing"):
        if step.fused:
            return _computing(operators.route(logits, mlp.chosen)[0], mlp)
        scores = operators.cast(logits, meta_tensor(1, dtype=Kind.FP32))
        chosen, _ = operators.choose(pointwise("softmax", scores), mlp.chosen)
        total = operators.reduce(chosen, 1, True, "sum")
        return _computing(operators.cast(pointwise("divide", chosen, total), logits), mlp)


def _computing(weights: Tensor, mlp: MoeMlp) -> Tensor:
    return weights[:, : mlp.experts_per_token] if mlp.idle_experts else weights


def _combined(step: Step, rows: Tensor, weights: Tensor) -> Tensor:
    if step.fused:
        return operators.combine_tokens(rows, weights)
    rows = operators.unpermute_tokens(rows)
    each = rows.view(weights.shape[0], weights.shape[1], rows.shape[1])
    return operators.reduce(pointwise("multiply", each, weights.unsqueeze(-1)), 1, False, "sum")


def group_tokens(step: Step) -> int:
    return step.point.tokens * prompt_shares(step) * step.plan.dp // step.plan.moe_dp


def _exchanged(step: Step, rows: Tensor, mlp: MoeMlp, *, outward: bool) -> Tensor:
    """Each rank sends its share; members that split an expert share rows."""
    plan, recorder = step.plan, step.recorder
    local = group_tokens(step) * mlp.experts_per_token // plan.ep
    if outward:
        with recorder.within("dispatch"):
            if plan.moe_tp > 1:
                rows = operators.all_gather(rows, 0, plan.moe_tp, 1)
            with recorder.within("", experts=replace(_extents(step, mlp), role="exchange")):
                return operators.all_to_all(rows, local, plan.ep, plan.moe_tp) if plan.ep > 1 else rows
    with recorder.within("gather"):
        mine = step.point.tokens // _holders(step) * mlp.experts_per_token
        with recorder.within("", experts=replace(_extents(step, mlp), role="exchange")):
            if plan.ep > 1:
                rows = operators.all_to_all(rows, mine * plan.moe_tp, plan.ep, plan.moe_tp)
        return operators.reduce_scatter(rows, plan.moe_tp, 1) if plan.moe_tp > 1 else rows


def _extents(step: Step, mlp: MoeMlp) -> ExpertExtents:
    slots = mlp.experts + step.plan.redundant_experts  # tokens of an expert are dealt out to its copies
    return ExpertExtents(
        tokens=Affine(tokens=group_tokens(step)),  # at this point; fitted afterwards
        experts=slots,
        local_experts=divided(slots, step.plan.ep),
        ranks=step.plan.ep,
        experts_per_token=mlp.experts_per_token,
        hidden_size=mlp.latent_size or step.model.hidden_size,
        intermediate_size=divided(mlp.intermediate_size, step.plan.moe_tp),
        gated=mlp.gated,
    )


def _experts(step: Step, rows: Tensor, mlp: MoeMlp) -> Tensor:
    extents = _extents(step, mlp)
    with step.recorder.within("experts"):
        if step.fused:
            with step.recorder.within("", experts=extents):
                return _grouped(step, rows, mlp, extents)
        with step.recorder.within("expert", experts=extents, per_expert=True):
            # Eager loops over the touched experts: these operators are those of one of them.
            one = meta_tensor(step.point.tokens, extents.hidden_size)
            if step.plan.ep > 1:
                one = operators.join([one], 0)  # the chunks of the sending ranks
            _one_expert(step, one, mlp, extents.intermediate_size)
        with step.recorder.within("collect"):
            out = operators.join([rows], 0)
            return operators.join([out], 0) if step.plan.ep > 1 else out


def _grouped(step: Step, rows: Tensor, mlp: MoeMlp, extents: ExpertExtents) -> Tensor:
    form, local, width = step.request.experts, extents.local_experts, extents.intermediate_size
    quantised = form.activation_bits < 16
    if quantised:
        rows = operators.quantise(rows, form.activation_bits)
    up, outer = (2 if mlp.gated else 1) * width, extents.hidden_size
    bias = parameter(local, up) if mlp.expert_bias else None
    hidden = operators.grouped_linear(rows, parameter(local, up, outer), bias, form.name, "gate_up")
    with step.recorder.within("activation"):
        hidden = operators.gated_activation(hidden) if mlp.gated else pointwise("relu2", hidden)
    if quantised:
        hidden = operators.quantise(hidden, form.activation_bits)
    bias = parameter(local, outer) if mlp.expert_bias else None
    return operators.grouped_linear(hidden, parameter(local, outer, width), bias, form.name, "down")


def _one_expert(step: Step, x: Tensor, mlp: MoeMlp, width: int) -> None:
    form, outer = step.request.experts, mlp.latent_size or step.model.hidden_size
    if mlp.gated:
        gate = linear(step, "gate_proj", x, width, form, bias=mlp.expert_bias)
        up = linear(step, "up_proj", x, width, form, bias=mlp.expert_bias)
        with step.recorder.within("activation"):
            hidden = pointwise("multiply", pointwise("silu", gate), up)
    else:
        hidden = linear(step, "up_proj", x, width, form, bias=mlp.expert_bias)
        with step.recorder.within("activation"):
            hidden = pointwise("relu2", hidden)
    linear(step, "down_proj", hidden, outer, form, bias=mlp.expert_bias)
