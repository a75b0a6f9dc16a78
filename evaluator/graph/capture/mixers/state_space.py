"""State space layers (Mamba2): linear attention whose keys and queries are shared by groups of heads."""

from __future__ import annotations

from torch import Tensor

from evaluator.graph.capture.blocks import Step, divided, eager_norm, linear, pointwise
from evaluator.graph.capture.library import operators, parameter
from evaluator.graph.capture.mixers.delta_net import convolution_kind
from evaluator.inputs.model import StateSpace


def state_space(step: Step, x: Tensor, space: StateSpace) -> Tensor:
    """Heads and groups of one device: one projection of all, a convolution, the recurrence, a gated norm, the way out.

    Groups fewer than the devices are replicated."""
    form, tokens = step.mixers, x.shape[0]
    heads, groups = divided(space.heads, step.plan.tp), divided(space.groups, step.plan.tp)
    inner = heads * space.head_dim
    channels = inner + 2 * groups * space.state_size
    packed = linear(step, "input_proj", x, inner + channels + heads, form)
    gate, mixed, _ = packed.split([inner, channels, heads], dim=1)
    with step.recorder.within("convolution", per_phase=True):
        bias = parameter(channels) if space.convolution_bias else None
        weight, kind = parameter(channels, space.convolution), convolution_kind(step, "space")
        mixed = operators.short_convolution(mixed, weight, bias, step.point.sequences, kind)
    with step.recorder.within("state", per_phase=True):
        out = operators.space_state(
            mixed,
            parameter(3, heads),
            step.point.sequences,
            groups,
            space.head_dim,
            space.state_size,
            space.chunk,
            step.request.trace == "prefill",
            space.state_bits,
        )
    del mixed
    if not space.norm:
        with step.recorder.within("gate"):
            out = pointwise("multiply", out, gate if step.fused else pointwise("silu", gate))
        del gate, packed
        return linear(step, "output_proj", out.view(tokens, inner), step.model.hidden_size, form)
    with step.recorder.within("norm"):
        weight = parameter(inner)
        if step.fused:
            out = operators.gated_norm(out, gate, weight)
        else:
            out = eager_norm(pointwise("multiply", out, pointwise("silu", gate)), weight)
    del gate, packed
    return linear(step, "output_proj", out.view(tokens, inner), step.model.hidden_size, form)
