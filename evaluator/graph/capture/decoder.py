"""A device's whole step: embedding, a layer of each kind times its count, logits, a draft pass."""

from __future__ import annotations

from dataclasses import replace

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
from evaluator.graph.capture.capture_request import layers_of_stages
from evaluator.graph.capture.expert_blocks import mixture
from evaluator.graph.capture.latent import latent_attention, upstream_latent_attention
from evaluator.graph.capture.library import operators
from evaluator.graph.capture.mixers.compressed import compressed_attention
from evaluator.graph.capture.mixers.drafts_beside import block_draft, fused_draft
from evaluator.graph.capture.mixers.grouped_queries import grouped_query_attention
from evaluator.graph.capture.mixers.linear_states import gated_delta_net, state_space
from evaluator.graph.capture.mixers.residuals import collapsed, expanded, held_sums, mix_residuals, sums_sent
from evaluator.graph.capture.mixers.sparse_latent import choose_blocks
from evaluator.graph.capture.shapes import Kind, Tensor, meta_tensor, parameter
from evaluator.graph.capture.upstream_experts import upstream_mixture
from evaluator.inputs.formats import Format
from evaluator.inputs.model import (
    CompressedAttention,
    DenseMlp,
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    LayerGroup,
    Mixer,
    ModelSpec,
    MoeMlp,
    StateSpace,
)


def trace_step(step: Step) -> None:
    stages = step.plan.pp
    first, last = _only(stages, 0), _only(stages, stages - 1)
    recorder = step.recorder
    tables = _tables(step)
    with recorder.within("embedding", counts=first):
        x = _embedded(step)
    rows = layers_of_stages(step.model, stages)
    ended = held_sums(step)
    for index, counts in enumerate(rows):
        name = f"layers{index}" if len(step.model.layers) > 1 else "layers"
        with recorder.within(name, counts=counts):
            x = decoder_layer(step, x, step.model.layers[index], tables)
    if ended is not None:
        mix_residuals(step, rows)
    if stages > 1:
        _send(step, x, sums_sent(step, rows))
    del ended
    with recorder.within("", counts=last):
        _logits(step, x, shared_head=False)
    if step.model.draft_model is not None:
        with recorder.within("draft", counts=last, draft=True):
            _model_draft(step.of_drafts, step.model.draft_model)
    elif step.model.mtp_layers:
        beside = block_draft if step.model.draft_block else fused_draft
        draft = beside if step.model.draft_states else _draft
        with recorder.within("mtp", counts=last, draft=True):
            draft(step.of_drafts, x, tables)


def _send(step: Step, x: Tensor, sums: list[int]) -> None:
    for many in sorted(set(sums)):
        counts = tuple(int(stage < len(sums) and sums[stage] == many) for stage in range(step.plan.pp))
        with step.recorder.within("stage_transfer", counts=counts):
            sent = x if many == 1 else meta_tensor(x.shape[0], many * x.shape[1])
            operators.send(sent, step.plan.stage_devices)


def _only(stages: int, stage: int) -> tuple[int, ...]:
    return tuple(int(index == stage) for index in range(stages))


def _tables(step: Step) -> tuple[Tensor, Tensor] | None:
    if step.model.position != "rope":
        return None
    width = max((_turned_width(step, group.attention) for group in step.model.layers), default=0)
    if not width:
        return None
    with step.recorder.within("", counts=(1,) * step.plan.pp):
        return rope_tables(step, width)


def _turned_width(step: Step, attention: Mixer | None) -> int:
    if isinstance(attention, LatentAttention | CompressedAttention):
        return attention.rope_head_dim
    if not isinstance(attention, GroupedQueryAttention):
        return 0
    if step.request.convention == "upstream":  # which turns whole heads
        return attention.head_dim
    own = step.model.rope_fraction if attention.rope_fraction is None else attention.rope_fraction
    return int(attention.head_dim * own)


def _embedded(step: Step) -> Tensor:
    model = step.model
    ids = meta_tensor(step.point.tokens, dtype=Kind.INT64)
    x = operators.embed(parameter(model.vocab_size, model.hidden_size), ids)
    if model.position == "learned":
        with step.recorder.within("positions"):
            rows = operators.embed(parameter(model.learned_positions, model.hidden_size), ids)
            x = pointwise("add", x, rows)
    if model.residual_streams > 1:
        with step.recorder.within("streams"):
            return operators.join([x] * model.residual_streams, 1)
    return normed(step, "norm", x) if model.embedding_norm else x


