"""Every architecture that is read, small, against its Hugging Face class on the meta device: parameters and FLOPs."""

from __future__ import annotations

import math

import pytest
import torch
from class_cases import CASES, TOKENS, of_the_class
from evaluator_cases import captured, one_group
from torch.utils.flop_counter import FlopCounterMode

from evaluator.graph.capture.mixers.mixer_formulas import SCAN_CHUNK
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.architectures import architectures, spec_from_config
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import CompressedAttention, DenseMlp, GatedDeltaNet, LatentAttention, MoeMlp, StateSpace
from evaluator.inputs.parameters import parameter_count
from evaluator.pricing.occurrence import seen_by


def both(case, device="meta"):
    """(our spec, the class's model on the meta device or another) of a small config."""
    parsed, model = of_the_class(case, device)
    return spec_from_config(parsed.to_dict(), case), model


@pytest.mark.parametrize("case", CASES)
def test_parameters_are_those_of_the_class(case):
    spec, model = both(case)
    everything = sum(parameter.numel() for parameter in model.parameters())
    # LongCat's class sets up-projections aside for experts that have none.
    idle = sum(
        group.count * group.mlp.idle_experts * 2 * group.mlp.intermediate_size * spec.hidden_size
        for group in spec.layers
        if isinstance(group.mlp, MoeMlp)
    )
    # The router's correction is a buffer in some classes, a parameter in others.
    corrections = sum(
        buffer.numel() for name, buffer in model.named_buffers() if name.endswith("e_score_correction_bias")
    )
    assert parameter_count(spec).total == everything + corrections - idle


@pytest.mark.parametrize("case", [case for case in CASES if case != "longcat_flash"])  # whose experts it looks for
def test_flops_of_a_prompt_are_those_of_the_class(case):
    spec, model = both(case)
    ids = torch.empty(1, TOKENS, dtype=torch.long, device="meta")
    square = torch.empty(1, 1, TOKENS, TOKENS, dtype=torch.bfloat16, device="meta")
    mask = torch.ones_like(ids) if case in {"bloom", "opt"} else square  # which make positions of it
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=ids, attention_mask=mask, use_cache=False)
    ours = sum(
        work
        for one, work in prompt_flops(spec)
        if one.kind not in {"sparse_attention", "entry_attention", "state_scan", "channel_scan", "space_scan"}
    )
    assert math.isclose(ours, counter.get_total_flops() - other_flops(spec), rel_tol=1e-3)


def test_flops_of_a_prompt_with_idle_experts_are_those_of_the_class():
    """Its router is made to choose as many idle experts of every token as even routing does."""
    spec, model = both("longcat_flash", device="cpu")
    moe = spec.layers[0].mlp
    assert (moe.chosen, moe.experts_per_token, moe.scored) == (3, 2, 12)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.zero_()
            buffer[:2] = buffer[moe.experts] = 100.0
    ids = torch.zeros(1, TOKENS, dtype=torch.long)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=ids, use_cache=False)
    assert math.isclose(sum(work for _, work in prompt_flops(spec)), counter.get_total_flops(), rel_tol=1e-3)


def prompt_flops(spec):
    """(operator, FLOPs of all its occurrences) of a prompt whose every token gives logits, masked or not."""
    sums = request_sums(float(TOKENS), 0.0, square=True, logits=float(TOKENS), windows=spec.spans)
    for one in captured(spec, Plan(), "prefill", compile=True).operators:
        seen = repeated(seen_by(one, sums), 1.0)
        yield one, float(one.matrix_flops.at(seen)) * one.count


def other_flops(spec):
    """Products of a class that we do in another form: attention of heads of their own, where ours is absorbed or
    gathers; weights of an indexer's heads, convolutions and mixtures of streams, which are no matrix product in a
    kernel; chunks of a scan that are padded."""
    total = 0
    for group in spec.layers:
        attention = group.attention
        if spec.architecture == "llama4_text" and isinstance(group.mlp, MoeMlp):  # every expert computes every token
            others = group.mlp.experts - group.mlp.experts_per_token
            total += group.count * 2 * TOKENS * others * group.mlp.expert_weights(spec.hidden_size)
        if getattr(attention, "chosen_keys", None):
            if not isinstance(attention, LatentAttention):
                continue
            heads = attention.query_heads
            heads *= attention.nope_head_dim + attention.rope_head_dim + attention.value_head_dim
            indexer = attention.indexer
            indexed = indexer.heads if indexer else 0
            if attention.chosen_keys >= TOKENS:  # the class scores what is chosen all the same
                heads, indexed = 0, indexer.heads * (1 + indexer.head_dim) if indexer else 0
            total += group.count * 2 * TOKENS * TOKENS * (heads + indexed)
        if isinstance(attention, CompressedAttention):
            entries = TOKENS // attention.ratio if attention.ratio > 1 else 0
            attended = TOKENS * (TOKENS + entries) * attention.query_heads * attention.head_dim
            mixed = TOKENS * spec.residual_streams**2 * spec.hidden_size
            total += group.count * (4 * attended + 2 * 2 * mixed)
        for space in group.mixers:
            if isinstance(space, StateSpace):
                total += group.count * (space_of_the_class(space) + space_convolution_of_the_class(space))
        if isinstance(attention, GatedDeltaNet):
            total += group.count * (scan_of_the_class(attention) + convolution_of_the_class(attention))
    return total


