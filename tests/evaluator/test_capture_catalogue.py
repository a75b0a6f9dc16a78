"""Every model of the catalogue is captured whole, and its operators hold exactly the parameters its shape says."""

from __future__ import annotations

import pytest
from evaluator_cases import ATTENTION_KINDS, BF16, captured

from evaluator.graph.capture.capture_request import CaptureRequest
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import list_models, load_model
from evaluator.inputs.parameters import parameter_count
from evaluator.pricing.memory import weight_bytes


@pytest.mark.parametrize("name", list_models())
def test_operators_hold_every_parameter(name):
    _, model = load_model(name)
    parameters = parameter_count(model).total
    for trace in ("prefill", "decode"):
        operators = captured(model, Plan(), trace)
        assert operators.unmodelled == ()
        # Two countings that share no code: traced weights at two bytes each, and the closed form of the shape
        assert weight_bytes(operators, drafting=False) == 2 * parameters


@pytest.mark.parametrize("plan", [Plan(), Plan(tp=2, ep=2), Plan(tp=8, ep=8)])
def test_scales_of_experts_follow_the_tokens_however_few_they_are(plan):
    _, gemma = load_model("google/gemma-4-26B-A4B")  # 128 experts, 8 a token: more scales than a few tokens' scores
    scaled = next(one for one in captured(gemma, plan).operators if one.label.endswith("router_scale.scale"))
    dealt = plan.tp if plan.ep > 1 else 1
    assert scaled.vector_flops.tokens * dealt == 8
    assert scaled.vector_flops.constant == 0


def test_alibi_adds_a_bias_to_every_score():
    _, bloom = load_model("bigscience/bloom-560m")
    attention = next(one for one in captured(bloom, Plan()).operators if one.kind in ATTENTION_KINDS)
    # 16 heads: 4 FLOPs of the softmax and one for the bias
    assert attention.vector_flops.pairs == 16 * 5
    assert not any(one.kind == "rope" for one in captured(bloom, Plan()).operators)


def test_names_of_one_shape_share_their_operators():
    keys = [
        CaptureRequest(
            model=load_model(name)[1], plan=Plan(), linear=BF16, experts=BF16, kv_bits=16, trace="decode", compile=True
        ).key
        for name in ("deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3.1")
    ]
    assert keys[0] == keys[1]