def decoder_layer(step: Step, x: Tensor, group: LayerGroup, tables: tuple[Tensor, Tensor] | None) -> Tensor:
    """Each block is normalised before and added to the residual stream after; one may be missing."""
    if step.model.residual_streams > 1:
        return _streamed_layer(step, x, group, tables)
    if group.parallel_mlp and group.attention is not None and group.mlp is not None:
        return _parallel_layer(step, x, group, group.mlp, tables)
    h, form, recorder = None, _form_of_mlp(step, group), step.recorder
    if group.attention is not None:
        h = _mixed(step, x, group, tables)
        if step.model.output_norms:
            h = normed(step, "attention_output_norm", h)
    if group.mlp is not None:
        if h is None:
            h = normed(step, "input_norm", x, form)
        else:
            h, x = add_normed(step, "post_attention_norm", h, x, form)
        with recorder.within("mlp"):
            h = _fed_forward(step, h, group.mlp)
            if not isinstance(group.mlp, MoeMlp):
                with recorder.within("all_reduce"):
                    h = all_reduced(step, h)
        if step.model.output_norms:
            h = normed(step, "mlp_output_norm", h)
    with recorder.within("residual"):
        return x if h is None else pointwise("add", x, h)


def _parallel_layer(
    step: Step, x: Tensor, group: LayerGroup, mlp: DenseMlp | MoeMlp, tables: tuple[Tensor, Tensor] | None
) -> Tensor:
    """Both blocks read the same rows and are added together.

    Source: vLLM's CohereForCausalLM sums each over devices by itself. The norm quantises where both share a format."""
    recorder, one_form = step.recorder, step.mixers == _form_of_mlp(step, group)
    read = normed(step, "input_norm", x, step.mixers if one_form else None)
    attended_to = _attention_reduced(step, _attended(step, read, group, tables))
    with recorder.within("mlp"):
        h = _fed_forward(step, read, mlp)
        if not isinstance(mlp, MoeMlp):
            with recorder.within("all_reduce"):
                h = all_reduced(step, h)
    del read
    with recorder.within("residual"):
        if step.fused:
            return pointwise("add_both", x, attended_to, h)
        return pointwise("add", pointwise("add", x, attended_to), h)


def _streamed_layer(step: Step, x: Tensor, group: LayerGroup, tables: tuple[Tensor, Tensor] | None) -> Tensor:
    """Blocks read one of several streams, and write to all."""
    recorder = step.recorder
    if group.attention is not None:
        h = _mixed(step, collapsed(step, "attention_streams", x), group, tables)
        x = expanded(step, "attention_streams_mixed", x, h)
    if group.mlp is not None:
        h = normed(step, "post_attention_norm", collapsed(step, "mlp_streams", x), _form_of_mlp(step, group))
        with recorder.within("mlp"):
            h = _fed_forward(step, h, group.mlp)
            if not isinstance(group.mlp, MoeMlp):
                with recorder.within("all_reduce"):
                    h = all_reduced(step, h)
        x = expanded(step, "mlp_streams_mixed", x, h)
    return x


def _form_of_mlp(step: Step, group: LayerGroup) -> Format | None:
    """Experts quantise the rows that they are sent."""
    return None if isinstance(group.mlp, MoeMlp) else step.request.linear


def _mixed(step: Step, x: Tensor, group: LayerGroup, tables: tuple[Tensor, Tensor] | None) -> Tensor:
    """Behind one norm, whole on every device."""
    upstream_latent = isinstance(group.attention, LatentAttention) and step.request.convention == "upstream"
    read = normed(step, "input_norm", x, None if upstream_latent else step.mixers)
    if group.beside is None:
        out = _attended(step, read, group, tables)
        del read
        return _attention_reduced(step, out)
    # Each is summed over devices by itself, as vLLM does (the layers of FalconH1ForCausalLM).
    with step.recorder.within("beside"):
        other = state_space(step, read, group.beside)
        with step.recorder.within("all_reduce"):
            other = all_reduced(step, other)
    out = _attended(step, read, group, tables)
    del read
    out = _attention_reduced(step, out)
    with step.recorder.within("side_by_side"):
        return pointwise("add", out, other)


def _attention_reduced(step: Step, out: Tensor) -> Tensor:
    with step.recorder.within("attention_all_reduce"):
        return all_reduced(step, out)


def _attended(step: Step, h: Tensor, group: LayerGroup, tables: tuple[Tensor, Tensor] | None) -> Tensor:
    if isinstance(group.attention, GroupedQueryAttention):
        if group.attention.indexer is not None:
            choose_blocks(step, h, group.attention, group.attention.indexer, tables)
        return grouped_query_attention(step, h, group.attention, group.span, tables)
    if isinstance(group.attention, CompressedAttention):
        return compressed_attention(step, h, group.attention, group.window, tables)
    if isinstance(group.attention, StateSpace):
        return state_space(step, h, group.attention)
    if isinstance(group.attention, GatedDeltaNet):
        return gated_delta_net(step, h, group.attention)
    if not isinstance(group.attention, LatentAttention):
        raise TypeError(f"no block for {type(group.attention).__name__}")
    if step.request.convention == "upstream":
        return upstream_latent_attention(step, h, group.attention)
    return latent_attention(step, h, group.attention, tables)


