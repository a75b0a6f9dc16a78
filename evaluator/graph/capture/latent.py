"""MLA (DeepSeek-V2/V3): expanded keys and values in prefill, absorbed in decode.

Attention to chosen keys (mixers.sparse_latent) absorbs in prefill, too, except for short requests. Expanding projects
every key read, since the cache holds compressed vectors. Upstream's two operators are verified against its tables for
DeepSeek-V3.1, eager and compiled."""

from __future__ import annotations

from functools import partial

from evaluator.graph.capture.blocks import HALF, Step, attended, divided, linear, normed, pointwise, rotated
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.mixers.context_parallel import attended_in_parts, gather_context, written_share
from evaluator.graph.capture.mixers.sparse_latent import attended_choice, choose_keys
from evaluator.graph.capture.shapes import Tensor, parameter
from evaluator.graph.operators import RequestsOfLength
from evaluator.inputs.model import LatentAttention


def latent_attention(step: Step, x: Tensor, attention: LatentAttention, tables: tuple[Tensor, Tensor] | None) -> Tensor:
    """Compressed projections are replicated over tensor-parallel ranks."""
    heads = divided(attention.query_heads, step.plan.tp)
    query, latent, key_rope = _projections(step, x, attention, heads, tables)
    nope = attention.nope_head_dim
    if tables is not None:
        rotated(step, query[..., nope:], key_rope.unsqueeze(1), tables)
    with step.recorder.within("kv_write"):
        operators.write_cache(written_share(step, latent, key_rope), step.request.kv_bits)
    gather_context(step, attention.kv_lora_rank + attention.rope_head_dim)
    if step.request.trace == "decode":
        out = _absorbed(step, query, attention)
    elif attention.chosen_keys is None:
        out = _expanded(step, query, attention)
    else:
        with step.recorder.within("short", requests=RequestsOfLength(keys=attention.chosen_keys, up_to=True)):
            _expanded(step, query, attention)
        with step.recorder.within("", requests=RequestsOfLength(keys=attention.chosen_keys, up_to=False)):
            out = _absorbed(step, query, attention)
    del query, latent, key_rope
    width = heads * attention.value_head_dim
    out = out.view(x.shape[0], width)
    if attention.output_gate:
        gate = linear(step, "gate_proj", x, width, step.mixers)
        with step.recorder.within("output_gate"):
            out = pointwise("multiply", out, pointwise("sigmoid", gate))
    return linear(step, "output_proj", out, step.model.hidden_size, step.mixers)


def _projections(
    step: Step, x: Tensor, attention: LatentAttention, heads: int, tables: tuple[Tensor, Tensor] | None
) -> tuple[Tensor, Tensor, Tensor]:
    form, rank = step.mixers, attention.query_lora_rank
    query_width = heads * (attention.nope_head_dim + attention.rope_head_dim)
    kv_width = attention.kv_lora_rank + attention.rope_head_dim
    if rank is None:
        query = linear(step, "query_proj", x, query_width, form)
        compressed = linear(step, "kv_down_proj", x, kv_width, form)
    else:
        if step.fused:
            packed = linear(step, "query_kv_down_proj", x, rank + kv_width, form)
            query_down, compressed = packed.split([rank, kv_width], dim=1)
        else:
            query_down = linear(step, "query_down_proj", x, rank, form)
            compressed = linear(step, "kv_down_proj", x, kv_width, form)
        query = _expanded_query(step, x, query_down, attention, query_width, tables)
    latent, key_rope = compressed.split([attention.kv_lora_rank, attention.rope_head_dim], dim=1)
    latent = normed(step, "kv_norm", latent)
    return query.view(x.shape[0], heads, -1), latent, key_rope


def _expanded_query(  # noqa: PLR0917  its caller's own values
    step: Step,
    x: Tensor,
    query_down: Tensor,
    attention: LatentAttention,
    width: int,
    tables: tuple[Tensor, Tensor] | None,
) -> Tensor:
    form = step.mixers
    down = normed(step, "query_norm", query_down, form)
    if attention.indexer is not None:
        choose_keys(step, x, down, attention, attention.indexer, tables)
    return linear(step, "query_up_proj", down, width, form)


