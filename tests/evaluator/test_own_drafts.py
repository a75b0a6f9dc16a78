"""Modules of a model that draft tokens, against the classes that make them: weights, FLOPs, keys, and their number."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from class_cases import CASES, SMALL, TOKENS
from evaluator_cases import DEEPSEEK_V3, captured
from torch.utils.flop_counter import FlopCounterMode

from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs import load_model
from evaluator.inputs.architectures import spec_from_config
from evaluator.inputs.launch import Plan
from evaluator.pricing.memory import kv_bytes, weight_bytes
from evaluator.pricing.occurrence import seen_by
from store.errors import InputError

STEP_TEXT = {
    "hidden_size": 128, "intermediate_size": 192, "vocab_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 32, "sliding_window": 64, "n_routed_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 64, "share_expert_dim": 96, "num_sliding_attention_heads": 6,
    "layer_types": ["full_attention", "sliding_attention"] * 2, "num_nextn_predict_layers": 3, "pad_token_id": 0,
    "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"], "max_position_embeddings": 256,
    "mtp_layer_types": ["sliding_attention"] * 3, "mtp_mlp_layer_types": ["dense"] * 3,
}  # fmt: skip


def step_of_the_class():
    """(our spec, the class's first module that drafts, positions of its heads, how many there are) of a small Step."""
    modeling = pytest.importorskip("transformers.models.step3p7.modeling_step3p7")
    configured = pytest.importorskip("transformers.models.step3p7.configuration_step3p7")
    # The class keeps the usual heads for modules unless told; engines read those of the window for them, as they are stored
    parsed = configured.Step3p7TextConfig(
        **STEP_TEXT, mtp_per_layer_config={layer: {"num_attention_heads": 6} for layer in range(3)}
    )
    parsed._attn_implementation = parsed._experts_implementation = "eager"
    with torch.device("meta"):
        model = modeling.Step3p7TextModel(parsed).to(torch.bfloat16)
    model.lm_head = torch.nn.Linear(128, 512, bias=False, device="meta", dtype=torch.bfloat16)
    model.get_decoder = lambda: model
    spec = spec_from_config({**STEP_TEXT, "model_type": "step3p5"}, "config.json")
    return spec, *modules_of(model, 3), 32


def deepseek_of_the_class():
    """The same of a small DeepSeek-V3 with two modules."""
    transformers = pytest.importorskip("transformers", minversion="5.0")
    keys = {**SMALL, **CASES["deepseek_v3"], "num_nextn_predict_layers": 2}
    parsed = transformers.AutoConfig.for_model("deepseek_v3", **keys)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            parsed, attn_implementation="eager", dtype=torch.bfloat16, experts_implementation="batched_mm"
        )
    return (
        spec_from_config({**parsed.to_dict(), "num_nextn_predict_layers": 2}, "config.json"),
        *modules_of(model, 2),
        8,
    )


def modules_of(model, count):
    layers = pytest.importorskip("transformers.modeling_layers")
    if not hasattr(layers, "MtpModel"):
        pytest.skip("a release without MtpModel")
    with torch.device("meta"):
        drafts = layers.MtpModel(model, count).to(torch.bfloat16)
    weights = sum(parameter.numel() for parameter in drafts.layers.parameters())
    # The router's correction is a buffer in some classes
    named = drafts.layers.named_buffers()
    return drafts.layers[0], weights + sum(
        one.numel() for name, one in named if name.endswith("e_score_correction_bias")
    )


class OfLongcat(torch.nn.Module):
    """The module of LongCat-Flash of its class's parts, as engines join them: no published class has it whole."""

    def __init__(self, modeling, parsed):
        super().__init__()
        norm, wide = modeling.LongcatFlashRMSNorm, parsed.hidden_size
        self.enorm, self.hnorm, self.final = norm(wide), norm(wide), norm(wide)
        self.before, self.between = norm(wide), norm(wide)
        self.eh_proj = torch.nn.Linear(2 * wide, wide, bias=False)
        self.attention, self.mlp = modeling.LongcatFlashMLA(parsed, 0), modeling.LongcatFlashMLP(parsed)

    def forward(self, embedded, hidden, position_embeddings, attention_mask, **_):
        x = self.eh_proj(torch.cat([self.enorm(embedded), self.hnorm(hidden)], dim=-1))
        x = x + self.attention(self.before(x), position_embeddings, attention_mask)[0]
        return self.final(x + self.mlp(self.between(x)))


def longcat_of_the_class():
    transformers = pytest.importorskip("transformers", minversion="5.0")
    modeling = pytest.importorskip("transformers.models.longcat_flash.modeling_longcat_flash")
    parsed = transformers.AutoConfig.for_model("longcat_flash", **{**SMALL, **CASES["longcat_flash"]})
    parsed._attn_implementation = "eager"
    with torch.device("meta"):
        module = OfLongcat(modeling, parsed).to(torch.bfloat16)
    spec = spec_from_config(parsed.to_dict(), "config.json")
    return spec, module, sum(parameter.numel() for parameter in module.parameters()), 8


CLASSES = {"step3p5": step_of_the_class, "deepseek_v3": deepseek_of_the_class, "longcat_flash": longcat_of_the_class}


@pytest.fixture(scope="module", params=CLASSES)
def drafting(request):
    """(spec, one module of the class, parameters of all of them, turned numbers of a head)."""
    return CLASSES[request.param]()


def test_weights_of_all_modules_are_those_of_the_class(drafting):
    spec, _, parameters, _ = drafting
    operators = captured(spec, Plan(), "decode")
    both = [weight_bytes(operators, drafting=drafts, modules=spec.draft_modules) for drafts in (True, False)]
    assert both[0] - both[1] == 2 * parameters