def _fed_forward(step: Step, h: Tensor, mlp: DenseMlp | MoeMlp) -> Tensor:
    if isinstance(mlp, MoeMlp):
        return upstream_mixture(step, h, mlp) if step.request.convention == "upstream" else mixture(step, h, mlp)
    return dense_mlp(step, h, mlp, step.request.linear)


def _logits(step: Step, x: Tensor, *, shared_head: bool) -> None:
    """The vocabulary is split over tensor-parallel ranks and gathered."""
    model, tp, recorder = step.model, step.plan.tp, step.recorder
    if model.residual_streams > 1:
        x = collapsed(step, "final_streams", x, mixing=False)
    x = normed(step, "final_norm", x)
    if step.request.trace == "prefill":
        with recorder.within("last_tokens"):
            x = _last_tokens(step, x)
    else:
        x = x.new_empty((step.point.sequences, x.shape[1]))  # every token of a decode step produces logits
    # A tied head is a slice of the embedding table, which the last stage of a pipeline does not hold.
    shared = shared_head or (model.tie_word_embeddings and step.plan.pp == 1)
    logits = linear(step, "lm_head", x, divided(model.vocab_size, tp), step.request.head or HALF, shared=shared)
    if tp > 1:
        with recorder.within("lm_head_all_gather"):
            operators.all_gather(logits, 1, tp, 1)


def _last_tokens(step: Step, x: Tensor) -> Tensor:
    rows = step.point.sequences
    if step.request.convention == "upstream" and step.fused:
        return operators.select_rows(x, rows)
    return operators.gather_rows(x, meta_tensor(rows, dtype=Kind.INT64))


def _draft(step: Step, hidden: Tensor, tables: tuple[Tensor, Tensor] | None) -> None:
    """DeepSeek-V3, section 2.2: norms of embedding and hidden state, their projection, one layer.

    Embedding and head are the model's, and not counted again."""
    model = step.model
    ids = meta_tensor(step.point.tokens, dtype=Kind.INT64)
    with step.recorder.within("embedding"):
        # The last stage of a pipeline does not hold the model's table and needs its own, as every draft has upstream.
        own = step.plan.pp > 1 or step.request.convention == "upstream"
        look_up = operators.embed if own else operators.gather_rows
        embedded = look_up(parameter(model.vocab_size, model.hidden_size), ids)
    if model.residual_streams > 1:
        x = _joined_streams(step, embedded, hidden)
    else:
        halves = [normed(step, "embedding_norm", embedded), normed(step, "hidden_norm", hidden)]
        pair = operators.join(halves, 1)
        form = step.request.linear if step.request.convention == "upstream" else HALF
        x = linear(step, "projection", pair, model.hidden_size, form)
    with step.recorder.within("layer"):
        x = decoder_layer(step, x, model.draft_layer or model.layers[-1], tables)
    _logits(step, x, shared_head=step.request.convention == "physical")


def _model_draft(step: Step, model: ModelSpec) -> None:
    """Leviathan et al. 2023, arXiv 2211.17192: the drafter reads tokens alone. It runs on the last stage's
    tensor-parallel ranks."""
    own = replace(step, request=replace(step.request, model=model, mixers=None, head=None, drafts=None))
    last = step.recorder.scope.counts
    width = max(_turned_width(own, group.attention) for group in model.layers) if model.position == "rope" else 0
    tables = rope_tables(own, width) if width else None
    with own.recorder.within("embedding"):
        x = _embedded(own)
    for index, group in enumerate(model.layers):
        name = f"layers{index}" if len(model.layers) > 1 else "layers"
        with own.recorder.within(name, counts=tuple(group.count * count for count in last)):
            x = decoder_layer(own, x, group, tables)
    _logits(own, x, shared_head=model.tie_word_embeddings)


def _joined_streams(step: Step, embedded: Tensor, hidden: Tensor) -> Tensor:
    width, streams = step.model.hidden_size, step.model.residual_streams
    embedded = linear(step, "embedding_proj", normed(step, "embedding_norm", embedded), width, HALF)
    rows = normed(step, "hidden_norm", hidden.view(hidden.shape[0] * streams, width))
    rows = linear(step, "hidden_proj", rows, width, HALF)
    with step.recorder.within("streams"):
        return pointwise("add", rows.view(hidden.shape[0], streams * width), embedded)
