"""An image encoder's step: patches, layers, projections into tokens of the language part.

Tokens are patches, sequences the images or tiles that they attend within. Weights are in 16 bits, as published.
Tensor-parallel ranks share heads and inner widths, or each has all weights and a share of the images. Encoders run
outside of graphs. A convolution is a product whose overlapping inputs are read for each output. Left out: cutting
images on the host, and copying tokens into the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from evaluator.graph.capture.blocks import HALF, Step, all_reduced, divided, linear, pointwise
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.shapes import Kind, Tensor, meta_tensor, parameter
from evaluator.inputs.images import Projection, VisionTower


def trace_encoder(step: Step, tower: VisionTower) -> None:
    """On a pipeline's first stage."""
    recorder, stages, ranks = step.recorder, step.plan.pp, step.plan.tp
    if step.request.tower_whole:
        step = replace(step, request=replace(step.request, plan=replace(step.plan, tp=1)))

    def on_first(count: int) -> tuple[int, ...]:
        return (count, *(0 for _ in range(stages - 1)))

    with recorder.within("encoder", counts=on_first(1)):
        x = _embedded(step, tower)
        tables = _tables(step, tower, x.shape[0])
        with recorder.within("layers", counts=on_first(tower.layers)):
            x = _layer(step, tower, x, tables)
        patches = slice(0, step.point.tokens)  # without those of classes
        taken = [projected(step, f"deep{index}", x[patches], (one,)) for index, one in enumerate(tower.deep)]
        if tower.final_norm:
            x = _normed(step, "final_norm", x, tower.norm)
        x = x[patches]
        tokens = projected(step, "projection", x, tower.projections)
        if taken:
            with recorder.within("joined"):
                tokens = operators.join([tokens, *taken], 1)
        if step.request.tower_whole and ranks > 1:
            with recorder.within("all_gather"):
                operators.all_gather(tokens, 0, ranks, 1)


def _embedded(step: Step, tower: VisionTower) -> Tensor:
    rows, recorder = step.point.tokens, step.recorder
    patches = meta_tensor(rows, tower.patch_values)
    x = linear(step, "patch_embed", patches, tower.hidden_size, HALF, bias=tower.patch_bias)
    if tower.class_patch:
        with recorder.within("class_patch"):
            # One row of weights, held where the rows of every tile are written.
            held = operators.scale(x.new_empty((step.point.sequences, tower.hidden_size)), parameter(tower.hidden_size))
            x = operators.join([x, held], 0)
    if tower.positions:
        with recorder.within("positions"):
            table = parameter(tower.positions, tower.hidden_size)
            taps = operators.embed(table, meta_tensor(x.shape[0] * tower.position_taps, dtype=Kind.INT64))
            if tower.position_taps > 1:
                taps = operators.reduce(taps.view(x.shape[0], tower.position_taps, tower.hidden_size), 1, False, "sum")
            x = pointwise("add", x, taps)
    return _normed(step, "first_norm", x, tower.norm) if tower.first_norm else x


def _tables(step: Step, tower: VisionTower, rows: int) -> tuple[Tensor, Tensor] | None:
    if not tower.rotated:
        return None
    with step.recorder.within("rope_table"):
        angles = meta_tensor(rows, tower.head_dim)
        return pointwise("cosine", angles), pointwise("sine", angles)


def _layer(step: Step, tower: VisionTower, x: Tensor, tables: tuple[Tensor, Tensor] | None) -> Tensor:
    h = _attended(step, tower, _normed(step, "input_norm", x, tower.norm), tables)
    with step.recorder.within("attention_all_reduce"):
        h = all_reduced(step, h)
    if tower.output_norms:
        h = _normed(step, "attention_output_norm", h, tower.norm)
    if tower.block_scales:
        h = _scaled(step, "attention_scale", h)
    with step.recorder.within("attention_residual"):
        x = pointwise("add", x, h)
    h = _fed_forward(step, tower, _normed(step, "post_attention_norm", x, tower.norm))
    with step.recorder.within("mlp_all_reduce"):
        h = all_reduced(step, h)
    if tower.output_norms:
        h = _normed(step, "mlp_output_norm", h, tower.norm)
    if tower.block_scales:
        h = _scaled(step, "mlp_scale", h)
    with step.recorder.within("mlp_residual"):
        return pointwise("add", x, h)