def test_flops_of_a_pass_are_those_of_the_class(drafting):
    spec, module, _, turned = drafting
    wide = torch.empty(1, TOKENS, 128, dtype=torch.bfloat16, device="meta")
    positions = torch.empty(1, TOKENS, turned, dtype=torch.bfloat16, device="meta")
    mask = torch.empty(1, 1, TOKENS, TOKENS, dtype=torch.bfloat16, device="meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        module(
            wide, wide, position_embeddings=(positions, positions), attention_mask=mask, position_ids=None,
            past_key_values=None,
        )  # fmt: skip
    head = 2 * TOKENS * 128 * 512
    sums = request_sums(float(TOKENS), 0.0, square=True, logits=float(TOKENS), windows=spec.spans)
    ours = sum(
        float(one.matrix_flops.at(repeated(seen_by(one, sums), 1.0))) * one.count
        for one in captured(spec, Plan(), "prefill", compile=True).draft_operators
    )
    assert math.isclose(ours, counter.get_total_flops() + head, rel_tol=1e-3)


def test_published_modules_weigh_what_their_shapes_say():
    step, longcat = (
        load_model(name)[1] for name in ("stepfun-ai/Step-3.7-Flash", "meituan-longcat/LongCat-Flash-Chat")
    )
    # A projection of two states, queries and outputs of 96 heads and a gate of each, keys and values of 8, three
    # matrices to 11,264, five norms and two of heads; the head and the table of embeddings are the model's.
    layer = 2 * 4096**2 + 4096 * (2 * 96 * 128 + 96 + 2 * 8 * 128) + 3 * 4096 * 11264 + 5 * 4096 + 2 * 128
    assert draft_bytes(step, Plan()) == 3 * 2 * layer == 1_688_593_920
    # 64 heads of latent attention and three matrices to 12,288
    attention = 6144 * 1536 + 1536 + 1536 * 64 * 192 + 6144 * 576 + 512 + 512 * 64 * 256 + 64 * 128 * 6144
    module = 2 * 6144**2 + attention + 3 * 6144 * 12288 + 5 * 6144
    assert draft_bytes(longcat, Plan()) == 2 * module == 785_186_816


def draft_bytes(spec, plan):
    operators = captured(spec, plan, "decode", compile=True)
    drafting, without = (weight_bytes(operators, drafting=said, modules=spec.draft_modules) for said in (True, False))
    return drafting - without


def test_stages_hold_one_table_of_embeddings_for_all_modules():
    spec = load_model("stepfun-ai/Step-3.7-Flash")[1]
    operators = captured(spec, Plan(pp=3), "decode", compile=True)
    loaded = [weight_bytes(operators, drafting=True, modules=modules) for modules in (1, 2, 3)]
    table = 2 * 128896 * 4096
    assert loaded[2] - loaded[1] == loaded[1] - loaded[0] == draft_bytes(spec, Plan()) // 3 < table


def test_keys_of_modules_are_those_of_their_windows():
    for name, tokens, token in (("stepfun-ai/Step-3.7-Flash", 512, 3 * 2 * 8 * 128), ("meituan-longcat/LongCat-Flash-Chat", 4096, 576)):  # fmt: skip
        held = [
            float(kv_bytes(load_model(name)[1], Plan(), 16, np.asarray(4096.0), np.asarray(1.0), paging="per_request", drafting=drafting))
            for drafting in (True, False)
        ]  # fmt: skip
        assert held[0] - held[1] == 2 * tokens * token


def test_a_file_that_says_no_layers_of_its_modules_drafts_nothing():
    said = {name: value for name, value in STEP_TEXT.items() if not name.startswith("mtp_")}
    spec = spec_from_config({**said, "model_type": "step3p5"}, "config.json")
    assert (spec.mtp_layers, spec.draft_layer) == (0, None)
    # Behind the others, as the hub has them
    longer = {**said, "layer_types": [*said["layer_types"], *["sliding_attention"] * 3]}
    behind = spec_from_config({**longer, "model_type": "step3p5"}, "config.json")
    assert behind == spec_from_config({**STEP_TEXT, "model_type": "step3p5"}, "config.json")


@pytest.mark.parametrize(
    ("said", "part"),
    [
        ({"mtp_layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}, "of layers that differ"),
        ({"mtp_mlp_layer_types": ["dense", "sparse", "dense"]}, "of layers that differ"),
        ({"mtp_mlp_layer_types": ["wide"] * 3}, "mlp_layer_types"),
        ({"mtp_per_layer_config": {"0": {"num_attention_heads": 4}}}, "mtp_per_layer_config: not read"),
    ],
)
def test_other_modules_of_step_are_refused(said, part):
    with pytest.raises(InputError, match=part):
        spec_from_config({**STEP_TEXT, "model_type": "step3p5", **said}, "config.json")


def test_several_modules_of_longcat_are_refused():
    transformers = pytest.importorskip("transformers", minversion="5.0")
    keys = transformers.AutoConfig.for_model("longcat_flash", **{**SMALL, **CASES["longcat_flash"]}).to_dict()
    assert spec_from_config({**keys, "num_nextn_predict_layers": 0}, "config.json").mtp_layers == 0
    with pytest.raises(InputError, match="longcat_flash with 2 modules that draft"):
        spec_from_config({**keys, "num_nextn_predict_layers": 2}, "config.json")


def test_models_with_one_module_have_the_keys_they_had():
    assert replace(DEEPSEEK_V3, drafts_chained=False).draft_modules == 1
    assert load_model("deepseek-ai/DeepSeek-V3")[1] == replace(
        DEEPSEEK_V3, native_linear="FP8_BLOCK", native_experts="FP8_BLOCK"
    )
