"""One token more of every architecture that is read, small, against its Hugging Face class: FLOPs to the last one."""

from __future__ import annotations

import pytest
import torch
from class_cases import CASES, TOKENS, of_the_class
from evaluator_cases import captured
from torch.utils.flop_counter import FlopCounterMode

from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.architectures import spec_from_config
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import CompressedAttention, GatedDeltaNet, LatentAttention, MoeMlp, StateSpace
from evaluator.pricing.occurrence import seen_by

POSITIONS = {"bloom", "opt"}  # which make positions of a mask
STEP = {
    "hidden_size": 128, "intermediate_size": 192, "vocab_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "sliding_window": 64, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 64, "share_expert_dim": 96, "num_sliding_attention_heads": 6, "pad_token_id": 0,
    "layer_types": ["full_attention", "sliding_attention"] * 2, "max_position_embeddings": 256,
    "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_flops_of_a_decoded_token_are_those_of_the_class(case):
    device = "cpu" if case == "longcat_flash" else "meta"  # which looks for its experts
    parsed, model = of_the_class(case, device)
    spec = spec_from_config(parsed.to_dict(), case)
    if device == "cpu":
        even_choice(model, spec.layers[0].mlp)
    assert token_flops(spec) == counted(model, case in POSITIONS, device) + other_form(spec)


def test_flops_of_step_are_those_of_the_class():
    """Its text model has no class with a head, and looks for its experts: a prompt and one token more."""
    modeling = pytest.importorskip("transformers.models.step3p7.modeling_step3p7")
    configured = pytest.importorskip("transformers.models.step3p7.configuration_step3p7")
    parsed = configured.Step3p7TextConfig(**STEP)
    parsed._attn_implementation = parsed._experts_implementation = "eager"
    model = modeling.Step3p7TextModel(parsed).to(torch.bfloat16).eval()
    spec = spec_from_config({**STEP, "model_type": "step3p5", "num_nextn_predict_layers": 0}, "config.json")
    head = 2 * 128 * 512
    assert token_flops(spec) == counted(model, False, "cpu") + head
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model(input_ids=torch.zeros(1, TOKENS, dtype=torch.long), use_cache=False)
    sums = request_sums(float(TOKENS), 0.0, square=True, logits=float(TOKENS), windows=spec.spans)
    assert flops(spec, "prefill", sums) == counter.get_total_flops() + TOKENS * head


def even_choice(model, moe):
    """The router's corrections, so that it chooses as many idle experts as even routing does."""
    assert (moe.chosen, moe.experts_per_token, moe.scored) == (3, 2, 12)
    for name, buffer in model.named_buffers():
        if name.endswith("e_score_correction_bias"):
            buffer.zero_()
            buffer[:2] = buffer[moe.experts] = 100.0


def counted(model, positions, device):
    """FLOPs that the class computes for the last of TOKENS tokens, the others in its cache."""
    ids = torch.zeros(1, TOKENS, dtype=torch.long, device=device)

    def mask(rows, columns):
        if device == "cpu":
            return None
        shape = (1, columns) if positions else (1, 1, rows, columns)
        return torch.ones(shape, dtype=torch.long if positions else torch.bfloat16, device=device)

    before = TOKENS - 1
    with torch.no_grad():
        past = model(input_ids=ids[:, :before], attention_mask=mask(before, before), use_cache=True).past_key_values
        with FlopCounterMode(display=False) as counter:
            model(input_ids=ids[:, before:], attention_mask=mask(1, TOKENS), past_key_values=past, use_cache=True)
    return counter.get_total_flops()


def token_flops(spec):
    """Ours for that token."""
    return flops(spec, "decode", request_sums(1.0, float(TOKENS - 1), logits=1.0, windows=spec.spans))


def flops(spec, trace, sums):
    operators = captured(spec, Plan(), trace, compile=True).operators
    return sum(float(one.matrix_flops.at(repeated(seen_by(one, sums), 1.0))) * one.count for one in operators)


def other_form(spec):
    """Ours less the class's, of what a kernel computes in another form. By the shapes alone."""
    return sum(group.count * other_form_of(group, spec) for group in spec.layers)


def other_form_of(group, spec):
    total, attention = 0, group.attention
    if isinstance(attention, LatentAttention):  # keys and values of all tokens expanded anew, or queries absorbed
        ranks, turned = attention.kv_lora_rank, attention.rope_head_dim
        heads, values = attention.query_heads, attention.nope_head_dim + attention.value_head_dim
        seen = min(TOKENS, attention.chosen_keys or TOKENS)
        expanded = 2 * TOKENS * heads * (ranks * values + values + turned)
        total += 2 * heads * (ranks * values + seen * (2 * ranks + turned)) - expanded
        if attention.indexer:  # the sum over its heads is no product in a kernel
            total -= 2 * TOKENS * attention.indexer.heads
    if isinstance(attention, CompressedAttention):  # streams are mixed elementwise
        total -= 2 * 2 * spec.residual_streams**2 * spec.hidden_size
    for mixer in group.mixers:
        if isinstance(mixer, StateSpace):
            channels = mixer.heads * mixer.head_dim + 2 * mixer.groups * mixer.state_size
            total -= convolved(channels, mixer.convolution) + 2 * mixer.heads * mixer.head_dim * mixer.state_size
        elif isinstance(mixer, GatedDeltaNet):
            channels = 2 * mixer.key_heads * mixer.key_head_dim + mixer.value_heads * mixer.value_head_dim
            total -= convolved(channels, mixer.convolution)
    if spec.architecture == "llama4_text" and isinstance(group.mlp, MoeMlp):  # every expert computes every token
        others = group.mlp.experts - group.mlp.experts_per_token
        total -= 2 * others * group.mlp.expert_weights(spec.hidden_size)
    return total


def convolved(channels, width):
    """A convolution step by step, as the class falls back to: over the state and the token, one place too many."""
    return 2 * 2 * width * channels
