"""FLOPs and bytes of each operator by its shapes; unlisted operators are reported, never zero.

A multiply and an add are two FLOPs. A launch moves its bytes once: no reuse across launches, no cache misses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from evaluator.graph.capture.shapes import Tensor
from evaluator.graph.operators import AttentionExtents, ExpertRole, OperatorKind, Rational
from evaluator.inputs.formats import Format
from store.schema import Convention

HALF_BITS = 16
SOFTMAX_FLOPS_PER_SCORE = 4  # scale, subtract the maximum, exponential, normalise


@dataclass(slots=True, kw_only=True)  # not frozen: there are thousands a set, and freezing one costs the most of it
class Work:
    """`gemm` is (m, n, k, batch), `collective` is (group, stride, payload bytes)."""

    kind: OperatorKind
    label: str = ""
    launches: int = 1
    matrix_flops: Rational = 0
    matrix_dtype: str = "bf16"
    vector_flops: Rational = 0
    vector_dtype: str = "bf16"
    bytes_read: Rational = 0
    bytes_written: Rational = 0
    weight_bytes: Rational = 0
    weight_format: str = ""
    activation_dtype: str = "bf16"
    expert_bytes: Rational = 0
    expert_vector_flops: Rational = 0
    gemm: tuple[int, int, int, int] | None = None
    attention: AttentionExtents | None = None
    collective: tuple[int, int, Rational] | None = None
    role: ExpertRole = ""


@dataclass(slots=True, kw_only=True)
class Call:
    """Arguments, result, and formats by name."""

    args: tuple[Any, ...]
    result: Any
    formats: dict[str, Format]
    convention: Convention = "physical"


Formula = Callable[[Call], Work]
FORMULAS: dict[str, Formula] = {}


def formula(*names: str) -> Callable[[Formula], Formula]:
    def register(function: Formula) -> Formula:
        for name in names:
            FORMULAS[name] = function
        return function

    return register


def size_bytes(*tensors: Tensor | None) -> int:
    return sum([tensor.nbytes for tensor in tensors if tensor is not None])


def bits_bytes(elements: int, bits: float) -> Rational:
    above, below = bits.as_integer_ratio()
    whole, rest = divmod(elements * above, 8 * below)
    return Fraction(elements * above, 8 * below) if rest else whole


def _tensors(values: object) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, tuple | list):
        return [tensor for value in values for tensor in _tensors(value)]
    return []


def _moving(kind: OperatorKind, call: Call, *, flops_per_element: int = 1, label: str = "") -> Work:
    """Memory-bound: reads its tensors, writes its result, some vector FLOPs an element."""
    read, written = _tensors(call.args), _tensors(call.result)
    elements = max([tensor.numel() for tensor in (*read, *written)], default=0)
    return Work(
        kind=kind,
        label=label,
        vector_flops=flops_per_element * elements,
        bytes_read=size_bytes(*read),
        bytes_written=size_bytes(*written),
    )


def moved(
    kind: OperatorKind,
    call: Call,
    *read: Tensor,
    flops: Rational = 0,
    weight: Tensor | None = None,
    label: str = "",
    more: Rational = 0,
) -> Work:
    """Reads some tensors, a `weight` among them, and `more` bytes; writes its result."""
    return Work(
        kind=kind,
        label=label,
        vector_flops=flops,
        bytes_read=size_bytes(*read) + more,
        bytes_written=size_bytes(call.result),
        weight_bytes=size_bytes(weight),
    )


_FLOPS_PER_ELEMENT = {"silu": 4, "gelu": 4, "sigmoid": 4, "softmax": 4, "relu2": 2, "add_both": 2}


@formula("pointwise", "reduce")
def _pointwise(call: Call) -> Work:
    name = call.args[-1]
    kind: OperatorKind = "activation" if name in {"silu", "gelu", "sigmoid", "relu2"} else "elementwise"
    kind = "moe_routing" if name == "softmax" else kind
    return _moving(kind, call, flops_per_element=_FLOPS_PER_ELEMENT.get(name, 1), label=name)


@formula("cast")
def _cast(call: Call) -> Work:
    x, _ = call.args
    return moved("elementwise", call, x, label="cast")


formula("join")(lambda call: _moving("elementwise", call, flops_per_element=0, label="join"))
formula("choose")(lambda call: _moving("moe_routing", call, flops_per_element=4, label="choose"))
formula("gated_activation")(lambda call: _moving("activation", call, flops_per_element=3))
formula("route", "permute_tokens", "combine_tokens", "unpermute_tokens")(
    lambda call: _moving("moe_routing", call, flops_per_element=2)
)


@formula("embed")
def _embed(call: Call) -> Work:
    table, ids = call.args
    # Only the rows asked for are read; the table is resident on every device of the stage.
    return moved("embedding", call, call.result, ids, weight=table)


@formula("gather_rows")
def _gather_rows(call: Call) -> Work:
    _, positions = call.args
    return moved("elementwise", call, call.result, positions)


@formula("scale")
def _scale(call: Call) -> Work:
    x, weight = call.args  # which is longer than few tokens' scores where it scales experts
    work = _moving("elementwise", call, label="scale")
    return replace(work, vector_flops=x.numel(), weight_bytes=size_bytes(weight))


@formula("norm")
def _norm(call: Call) -> Work:
    x, weight = call.args
    return moved("norm", call, x, weight, flops=4 * x.numel(), weight=weight)


@formula("norm_quantise")
def _norm_quantise(call: Call) -> Work:
    x, weight, bits = call.args
    return Work(
        kind="norm",
        vector_flops=6 * x.numel(),
        bytes_read=size_bytes(x, weight),
        bytes_written=bits_bytes(x.numel(), bits),
        weight_bytes=size_bytes(weight),
    )


@formula("add_norm", "add_norm_quantise")
def _add_norm(call: Call) -> Work:
    x, residual, weight, *bits = call.args
    normed = bits_bytes(x.numel(), bits[0] if bits else HALF_BITS)
    return Work(
        kind="norm",
        vector_flops=(7 if bits else 5) * x.numel(),
        bytes_read=size_bytes(x, residual, weight),
        bytes_written=normed + size_bytes(residual),
        weight_bytes=size_bytes(weight),
    )


@formula("quantise")
def _quantise(call: Call) -> Work:
    x, bits = call.args
    return Work(
        kind="quantise",
        vector_flops=2 * x.numel(),
        bytes_read=size_bytes(x),
        bytes_written=bits_bytes(x.numel(), bits),
    )


@formula("linear")
def _linear(call: Call) -> Work:
    x, weight, bias, form, shared = call.args
    format_ = call.formats[form]
    rows, (columns, depth) = x.shape[0], weight.shape
    weights = bits_bytes(weight.numel(), format_.weight_bits + format_.scale_bits_per_weight)
    return Work(
        kind="gemm",
        matrix_flops=2 * rows * columns * depth,
        matrix_dtype=format_.compute,
        vector_flops=(weight.numel() if format_.dequantise_weight else 0) + (rows * columns if bias is not None else 0),
        vector_dtype=_widening_dtype(call, format_),
        bytes_read=bits_bytes(x.numel(), format_.activation_bits) + weights + size_bytes(bias) + _scales(call, format_),
        bytes_written=size_bytes(call.result),
        weight_bytes=0 if shared else weights + size_bytes(bias),
        weight_format=form,
        activation_dtype=_activation_dtype(format_),
        gemm=(rows, columns, depth, 1),
    )


def _scales(call: Call, format_: Format) -> int:  # upstream reads a scale and an offset
    return 12 if call.convention == "upstream" and format_.activation_bits < HALF_BITS else 0


def _widening_dtype(call: Call, format_: Format) -> str:  # upstream widens weights in 32 bits
    return "fp32" if call.convention == "upstream" and format_.dequantise_weight else "bf16"


def _activation_dtype(format_: Format) -> str:
    return format_.compute if format_.activation_bits < HALF_BITS else "bf16"


@formula("heads_product")
def _heads_product(call: Call) -> Work:
    x, weight, form = call.args
    format_, rows, (heads, depth, columns) = call.formats[form], x.shape[0], weight.shape
    weights = bits_bytes(weight.numel(), format_.weight_bits + format_.scale_bits_per_weight)
    return Work(
        kind="batched_gemm",
        matrix_flops=2 * rows * heads * depth * columns,
        matrix_dtype=format_.compute,
        bytes_read=bits_bytes(x.numel(), format_.activation_bits) + weights,
        bytes_written=size_bytes(call.result),
        # MLA's weights are those of the expanded projection (kv_b), counted once whichever trace is taken.
        weight_bytes=weights,
        weight_format=form,
        activation_dtype=_activation_dtype(format_),
        gemm=(rows, columns, depth, heads),
    )


@formula("rope")
def _rope(call: Call) -> Work:
    query, key, cosine, sine = call.args
    return Work(
        kind="rope",
        vector_flops=3 * (query.numel() + key.numel()),
        bytes_read=size_bytes(query, key, cosine, sine),
        bytes_written=size_bytes(query, key),
    )


@formula("write_cache")
def _write_cache(call: Call) -> Work:
    entries, bits = call.args
    elements = sum(entry.numel() for entry in entries)
    slots = 8 * entries[0].shape[0]  # one 64-bit slot index a token
    return Work(
        kind="kv_write",
        vector_flops=2 * elements if bits < HALF_BITS else 0,
        bytes_read=size_bytes(*entries) + slots,
        bytes_written=bits_bytes(elements, bits),
    )


@formula("read_latent")
def _read_latent(call: Call) -> Work:
    keys, width, _, bits = call.args
    return Work(
        kind="elementwise",
        vector_flops=keys * width if bits < HALF_BITS else 0,
        bytes_read=bits_bytes(keys * width, bits),
        bytes_written=size_bytes(call.result),
    )


@formula("attention")
def _attention(call: Call) -> Work:
    query, pairs, keys, kv_heads, head_dim, value_dim, window, kv_bits, sinks, alibi, form = call.args
    heads = query.shape[1]
    # MLA absorbed: values are the first part of the one cached vector, so it is read once.
    entry = head_dim if form == "mla_decode" else kv_heads * (head_dim + value_dim)
    scores = pairs * heads
    per_score = SOFTMAX_FLOPS_PER_SCORE + (1 if alibi else 0)
    return Work(
        kind=form,
        matrix_flops=2 * scores * (head_dim + value_dim),
        vector_flops=per_score * scores + (keys * entry if kv_bits < HALF_BITS else 0),
        bytes_read=size_bytes(query) + bits_bytes(keys * entry, kv_bits),
        bytes_written=size_bytes(call.result),
        weight_bytes=2 * heads if sinks else 0,
        attention=AttentionExtents(
            query_heads=heads,
            kv_heads=kv_heads,
            head_dim=head_dim,
            value_head_dim=value_dim,
            window=window or None,
            kv_bits=kv_bits,
            sinks=sinks,
        ),
    )


@formula("grouped_linear")
def _grouped_linear(call: Call) -> Work:
    rows, weight, bias, form, role = call.args
    format_ = call.formats[form]
    experts, columns, depth = weight.shape
    one_expert = bits_bytes(columns * depth, format_.weight_bits + format_.scale_bits_per_weight)
    one_expert += 2 * columns if bias is not None else 0
    return Work(
        kind="moe_grouped_gemm",
        label=role,
        matrix_flops=2 * rows.shape[0] * columns * depth,
        matrix_dtype=format_.compute,
        vector_flops=rows.shape[0] * columns if bias is not None else 0,
        vector_dtype=_widening_dtype(call, format_),
        bytes_read=bits_bytes(rows.numel(), format_.activation_bits),
        bytes_written=size_bytes(call.result),
        weight_bytes=experts * one_expert,
        weight_format=form,
        activation_dtype=_activation_dtype(format_),
        expert_bytes=one_expert,
        expert_vector_flops=columns * depth if format_.dequantise_weight else 0,
        gemm=(rows.shape[0], columns, depth, 1),
        role=role,
    )


def _collective(kind: OperatorKind, payload: Tensor, group: int, stride: int) -> Work:
    return Work(kind=kind, collective=(group, stride, size_bytes(payload)))


@formula("all_reduce", "reduce_scatter")
def _reduction(call: Call) -> Work:
    x, group, stride = call.args
    kind: OperatorKind = "all_reduce" if call.result.shape == x.shape else "reduce_scatter"
    return _collective(kind, x, group, stride)


formula("all_gather")(lambda call: _collective("all_gather", call.args[0], *call.args[2:]))
formula("all_to_all")(lambda call: _collective("all_to_all", call.args[0], *call.args[2:]))
formula("send")(lambda call: _collective("send_receive", call.args[0], 2, call.args[1]))


__all__ = [
    "FORMULAS", "HALF_BITS", "SOFTMAX_FLOPS_PER_SCORE", "Call", "Work", "bits_bytes", "formula", "moved",
    "size_bytes",
]  # fmt: skip
