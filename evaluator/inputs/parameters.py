"""Weights of a model, those a token visits, and their bytes."""

from __future__ import annotations

from evaluator.inputs import model
from evaluator.inputs.formats import Precision, linear_format
from evaluator.same_objects import SameObjects
from store.light_dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterCount:
    """MTP modules are not counted, as publishers do not."""

    total: int
    active: int


@SameObjects
def parameter_count(spec: model.ModelSpec) -> ParameterCount:
    hidden = spec.hidden_size
    norm = hidden * (2 if spec.norm == "layer" else 1)
    shared = spec.vocab_size * hidden * (1 if spec.tie_word_embeddings else 2)
    mixing, ending = stream_parameters(spec)
    shared += ending
    shared += spec.learned_positions * hidden + norm + (norm if spec.embedding_norm else 0)
    total = active = shared
    for group in spec.layers:
        norms = norm * (2 if spec.output_norms else 1)
        layer = attention_parameters(spec, group) + (norms + mixing) * group.blocks
        total += group.count * (layer + _mlp(hidden, group.mlp, visited=False))
        active += group.count * (layer + _mlp(hidden, group.mlp, visited=True))
    return ParameterCount(total=total, active=active)


def bytes_of_weights(spec: model.ModelSpec, precision: Precision) -> float:
    """With scales; embeddings, norms and routers are in 16 bits.

    Llama-3.1-405B in BF16: 405.9e9 weights x 2 bytes = 812 GB."""
    bits = {
        name: (form := linear_format(name, mxfp4_group_size=precision.mxfp4_group_size)).weight_bits
        + form.scale_bits_per_weight
        for name in precision.weights
    }
    linear, total = bits[precision.linear], 16.0 * parameter_count(spec).total
    mixers = linear if precision.mixers is None else bits[precision.mixers]
    for group in spec.layers:
        total += group.count * (mixers - 16.0) * attention_parameters(spec, group)
        dense = _mlp(spec.hidden_size, group.mlp, visited=False)
        if isinstance(group.mlp, model.MoeMlp):
            routed = group.mlp.experts * group.mlp.expert_weights(spec.hidden_size)
            total += group.count * ((linear if precision.experts is None else bits[precision.experts]) - 16.0) * routed
            dense = (3 if group.mlp.gated else 2) * spec.hidden_size * group.mlp.shared_intermediate_size
        total += group.count * (linear - 16.0) * dense
    if precision.head is not None:
        total += (bits[precision.head] - 16.0) * spec.vocab_size * spec.hidden_size
    return total / 8.0


def attention_parameters(spec: model.ModelSpec, group: model.LayerGroup) -> int:
    return sum(_mixer(spec.hidden_size, mixer) for mixer in group.mixers)


def _mixer(hidden: int, mixer: model.Mixer) -> int:
    if isinstance(mixer, model.LatentAttention):
        return _latent(hidden, mixer)
    if isinstance(mixer, model.CompressedAttention):
        return _compressed(hidden, mixer)
    if isinstance(mixer, model.StateSpace):
        return _state_space(hidden, mixer)
    if isinstance(mixer, model.GatedDeltaNet):
        return _delta_net(hidden, mixer)
    return _grouped(hidden, mixer)


def _grouped(hidden: int, attention: model.GroupedQueryAttention) -> int:
    queries = attention.query_heads * attention.head_dim
    keys = attention.kv_heads * attention.head_dim
    asked = queries * (2 if attention.output_gate else 1)
    values = 0 if attention.values_are_keys else attention.kv_heads * attention.value_width
    weights = hidden * (asked + keys + values) + attention.query_heads * attention.value_width * hidden
    biases = (asked + keys + values if attention.qkv_bias else 0) + (hidden if attention.output_bias else 0)
    whole = queries + keys
    norms = {"none": 0, "per_head": 2 * attention.head_dim, "per_layer": whole, "each_head": whole}[attention.qk_norm]
    indexer = 0
    if attention.indexer is not None:  # queries and one key, each with a norm
        small = attention.indexer
        indexer = hidden * small.head_dim * (small.heads + 1) + 2 * small.head_dim
    gates = hidden * attention.query_heads if attention.head_gate else 0
    return weights + biases + norms + (attention.query_heads if attention.sinks else 0) + indexer + gates