def scan_of_the_class(net, tokens=TOKENS):
    """Products of a scan over whole chunks, without the triangular system, which the class solves and kernels invert."""
    keys, values = net.key_head_dim, net.value_head_dim
    each = 4 * SCAN_CHUNK * keys + 2 * SCAN_CHUNK * values + 6 * keys * values
    if net.decay_rank is not None:  # scores are sums there, since channels decay; the inverse is applied to both
        each = 2 * SCAN_CHUNK * keys + 4 * SCAN_CHUNK * values + 6 * keys * values
    return -(-tokens // SCAN_CHUNK) * SCAN_CHUNK * net.value_heads * each


def space_of_the_class(space, tokens=TOKENS):
    """Products of a scan whose every head has scores of its own, and of states that pass from chunk to chunk at once."""
    state, chunks = space.head_dim * space.state_size, tokens // space.chunk
    each = 2 * space.chunk * (space.state_size + space.head_dim) + 4 * state
    return space.heads * (tokens * each + 2 * (chunks + 1) ** 2 * state)


def space_convolution_of_the_class(space):
    channels = space.heads * space.head_dim + 2 * space.groups * space.state_size
    return 2 * space.convolution * channels * (TOKENS + space.convolution - 1)


def test_a_state_space_scan_is_that_of_the_class_with_scores_once_a_group():
    modeling = pytest.importorskip("transformers.models.nemotron_h.modeling_nemotron_h")
    space = StateSpace(heads=8, head_dim=16, groups=2, state_size=32, convolution=4, convolution_bias=True, chunk=64)
    tokens, heads, groups, size = 256, space.heads, space.groups, space.state_size
    shapes = [
        (1, tokens, heads, 16),
        (1, tokens, heads),
        (heads,),
        (1, tokens, groups, size),
        (1, tokens, groups, size),
    ]
    with FlopCounterMode(display=False) as counter:
        modeling.mamba2_chunk_scan(
            *(torch.empty(shape, device="meta") for shape in shapes),
            chunk_size=space.chunk, D=torch.empty(heads, device="meta"), z=None, return_final_states=False,
            dt_bias=torch.empty(heads, device="meta"), dt_softplus=True, initial_states=None,
            dt_limit=(0.0, float("inf")),
        )  # fmt: skip
    assert counter.get_total_flops() == space_of_the_class(space, tokens)
    ours = one_group("x", 64, 100, 1, space, DenseMlp(intermediate_size=64), position="none")
    operator = next(one for one in captured(ours, Plan(), "prefill").operators if one.kind == "space_scan")
    state = space.head_dim * size
    each = groups * 2 * space.chunk * size + heads * (2 * space.chunk * space.head_dim + 4 * state)
    assert float(operator.matrix_flops.at(repeated(request_sums(float(tokens), 0.0), 1.0))) == tokens * each


def convolution_of_the_class(net):
    channels = 2 * net.key_heads * net.key_head_dim + net.value_heads * net.value_head_dim
    return 2 * net.convolution * channels * (TOKENS + net.convolution - 1)


@pytest.mark.parametrize(("keys", "values"), [(128, 128), (128, 64), (64, 128)])
def test_a_scan_is_the_chunked_rule_of_the_class_with_the_inverse_applied(keys, values):
    modeling = pytest.importorskip("transformers.models.qwen3_5.modeling_qwen3_5")
    net = GatedDeltaNet(key_heads=2, value_heads=4, key_head_dim=keys, value_head_dim=values, convolution=4)
    tokens = 4 * SCAN_CHUNK
    shapes = [(1, tokens, 2, keys), (1, tokens, 2, keys), (1, tokens, 4, values), (1, tokens, 4), (1, tokens, 4)]
    with FlopCounterMode(display=False) as counter:
        modeling.torch_chunk_gated_delta_rule(*(torch.empty(shape, device="meta") for shape in shapes))
    assert counter.get_total_flops() == scan_of_the_class(net, tokens)
    ours = one_group("x", 64, 100, 1, net, DenseMlp(intermediate_size=64), position="learned")
    operator = next(one for one in captured(ours, Plan(), "prefill").operators if one.kind == "state_scan")
    inverse = 2 * SCAN_CHUNK * (keys + values) * tokens * net.value_heads
    sums = repeated(request_sums(float(tokens), 0.0), 1.0)
    assert float(operator.matrix_flops.at(sums)) == counter.get_total_flops() + inverse


def test_a_scan_of_decaying_channels_is_that_of_the_class_with_scores_as_products():
    modeling = pytest.importorskip("transformers.models.kimi_linear.modeling_kimi_linear")
    net = GatedDeltaNet(key_heads=2, value_heads=2, key_head_dim=128, value_head_dim=128, convolution=4, decay_rank=128)
    tokens, shape = 2 * SCAN_CHUNK, (1, 2 * SCAN_CHUNK, 2, 128)
    with FlopCounterMode(display=False) as counter:
        modeling.chunk_kimi_delta_attention(
            *(torch.empty(shape, device="meta") for _ in range(4)), torch.empty(shape[:3], device="meta")
        )
    assert counter.get_total_flops() == scan_of_the_class(net, tokens)
    ours = one_group("x", 64, 100, 1, net, DenseMlp(intermediate_size=64), position="none")
    operator = next(one for one in captured(ours, Plan(), "prefill").operators if one.kind == "channel_scan")
    scores = 4 * SCAN_CHUNK * 128 * tokens * 2  # keys with keys, and with queries
    sums = repeated(request_sums(float(tokens), 0.0), 1.0)
    assert float(operator.matrix_flops.at(sums)) == counter.get_total_flops() + scores


def test_every_reader_of_a_class_with_one_is_held_to_it():
    transformers = pytest.importorskip("transformers", minversion="5.0")
    known = set(transformers.models.auto.modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    assert set(architectures()) & known <= {case.partition(" ")[0] for case in CASES}
