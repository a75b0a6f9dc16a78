"""A draft pass: an MTP module, a layer beside the model (EAGLE-3), or DSpark's block for all drafts.

Sources of DSpark: vLLM's `K3DSparkModel`, TokenSpeed's."""

from __future__ import annotations

from evaluator.graph.capture.blocks import (
    HALF,
    Step,
    add_normed,
    all_reduced,
    dense_mlp,
    divided,
    linear,
    normed,
    pointwise,
    rope_tables,
)
from evaluator.graph.capture.latent import latent_attention
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.mixers.grouped_queries import grouped_query_attention
from evaluator.graph.capture.shapes import Kind, Tensor, meta_tensor, parameter
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LatentAttention, LayerGroup


def fused_draft(step: Step, hidden: Tensor, tables: tuple[Tensor, Tensor] | None) -> None:
    """EAGLE-3 (Li et al. 2025, arXiv 2503.01840): a layer reads fused states beside the embedding.

    In 16 bits, with its own vocabulary. Every pass fuses states; engines do so only in a step's first."""
    layer, model = step.model.draft_layer, step.model
    if layer is None or not isinstance(layer.mlp, DenseMlp):
        raise TypeError("an EAGLE-3 draft is a layer of attention and a dense MLP")
    half = step.all_in_half
    tables = own_tables(half, layer, tables)
    ids = meta_tensor(step.point.tokens, dtype=Kind.INT64)
    kept = [hidden] * model.draft_states
    if model.draft_state_norms:
        kept = [normed(half, f"state_norm{index}", state) for index, state in enumerate(kept)]
    with step.recorder.within("states"):
        states = operators.join(kept, 1)
    del kept
    x = linear(half, "states_proj", states, model.hidden_size, HALF)
    with step.recorder.within("embedding"):
        look_up = operators.embed if step.plan.pp > 1 else operators.gather_rows
        embedded = look_up(parameter(model.vocab_size, model.hidden_size), ids)
    pair = operators.join([normed(half, "embedding_norm", embedded), normed(half, "hidden_norm", x)], 1)
    with step.recorder.within("layer"):
        x = draft_layer(half, x, pair, layer, layer.mlp, tables)
    _own_logits(half, x)


def own_tables(step: Step, layer: LayerGroup, tables: tuple[Tensor, Tensor] | None) -> tuple[Tensor, Tensor] | None:
    """The model's, unless the draft rotates more of a head."""
    attention = layer.attention
    if isinstance(attention, LatentAttention):
        width = attention.rope_head_dim
    elif isinstance(attention, GroupedQueryAttention) and attention.rope_fraction is not None:
        width = int(attention.head_dim * attention.rope_fraction)
    else:
        return tables
    return tables if tables is not None and tables[0].shape[1] >= width else rope_tables(step, width)


def draft_layer(  # noqa: PLR0917  its caller's own values
    step: Step, x: Tensor, pair: Tensor, layer: LayerGroup, mlp: DenseMlp, tables: tuple[Tensor, Tensor] | None
) -> Tensor:
    """Attention reads `pair`, and is added to `x`."""
    if isinstance(layer.attention, LatentAttention):
        h = latent_attention(step, pair, layer.attention, tables)
    elif isinstance(layer.attention, GroupedQueryAttention):
        h = grouped_query_attention(step, pair, layer.attention, layer.span, tables)
    else:
        raise TypeError("an EAGLE-3 draft has grouped queries or latent attention")
    with step.recorder.within("attention_all_reduce"):
        h = all_reduced(step, h)
    h, x = add_normed(step, "post_attention_norm", h, x)
    with step.recorder.within("mlp"):
        h = dense_mlp(step, h, mlp, HALF)
        with step.recorder.within("all_reduce"):
            h = all_reduced(step, h)
    with step.recorder.within("residual"):
        return pointwise("add", x, h)


def _own_logits(step: Step, x: Tensor) -> None:
    x = normed(step, "final_norm", x).new_empty((step.point.sequences, x.shape[1]))
    logits = linear(step, "lm_head", x, divided(step.model.draft_vocab or step.model.vocab_size, step.plan.tp), HALF)
    if step.plan.tp > 1:
        with step.recorder.within("lm_head_all_gather"):
            operators.all_gather(logits, 1, step.plan.tp, 1)


def block_draft(step: Step, hidden: Tensor, tables: tuple[Tensor, Tensor] | None) -> None:
    """The model's states become keys for every layer; a decode adds a block of places.

    In 16 bits; embedding and head are the model's. Prompts only make keys. Left out: attention in both directions
    within a block, and sampling drafts in turn."""
    layer, model = step.model.draft_layer, step.model
    if layer is None or not isinstance(layer.attention, LatentAttention) or not isinstance(layer.mlp, DenseMlp):
        raise TypeError("drafts of a block come of layers of latent attention and a dense MLP")
    half = step.all_in_half
    _context(half, hidden, layer.attention)
    if step.request.trace == "prefill":
        return
    counts = tuple(model.mtp_layers * count for count in step.recorder.scope.counts)
    with step.recorder.within("block", per_phase=True):
        tables = own_tables(half, layer, tables)
        x = _embedded(half)
        with step.recorder.within("layer", counts=counts):
            x = draft_layer(half, x, normed(half, "input_norm", x), layer, layer.mlp, tables)
        _drafted(half, normed(half, "final_norm", x))


def _context(step: Step, hidden: Tensor, attention: LatentAttention) -> None:
    """Keys of all draft layers from fused states, whole on every device."""
    model, recorder = step.model, step.recorder
    kept = [hidden] * model.draft_states
    if model.draft_state_norms:
        kept = [normed(step, f"state_norm{index}", state) for index, state in enumerate(kept)]
    with recorder.within("states"):
        states = operators.join(kept, 1)
    del kept
    context = normed(step, "context_norm", linear(step, "states_proj", states, model.hidden_size, HALF))
    width = attention.kv_lora_rank + attention.rope_head_dim
    entries = linear(step, "context_kv_proj", context, model.mtp_layers * width, HALF)
    with recorder.within("context_kv_write"):
        operators.write_cache([entries], step.request.kv_bits)


def _embedded(step: Step) -> Tensor:
    ids = meta_tensor(step.point.tokens, dtype=Kind.INT64)
    with step.recorder.within("embedding"):
        look_up = operators.embed if step.plan.pp > 1 else operators.gather_rows
        return look_up(parameter(step.model.vocab_size, step.model.hidden_size), ids)


def _drafted(step: Step, x: Tensor) -> None:
    """The draft before a place adds to its logits; that part is whole on every device."""
    model, tp, recorder = step.model, step.plan.tp, step.recorder
    rows = x.new_empty((step.point.sequences, x.shape[1]))
    logits = linear(step, "lm_head", rows, divided(model.vocab_size, tp), HALF, shared=True)
    if tp > 1:
        with recorder.within("lm_head_all_gather"):
            logits = operators.all_gather(logits, 1, tp, 1)
    if not model.draft_markov:
        return
    with recorder.within("markov"):
        ids = meta_tensor(step.point.sequences, dtype=Kind.INT64)
        before = operators.embed(parameter(model.vocab_size, model.draft_markov), ids)
        follows = linear(step, "proj", before, model.vocab_size, HALF)
        pointwise("add", follows, logits)