def _compressed(hidden: int, attention: model.CompressedAttention) -> int:
    rank, width, heads = attention.query_lora_rank, attention.head_dim, attention.query_heads
    queries = hidden * rank + rank + rank * heads * width
    output = heads * width * attention.output_rank + attention.output_groups * attention.output_rank * hidden
    copies = 2 if attention.chosen_entries is not None else 1
    weights = queries + hidden * width + width + output + heads
    if attention.ratio > 1:
        weights += _compressor(hidden, attention.ratio, width, copies)
    if attention.indexer is not None:
        small = attention.indexer
        weights += _compressor(hidden, attention.ratio, small.head_dim, copies)
        weights += small.heads * (rank * small.head_dim + hidden)
    return weights


def _compressor(hidden: int, ratio: int, width: int, copies: int) -> int:
    return 2 * hidden * copies * width + ratio * copies * width + width


def stream_parameters(spec: model.ModelSpec) -> tuple[int, int]:
    count, wide = spec.residual_streams, spec.residual_streams * spec.hidden_size
    if spec.residual_block:  # a norm and a score of each sum, before a block and at the end
        return 2 * spec.hidden_size, 2 * spec.hidden_size
    if count == 1:
        return 0, 0
    outputs = count * (count + 2)
    return outputs * wide + outputs + 3, count * wide + count + 1


def _state_space(hidden: int, space: model.StateSpace) -> int:
    inner = space.heads * space.head_dim
    channels = inner + 2 * space.groups * space.state_size
    convolution = channels * (space.convolution + (1 if space.convolution_bias else 0))
    norm = inner if space.norm else 0
    # A rate, a shift of it and a way around the state for each head.
    return hidden * (inner + channels + space.heads) + convolution + 3 * space.heads + norm + inner * hidden


def _delta_net(hidden: int, net: model.GatedDeltaNet) -> int:
    keys, values = net.key_heads * net.key_head_dim, net.value_heads * net.value_head_dim
    channels = 2 * keys + values
    rest = channels * net.convolution + net.value_head_dim + (channels + net.value_heads) * hidden + values * hidden
    gate = hidden * values if net.gate_rank is None else net.gate_rank * (hidden + values)
    if net.decay_rank is None:  # a rate and a shift a head, and a projection as wide
        return rest + gate + hidden * net.value_heads + 2 * net.value_heads
    decays = net.value_heads * net.key_head_dim  # each with a shift, and a rate a head
    return rest + gate + net.decay_rank * (hidden + decays) + decays + net.value_heads


def _latent(hidden: int, attention: model.LatentAttention) -> int:
    head = attention.nope_head_dim + attention.rope_head_dim
    rank = attention.query_lora_rank
    queries = attention.query_heads * head
    query = hidden * queries if rank is None else hidden * rank + rank + rank * queries
    compressed = hidden * (attention.kv_lora_rank + attention.rope_head_dim) + attention.kv_lora_rank
    expansion = attention.kv_lora_rank * attention.query_heads * (attention.nope_head_dim + attention.value_head_dim)
    values = attention.query_heads * attention.value_head_dim * hidden
    weights = query + compressed + expansion + values * (2 if attention.output_gate else 1)
    return weights + (0 if attention.indexer is None else _indexer(hidden, rank or hidden, attention.indexer))


def _indexer(hidden: int, compressed: int, indexer: model.TokenIndexer) -> int:
    return (
        compressed * indexer.heads * indexer.head_dim
        + hidden * (indexer.head_dim + indexer.heads)
        + 2 * indexer.head_dim
    )


def _mlp(hidden: int, mlp: model.DenseMlp | model.MoeMlp | None, *, visited: bool) -> int:
    if mlp is None:
        return 0
    if isinstance(mlp, model.DenseMlp):
        width = mlp.intermediate_size
        weights = hidden * width * (3 if mlp.gated else 2)
        return weights + ((width * (2 if mlp.gated else 1) + hidden) if mlp.bias else 0)
    experts = mlp.experts_per_token if visited else mlp.experts
    one = mlp.expert_weights(hidden)
    one += (2 * mlp.intermediate_size + hidden) if mlp.expert_bias else 0
    router = hidden * mlp.scored + (mlp.scored if mlp.router_bias else 0)
    router += 2 * hidden * (mlp.latent_size or 0)  # into the experts' dimensions, and out of them
    router += (mlp.latent_size or 0) if mlp.latent_norm else 0
    router += 4 * hidden + mlp.experts if mlp.apart_norms else 0  # one scales what is routed by, and each expert is
    return (
        experts * one
        + router
        + (3 if mlp.gated else 2) * hidden * mlp.shared_intermediate_size
        + (hidden if mlp.shared_gate else 0)
    )