def _attended(step: Step, tower: VisionTower, x: Tensor, tables: tuple[Tensor, Tensor] | None) -> Tensor:
    heads, width = divided(tower.heads, step.plan.tp), tower.head_dim
    packed = linear(step, "qkv_proj", x, 3 * heads * width, HALF, bias=tower.attention_bias)
    query, key, value = packed.view(x.shape[0], 3 * heads, width).split(heads, 1)
    if tower.head_norms:
        with step.recorder.within("head_norms"):
            query = operators.norm(query, parameter(width))
            key = operators.norm(key, parameter(width))
            value = operators.norm(value, parameter(0))
    if tables is not None:
        with step.recorder.within("rope"):
            operators.rope(query, key, *tables)
    with step.recorder.within("attention", per_phase=True):
        out = operators.attention(
            query, step.point.pairs, step.point.keys, heads, width, width, 0, 16, False, False, "encoder_attention"
        )
    del packed, query, key, value
    return linear(step, "output_proj", out.view(x.shape[0], -1), tower.hidden_size, HALF, bias=tower.attention_bias)


def _fed_forward(step: Step, tower: VisionTower, x: Tensor) -> Tensor:
    share = divided(tower.intermediate_size, step.plan.tp)
    if tower.gated:
        h = linear(step, "gate_up_proj", x, 2 * share, HALF, bias=tower.mlp_bias)
        with step.recorder.within("activation"):
            h = operators.gated_activation(h)
    else:
        h = linear(step, "up_proj", x, share, HALF, bias=tower.mlp_bias)
        with step.recorder.within("activation"):
            h = pointwise("gelu", h)
    return linear(step, "down_proj", h, tower.hidden_size, HALF, bias=tower.mlp_bias)


def projected(step: Step, label: str, x: Tensor, projections: Sequence[Projection]) -> Tensor:
    """Ranks share what is between two linears."""
    with step.recorder.within(label):
        for index, one in enumerate(projections):
            with step.recorder.within(str(index) if len(projections) > 1 else ""):
                x = _projected(step, x, one)
    return x


def _projected(step: Step, x: Tensor, projection: Projection) -> Tensor:
    rows = x.shape[0] // projection.merged
    if projection.norm != "none" and not (projection.joined_norm or projection.pooled):
        x = _normed(step, "norm", x, projection.norm)
    if projection.pooled:
        with step.recorder.within("pooling"):
            x = operators.reduce(x.view(rows, projection.merged, x.shape[1]), 1, False, "mean")
    elif projection.taps:  # as a product over what each row reads
        x = meta_tensor(rows, projection.taps * x.shape[1])
    else:
        x = x.view(rows, projection.merged * x.shape[1])
    if projection.norm != "none" and (projection.joined_norm or projection.pooled):
        x = _normed(step, "norm", x, projection.norm)
    if len(projection.widths) == 2:
        return linear(step, "linear", x, projection.widths[1], HALF, bias=projection.bias)
    between = divided(projection.widths[1], step.plan.tp)
    x = linear(step, "linear1", x, between, HALF, bias=projection.bias)
    with step.recorder.within("activation"):
        x = pointwise("gelu", x)
    x = linear(step, "linear2", x, projection.widths[2], HALF, bias=projection.bias)
    with step.recorder.within("all_reduce"):
        x = all_reduced(step, x)
    if projection.ends_active:
        with step.recorder.within("last_activation"):
            x = pointwise("gelu", x)
    return x


def _scaled(step: Step, label: str, x: Tensor) -> Tensor:
    with step.recorder.within(label):
        return operators.scale(x, parameter(x.shape[-1]))


def _normed(step: Step, label: str, x: Tensor, norm: str) -> Tensor:
    width = x.shape[-1]
    weight = {"layer": (2, width), "rms": (width,), "unscaled": (0,)}[norm]
    with step.recorder.within(label):
        return operators.norm(x, parameter(*weight))
