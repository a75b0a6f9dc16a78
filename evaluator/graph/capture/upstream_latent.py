"""Multi-head latent attention as upstream runs it: one operator for all projections, one for attention with its own.

Verified against upstream's tables of operators for DeepSeek-V3.1, eager and compiled. Not here: our own (latent)."""

from __future__ import annotations

from torch import Tensor

from evaluator.graph.capture.blocks import Step, divided, linear
from evaluator.graph.capture.library import operators, parameter
from evaluator.inputs.model import LatentAttention


def upstream_latent_attention(step: Step, x: Tensor, attention: LatentAttention) -> Tensor:
    """MLA on this device's heads; the compressed projections are replicated over tensor-parallel ranks."""
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
