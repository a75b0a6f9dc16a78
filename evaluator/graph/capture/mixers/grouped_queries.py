from __future__ import annotations

from functools import partial

from evaluator.graph.capture.blocks import (
    HALF,
    Step,
    all_reduced,
    attended,
    divided,
    eager_norm,
    linear,
    normed,
    pointwise,
    rotated,
)
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.mixers.context_parallel import attended_in_parts, gather_context, written_share
from evaluator.graph.capture.shapes import Kind, Tensor, meta_tensor, parameter
from evaluator.inputs.model import GroupedQueryAttention


def grouped_query_attention(
    step: Step, x: Tensor, attention: GroupedQueryAttention, window: int | None, tables: tuple[Tensor, Tensor] | None
) -> Tensor:
    """KV heads replicate where devices outnumber them."""
    form, tokens, dim = step.mixers, x.shape[0], attention.head_dim
    heads, kv_heads = divided(attention.query_heads, step.plan.tp), divided(attention.kv_heads, step.plan.tp)
    wide = attention.value_width
    query, key, value = _query_key_value(step, x, heads * dim, kv_heads, attention)
    gate = None
    if attention.output_gate:
        query, gate = query.split([heads * dim, heads * dim], dim=1)
    query, key = query.view(tokens, heads, dim), key.view(tokens, kv_heads, dim)
    if attention.qk_norm == "per_head":
        query, key = normed(step, "query_norm", query), normed(step, "key_norm", key)
    elif attention.qk_norm == "each_head":
        query = normed(step, "query_norm", query, weights=heads * dim)
        key = normed(step, "key_norm", key, weights=kv_heads * dim)
    elif attention.qk_norm == "per_layer":
        if step.plan.tp > 1 and step.request.convention == "physical":
            _squares_reduced(step, query.view(tokens, heads * dim), key.view(tokens, kv_heads * dim))
        query = normed(step, "query_norm", query.view(tokens, heads * dim)).view(tokens, heads, dim)
        key = normed(step, "key_norm", key.view(tokens, kv_heads * dim)).view(tokens, kv_heads, dim)
        if step.request.convention == "upstream" and not step.fused:
            with step.recorder.within("query_norm"):
                operators.copied(query)
    query, key, value = _turned_heads(step, query, key, value, attention, tables)
    if step.request.convention == "upstream" and step.request.kv_bits < HALF.activation_bits:
        with step.recorder.within("kv_quantise"):
            query, key, value = (operators.quantise(part, step.request.kv_bits) for part in (query, key, value))
    with step.recorder.within("kv_write"):
        operators.write_cache(written_share(step, key, value), step.request.kv_bits)
    gather_context(step, kv_heads * (dim + wide))
    out = attended_in_parts(step, query, partial(_heads_attended, step, attention, window, kv_heads))
    del query, key, value
    out = _gated_heads(step, x, out, gate, attention)
    return linear(
        step, "output_proj", out.view(tokens, heads * wide), step.model.hidden_size, form, bias=attention.output_bias
    )


def _heads_attended(
    step: Step, attention: GroupedQueryAttention, window: int | None, kv_heads: int, query: Tensor
) -> Tensor:
    kind = f"attention_{step.request.trace}"
    if attention.chosen_block > 1:
        kind = "block_attention" if step.request.trace == "prefill" else "block_decode"
    with step.recorder.within("attention", per_phase=True):
        return attended(
            step,
            query,
            kv_heads=kv_heads,
            head_dim=attention.head_dim,
            value_head_dim=attention.value_width,
            window=attention.chosen_keys or window,
            kind=kind,
            sinks=attention.sinks,
        )


def _turned_heads(  # noqa: PLR0917  its caller's own values
    step: Step,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention: GroupedQueryAttention,
    tables: tuple[Tensor, Tensor] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    tokens, kv_heads, wide = query.shape[0], key.shape[1], attention.value_width
    if attention.unscaled_norm == "query_key":
        query, key = unscaled_normed(step, "query_norm", query), unscaled_normed(step, "key_norm", key)
    elif attention.unscaled_norm == "value":
        value = unscaled_normed(step, "value_norm", value.view(tokens, kv_heads, wide)).view(tokens, kv_heads * wide)
    turned = _turned(step, attention, tables)
    if turned is not None:
        rotated(step, query[..., : turned[0].shape[1]], key[..., : turned[0].shape[1]], turned)
    return query, key, value


def _gated_heads(step: Step, x: Tensor, out: Tensor, gate: Tensor | None, attention: GroupedQueryAttention) -> Tensor:
    tokens, heads, wide = out.shape
    if attention.head_gate:
        each = linear(step, "head_gate_proj", x, heads, HALF)
        with step.recorder.within("head_gate"):
            out = pointwise("multiply", out, pointwise("sigmoid", each).unsqueeze(-1))
    if gate is not None:
        with step.recorder.within("output_gate"):
            out = pointwise("multiply", out.view(tokens, heads * wide), pointwise("sigmoid", gate))
    return out


def _turned(
    step: Step, attention: GroupedQueryAttention, tables: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor] | None:
    own = step.model.rope_fraction if attention.rope_fraction is None else attention.rope_fraction
    if tables is None or not own:
        return None
    width = attention.head_dim if step.request.convention == "upstream" else int(attention.head_dim * own)
    return tables if tables[0].shape[1] <= width else (tables[0][:, :width], tables[1][:, :width])


def unscaled_normed(step: Step, label: str, x: Tensor) -> Tensor:
    with step.recorder.within(label):
        return operators.norm(x, parameter(0)) if step.fused else eager_norm(x, parameter(0))


def _squares_reduced(step: Step, query: Tensor, key: Tensor) -> None:
    """A norm over heads that tensor parallelism divides: two 32-bit numbers a token are summed first.

    Source: vLLM's MiniMax-M2."""
    squares = meta_tensor(query.shape[0], 2, dtype=Kind.FP32)
    with step.recorder.within("query_key_norm_squares"):
        for part in (query, key):
            operators.reduce(part, 1, True, "mean")
    with step.recorder.within("query_key_norm_all_reduce"):
        all_reduced(step, squares)


def _query_key_value(
    step: Step, x: Tensor, query_width: int, kv_heads: int, attention: GroupedQueryAttention
) -> tuple[Tensor, Tensor, Tensor]:
    form, bias = step.mixers, attention.qkv_bias
    query_width *= 2 if attention.output_gate else 1
    key_width, value_width = kv_heads * attention.head_dim, kv_heads * attention.value_width
    if attention.values_are_keys:
        return _query_key(step, x, query_width, key_width, bias=bias)
    if step.fused:
        packed = linear(step, "qkv_proj", x, query_width + key_width + value_width, form, bias=bias)
        query, key, value = packed.split([query_width, key_width, value_width], dim=1)
        return query, key, value
    return (
        linear(step, "query_proj", x, query_width, form, bias=bias),
        linear(step, "key_proj", x, key_width, form, bias=bias),
        linear(step, "value_proj", x, value_width, form, bias=bias),
    )


def _query_key(step: Step, x: Tensor, query_width: int, key_width: int, *, bias: bool) -> tuple[Tensor, Tensor, Tensor]:
    form = step.mixers
    if step.fused:
        packed = linear(step, "qk_proj", x, query_width + key_width, form, bias=bias)
        query, key = packed.split([query_width, key_width], dim=1)
    else:
        query = linear(step, "query_proj", x, query_width, form, bias=bias)
        key = linear(step, "key_proj", x, key_width, form, bias=bias)
    return query, key, key
