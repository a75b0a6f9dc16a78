"""Gated delta nets (Qwen3-Next, Qwen3.5, Kimi) and Mamba2: a matrix a head, whatever the length.

A prompt scans chunks of tokens; a decode updates the state."""

from __future__ import annotations

from evaluator.graph.capture.blocks import HALF, Step, divided, eager_norm, linear, pointwise
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.shapes import Tensor, parameter
from evaluator.inputs.model import GatedDeltaNet, StateSpace


def gated_delta_net(step: Step, x: Tensor, net: GatedDeltaNet) -> Tensor:
    """Projections, a short convolution, the recurrence, a gated norm, and the output."""
    form, tokens, tp = step.mixers, x.shape[0], step.plan.tp
    keys, heads = divided(net.key_heads, tp), divided(net.value_heads, tp)
    channels, values = 2 * keys * net.key_head_dim + heads * net.value_head_dim, heads * net.value_head_dim
    mixed, gate = _projected(step, x, channels, values, net.gate_rank)
    decays = _decays(step, x, heads, net)
    with step.recorder.within("convolution", per_phase=True):
        kind = convolution_kind(step, "state" if net.decay_rank is None else "channel")
        weight = parameter(channels, net.convolution)
        mixed = operators.short_convolution(mixed, weight, None, step.point.sequences, kind)
    with step.recorder.within("state", per_phase=True):
        out = _recurrence(step, mixed, decays, heads, net)
    del mixed, decays
    out, gate = out.view(tokens, heads, net.value_head_dim), gate.view(tokens, heads, net.value_head_dim)
    with step.recorder.within("norm"):
        weight = parameter(net.value_head_dim)
        if step.fused:
            out = operators.gated_norm(out, gate, weight)
        else:
            out = pointwise("multiply", eager_norm(out, weight), pointwise("silu", gate))
    del gate
    return linear(step, "output_proj", out.view(tokens, values), step.model.hidden_size, form)


def convolution_kind(step: Step, family: str) -> str:
    return f"{family}_convolution" if step.request.trace == "prefill" else f"{family}_convolution_update"


def _decays(step: Step, x: Tensor, heads: int, net: GatedDeltaNet) -> Tensor | None:
    """By channel through `decay_rank` dimensions, else by head."""
    if net.decay_rank is None:
        linear(step, "decay_proj", x, 2 * heads, HALF)
        return None
    packed = linear(step, "decay_down_proj", x, net.decay_rank + heads, HALF)
    down, _ = packed.split([net.decay_rank, heads], dim=1)
    return linear(step, "decay_up_proj", down, heads * net.key_head_dim, HALF)


def _recurrence(step: Step, mixed: Tensor, decays: Tensor | None, heads: int, net: GatedDeltaNet) -> Tensor:
    sequences, scan = step.point.sequences, step.request.trace == "prefill"
    sizes = (net.key_head_dim, net.value_head_dim, scan, net.state_bits)
    if decays is None:
        return operators.delta_state(mixed, parameter(2, heads), sequences, *sizes)
    weight = parameter(heads * (1 + net.key_head_dim))  # a rate a head, and a shift a channel
    return operators.channel_state(mixed, decays, weight, sequences, *sizes)


def _projected(step: Step, x: Tensor, channels: int, values: int, rank: int | None) -> tuple[Tensor, Tensor]:
    form = step.mixers
    if rank is not None:
        mixed = linear(step, "qkv_proj", x, channels, form)
        return mixed, linear(step, "gate_up_proj", linear(step, "gate_down_proj", x, rank, form), values, form)
    if step.fused:
        mixed, gate = linear(step, "input_proj", x, channels + values, form).split([channels, values], dim=1)
        return mixed, gate
    return linear(step, "qkv_proj", x, channels, form), linear(step, "gate_proj", x, values, form)


def state_space(step: Step, x: Tensor, space: StateSpace) -> Tensor:
    """Groups fewer than the devices are replicated."""
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