def _absorbed(step: Step, query: Tensor, attention: LatentAttention) -> Tensor:
    heads, rank = query.shape[1], attention.kv_lora_rank
    with step.recorder.within("query_absorb", per_phase=True):
        absorbed = operators.heads_product(
            query[..., : attention.nope_head_dim], parameter(heads, attention.nope_head_dim, rank), HALF.name
        )
    # The rope part is concatenated in place by the kernels that do this; no launch of its own is counted.
    wide = absorbed.new_empty((query.shape[0], heads, rank + attention.rope_head_dim))
    out = attended_in_parts(step, wide, partial(_latent_attended, step, attention))
    del absorbed, wide
    with step.recorder.within("value_absorb", per_phase=True):
        return operators.heads_product(out, parameter(heads, rank, attention.value_head_dim), HALF.name)


def _latent_attended(step: Step, attention: LatentAttention, wide: Tensor) -> Tensor:
    rank = attention.kv_lora_rank
    with step.recorder.within("attention", per_phase=True):
        if attention.chosen_keys is not None:
            return attended_choice(step, wide, attention)
        return attended(
            step, wide, kv_heads=1, head_dim=rank + attention.rope_head_dim, value_head_dim=rank, kind="mla_decode"
        )


def _expanded(step: Step, query: Tensor, attention: LatentAttention) -> Tensor:
    heads, keys = query.shape[1], step.point.keys
    with step.recorder.within("latent_read", per_phase=True):
        latent = operators.read_latent(keys, attention.kv_lora_rank, query, step.request.kv_bits)
    width = heads * (attention.nope_head_dim + attention.value_head_dim)
    # Not quantised: engines keep this projection in 16 bits because the absorbed form needs it so.
    with step.recorder.within("kv_up_proj", per_phase=True):
        held = attention.chosen_keys is not None  # its weights are those of the absorbed products
        operators.linear(latent, parameter(width, attention.kv_lora_rank), None, "BF16", held)
    with step.recorder.within("attention", per_phase=True):
        return attended(
            step,
            query,
            kv_heads=heads,
            head_dim=attention.nope_head_dim + attention.rope_head_dim,
            value_head_dim=attention.value_head_dim,
            kind="mla_prefill",
            kv_bits=16,
        )


def upstream_latent_attention(step: Step, x: Tensor, attention: LatentAttention) -> Tensor:
    """Compressed projections are replicated over tensor-parallel ranks."""
    form, recorder = step.request.linear, step.recorder
    heads = divided(attention.query_heads, step.plan.tp)
    nope, rope, rank = attention.nope_head_dim, attention.rope_head_dim, attention.kv_lora_rank
    with recorder.within("projections"):
        down = attention.query_lora_rank or 0
        query_width = heads * (nope + rope)
        weight = parameter(down * (x.shape[1] + query_width) if down else x.shape[1] * query_width)
        compressed = parameter(rank + rope, x.shape[1])
        scales = parameter(rank + down)
        query = operators.latent_projections(x, weight, compressed, scales, query_width, down, heads, rope, form.name)
    latent, key_rope = x.new_empty((x.shape[0], rank)), x.new_empty((x.shape[0], rope))
    with recorder.within("kv_write"):
        operators.write_cache([latent, key_rope], step.request.kv_bits)
    with recorder.within("attention", per_phase=True):
        out = operators.latent_core(
            query.view(x.shape[0], heads, nope + rope),
            step.point.pairs,
            step.point.keys,
            step.point.sequences,
            rank,
            rope,
            attention.value_head_dim,
            step.request.kv_bits,
            form.name,
            step.request.trace,
        )
    del query, latent, key_rope
    return linear(step, "output_proj", out.view(x.shape[0], -1), step.model.hidden_size, form)
