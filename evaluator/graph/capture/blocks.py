"""Linears, norms, attention and MLP with sharded extents.

Compiled graphs fuse operators; eager ones run each small operator by itself, as PyTorch does."""

from __future__ import annotations

from dataclasses import dataclass, replace

from evaluator.graph.capture.affine_fit import Point
from evaluator.graph.capture.capture_request import CaptureRequest
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.recorder import Recorder
from evaluator.graph.capture.shapes import Kind, Tensor, meta_tensor, parameter
from evaluator.inputs.formats import Format
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import DenseMlp, ModelSpec

HALF = Format(name="BF16", compute="bf16", weight_bits=16, activation_bits=16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The context of blocks at one traced point."""

    request: CaptureRequest
    recorder: Recorder
    point: Point

    @property
    def model(self) -> ModelSpec:
        return self.request.model

    @property
    def plan(self) -> Plan:
        return self.request.plan

    @property
    def mixers(self) -> Format:
        return self.request.mixers or self.request.linear

    @property
    def all_in_half(self) -> Step:
        return replace(self, request=replace(self.request, linear=HALF, mixers=None))

    @property
    def of_drafts(self) -> Step:
        form = self.request.drafts
        if form is None:
            return self
        return replace(self, request=replace(self.request, linear=form, experts=form, mixers=None))

    @property
    def fused(self) -> bool:
        return self.request.compile


def divided(extent: int, parts: int) -> int:
    """The largest device's share."""
    return -(-extent // parts)


def all_reduced(step: Step, x: Tensor) -> Tensor:
    """Over the tensor-parallel group (adjacent ranks)."""
    tp = step.plan.tp
    return operators.all_reduce(x, tp, 1) if tp > 1 else x


def linear(
    step: Step, label: str, x: Tensor, columns: int, form: Format, *, bias: bool = False, shared: bool = False
) -> Tensor:
    """Quantises its input unless a fused operator has. `shared` weights are counted elsewhere."""
    with step.recorder.within(label):
        if form.activation_bits < 16 and x.dtype is not Kind.INT8:
            x = operators.quantise(x, form.activation_bits)
        return operators.linear(
            x, parameter(columns, x.shape[1]), parameter(columns) if bias else None, form.name, shared
        )


def normed(step: Step, label: str, x: Tensor, quantised: Format | None = None, *, weights: int | None = None) -> Tensor:
    """Compiled, it is fused with the quantisation that follows. `weights` default to the row's width."""
    bits = quantised.activation_bits if quantised is not None else 16
    with step.recorder.within(label):
        weight = norm_weight(step, weights or x.shape[-1])
        if not step.fused:
            return eager_norm(x, weight)
        return operators.norm_quantise(x, weight, bits) if bits < 16 else operators.norm(x, weight)


def norm_weight(step: Step, width: int) -> Tensor:
    return parameter(2, width) if step.model.norm == "layer" else parameter(width)


def eager_norm(x: Tensor, weight: Tensor) -> Tensor:
    wide = operators.cast(x, meta_tensor(1, dtype=Kind.FP32))
    mean = operators.reduce(pointwise("square", wide), wide.dim() - 1, True, "mean")
    scale = pointwise("inverse_root", pointwise("add", mean))
    narrow = operators.cast(pointwise("multiply", wide, scale), x)
    return operators.scale(narrow, weight)


def pointwise(name: str, *inputs: Tensor) -> Tensor:
    return operators.pointwise(list(inputs), name)


def add_normed(
    step: Step, label: str, x: Tensor, residual: Tensor, quantised: Format | None = None
) -> tuple[Tensor, Tensor]:
    """One launch when compiled."""
    bits = quantised.activation_bits if quantised is not None else 16
    with step.recorder.within(label):
        weight = norm_weight(step, x.shape[-1])
        if not step.fused:
            total = pointwise("add", residual, x)
            return eager_norm(total, weight), total
        if bits < 16:
            out, total = operators.add_norm_quantise(x, residual, weight, bits)
        else:
            out, total = operators.add_norm(x, residual, weight)
        return out, total


def rotated(step: Step, query: Tensor, key: Tensor, tables: tuple[Tensor, Tensor]) -> None:
    with step.recorder.within("rope"):
        if step.fused:
            operators.rope(query, key, *tables)
            return
        eager_rope(query, tables)
        eager_rope(key, tables)
        if step.request.convention == "upstream" and step.model.rope_fraction < 1.0:
            for part in (query, key):
                operators.join([part], part.dim() - 1)  # what is rotated and what is not, together again


def rope_tables(step: Step, width: int) -> tuple[Tensor, Tensor]:
    """Gathered once a step; upstream's compiled graph reads the whole table."""
    positions = meta_tensor(step.point.tokens, dtype=Kind.INT64)
    table = parameter(step.model.max_positions or 4096, width)
    gather = operators.gather_rows
    if step.request.convention == "upstream":
        gather = operators.read_rope_table if step.fused else operators.held_rows
    with step.recorder.within("rope_table"):
        return gather(table, positions), gather(table, positions)


def eager_rope(x: Tensor, tables: tuple[Tensor, Tensor]) -> Tensor:
    cosine, sine = (table.unsqueeze(1) for table in tables)
    half = x.shape[-1] // 2
    turned = operators.join([pointwise("negate", x[..., half:]), x[..., :half]], x.dim() - 1)
    return pointwise("add", pointwise("multiply", x, cosine), pointwise("multiply", turned, sine))


def attended(
    step: Step,
    query: Tensor,
    *,
    kv_heads: int,
    head_dim: int,
    value_head_dim: int,
    kind: str,
    window: int | None = None,
    kv_bits: int | None = None,
    sinks: bool = False,
) -> Tensor:
    """Attention over the traced pairs and keys: [tokens, heads, value_head_dim]."""
    bits = step.request.kv_bits if kv_bits is None else kv_bits
    alibi = step.model.position == "alibi"
    if step.request.convention == "upstream":
        return operators.indexed_attention(
            query,
            step.point.pairs,
            step.point.keys,
            step.point.sequences,
            kv_heads,
            head_dim,
            value_head_dim,
            window or 0,
            step.request.kv_dtype,
            int(alibi),
            kind,
        )
    return operators.attention(
        query,
        step.point.pairs,
        step.point.keys,
        kv_heads,
        head_dim,
        value_head_dim,
        window or 0,
        bits,
        sinks,
        alibi,
        kind,
    )


def dense_mlp(step: Step, x: Tensor, mlp: DenseMlp, form: Format, width: int | None = None) -> Tensor:
    """The caller sums over devices."""
    share = divided(mlp.intermediate_size, step.plan.tp) if width is None else width
    if not mlp.gated:
        hidden = linear(step, "up_proj", x, share, form, bias=mlp.bias)
        with step.recorder.within("activation"):
            hidden = pointwise("gelu", hidden)
    elif step.fused:
        packed = linear(step, "gate_up_proj", x, 2 * share, form, bias=mlp.bias)
        with step.recorder.within("activation"):
            hidden = operators.gated_activation(packed)
        del packed
    else:
        gate = linear(step, "gate_proj", x, share, form, bias=mlp.bias)
        up = linear(step, "up_proj", x, share, form, bias=mlp.bias)
        with step.recorder.within("activation"):
            hidden = pointwise("multiply", pointwise("silu", gate), up)
    return linear(step, "down_proj", hidden, step.model.hidden_size, form, bias=mlp.bias)
