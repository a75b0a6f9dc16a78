"""Image encoders against their Hugging Face classes: parameters of published ones, FLOPs of small ones."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from shared_data import shared_data
from torch.utils.flop_counter import FlopCounterMode

from evaluator.graph.capture import CaptureRequest, capture_operators
from evaluator.graph.capture.blocks import HALF
from evaluator.inputs.architectures import spec_from_config
from evaluator.inputs.architectures.towers import tower_of, towers
from evaluator.inputs.images import ImageRequest, VisionTower, images_of
from evaluator.inputs.launch import Plan
from evaluator.inputs.models import list_models, load_model
from evaluator.serving.encoding import image_sums

transformers = pytest.importorskip("transformers", minversion="5.0")

TEXT = 48  # width of the language part of small ones
QWEN = {
    "depth": 3, "hidden_size": 32, "num_heads": 4, "intermediate_size": 80, "patch_size": 4, "temporal_patch_size": 2,
    "spatial_merge_size": 2, "num_position_embeddings": 64, "out_hidden_size": TEXT, "deepstack_visual_indexes": [],
}  # fmt: skip
SMALL = {
    "qwen3_vl": {**QWEN, "deepstack_visual_indexes": [0, 2]},
    "qwen3_vl_moe": {**QWEN, "deepstack_visual_indexes": [1]},
    "qwen3_5": QWEN,
    "qwen3_5_moe": QWEN,
    "kimi_k25": {
        "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 80, "patch_size": 4,
        "pos_emb_height": 8, "pos_emb_width": 8, "merge_kernel_size": [2, 2],
    },
    "gemma3": {
        "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 80, "patch_size": 4,
        "image_size": 32, "vision_use_head": False,
    },
    "gemma4": {
        "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": 8,
        "intermediate_size": 80, "patch_size": 4, "pooling_kernel_size": 2, "position_embedding_size": 64,
        "default_output_length": 16,
    },
    "llama4": {
        "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 128, "patch_size": 4,
        "image_size": 32, "projector_input_dim": 64, "projector_output_dim": 64, "vision_output_dim": 64,
    },
    "minimax_m3_vl": {
        "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 80, "patch_size": 4,
    },
    "step3p7": {
        "width": 32, "layers": 3, "heads": 4, "mlp_ratio": 2.5, "patch_size": 4, "image_size": 32,
    },
}  # fmt: skip
OUTER = {  # keys of the whole file that an encoder reads
    "gemma3": {"mm_tokens_per_image": 16},
    "gemma4": {"vision_soft_tokens_per_image": 16},
    "kimi_k25": {"projection_hidden_size": 32},
    "minimax_m3_vl": {"projector_hidden_size": 56},
}
SIDE = 32  # pixels of the images of small ones: 8 x 8 patches
PATCHES = 64


def small(family: str) -> VisionTower:
    config = {"model_type": family, "vision_config": SMALL[family], **OUTER.get(family, {})}
    with pytest.MonkeyPatch.context() as patch:  # published processors would enlarge images as small as these
        for pixels in ("PIXELS", "MINIMAX_PIXELS"):
            patch.setattr(f"evaluator.inputs.architectures.towers.patch_towers.{pixels}", (1, 10**9))
        tower = tower_of(config, family, TEXT)
    assert isinstance(tower, VisionTower), tower
    return tower


def config_of_class(family: str):
    text = {"hidden_size": TEXT}
    said = {**SMALL[family]}
    return transformers.AutoConfig.for_model(family, vision_config=said, text_config=text, **OUTER.get(family, {}))


def parts_of_class(family: str, config, device: str):
    """The encoder, and what projects into the language part, where that is apart."""
    from transformers.models.gemma3.modeling_gemma3 import Gemma3MultiModalProjector
    from transformers.models.gemma4.modeling_gemma4 import Gemma4MultimodalEmbedder, Gemma4VisionModel
    from transformers.models.kimi_k25.modeling_kimi_k25 import Kimi_K25MultimodalProjection, Kimi_K25VisionModel
    from transformers.models.llama4.modeling_llama4 import Llama4MultiModalProjector, Llama4VisionModel
    from transformers.models.minimax_m3_vl.modeling_minimax_m3_vl import (
        MiniMaxM3VLMultiModalProjector,
        MiniMaxM3VLVisionModel,
    )
    from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5VisionModel
    from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeVisionModel
    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel
    from transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe import Qwen3VLMoeVisionModel
    from transformers.models.siglip.modeling_siglip import SiglipVisionModel
    from transformers.models.step3p7.modeling_step3p7 import Step3p7VisionModel

    classes = {
        "qwen3_vl": (Qwen3VLVisionModel, None),
        "qwen3_vl_moe": (Qwen3VLMoeVisionModel, None),
        "qwen3_5": (Qwen3_5VisionModel, None),
        "qwen3_5_moe": (Qwen3_5MoeVisionModel, None),
        "kimi_k25": (Kimi_K25VisionModel, Kimi_K25MultimodalProjection),
        "gemma3": (SiglipVisionModel, Gemma3MultiModalProjector),
        "gemma4": (Gemma4VisionModel, lambda one: Gemma4MultimodalEmbedder(one.vision_config, one.text_config)),
        "llama4": (Llama4VisionModel, Llama4MultiModalProjector),
        "minimax_m3_vl": (MiniMaxM3VLVisionModel, MiniMaxM3VLMultiModalProjector),
        "step3p7": (Step3p7VisionModel, _step_projector),
    }
    encoder, projector = classes[family]
    config.vision_config._attn_implementation = "eager"
    with torch.device(device):
        return encoder(config.vision_config).eval(), None if projector is None else projector(config).eval()


def _step_projector(config):
    """What Step3p7Model holds behind its encoder."""
    return torch.nn.Linear(4 * config.vision_config.hidden_size, TEXT, bias=config.projector_bias)


def run_class(family: str, encoder, projector) -> None:
    """One image of 8 x 8 patches through the class; of Llama 4, one tile."""
    grid = torch.tensor([[1, 8, 8]])
    if family.startswith("qwen3"):
        encoder(torch.zeros(PATCHES, 3 * 2 * 16), grid_thw=grid)
    elif family == "kimi_k25":
        projector(encoder(torch.zeros(PATCHES, 3, 4, 4), grid_thw=grid).pooler_output)
    elif family == "gemma3":
        projector(encoder(torch.zeros(1, 3, SIDE, SIDE)).last_hidden_state)
    elif family == "gemma4":
        rows, columns = torch.meshgrid(torch.arange(8), torch.arange(8), indexing="ij")
        places = torch.stack([columns, rows], -1).reshape(1, PATCHES, 2)
        projector(encoder(torch.zeros(1, PATCHES, 48), places).last_hidden_state)
    elif family in {"llama4", "step3p7"}:
        projector(encoder(torch.zeros(1, 3, SIDE, SIDE)).last_hidden_state)
    else:
        projector(encoder(torch.zeros(PATCHES, 3 * 2 * 16), grid).last_hidden_state.squeeze(0))


def operators_of(tower: VisionTower, plan: Plan, **options):
    model = load_model("Qwen/Qwen3-VL-8B-Instruct")[1]
    return capture_operators(
        CaptureRequest(
            model=model, plan=plan, linear=HALF, experts=HALF, kv_bits=16, trace="encoder", compile=True, tower=tower,
            **options,
        )
    )  # fmt: skip


def one_image(tower: VisionTower):
    return image_sums(images_of(ImageRequest(count=1, width=SIDE, height=SIDE), tower), np.ones(()))


def flops_of(operators, sums) -> float:
    return sum(one.count * float(one.matrix_flops.at(sums)) for one in operators.operators)


def weights_of(operators) -> float:
    return sum(one.count * float(one.weight_bytes) for one in operators.operators)


def test_every_family_is_held_to_its_class():
    assert set(SMALL) == set(towers())


@pytest.mark.parametrize("family", SMALL)
def test_parameters_are_those_of_the_class_and_of_what_is_captured(family):
    tower = small(family)
    parts = parts_of_class(family, config_of_class(family), "meta")
    counted = sum(one.numel() for part in parts if part is not None for one in part.parameters())
    assert tower.parameters == counted
    assert weights_of(operators_of(tower, Plan())) == 2 * counted  # 16 bits each


@pytest.mark.parametrize("family", SMALL)
def test_flops_of_an_image_are_those_of_the_class(family):
    tower = small(family)
    encoder, projector = parts_of_class(family, config_of_class(family), "cpu")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        run_class(family, encoder, projector)
    # Gemma 4 averages patches by a product with zeros and ones; a kernel adds them up.
    other = 2 * 16 * PATCHES * tower.hidden_size if family == "gemma4" else 0
    ours = flops_of(operators_of(tower, Plan()), one_image(tower))
    assert math.isclose(ours, counter.get_total_flops() - other, rel_tol=1e-3)


PUBLISHED = {  # of the classes on the meta device, with what projects
    "Qwen/Qwen3-VL-8B-Instruct": 576_388_336,
    "Qwen/Qwen3-VL-2B-Instruct": 406_957_056,
    "Qwen/Qwen3.5-397B-A17B": 456_010_480,
    "moonshotai/Kimi-K2.5": 471_143_920,
    "google/gemma-4-26B-A4B": 572_792_112,
    "meta-llama/Llama-4-Scout-17B-16E-Instruct": 871_932_416,
    "nvidia/MiniMax-M3-NVFP4": 865_567_232,
    "stepfun-ai/Step-3.7-Flash": 1_981_014_784,
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_encoders_have_the_parameters_of_their_class(name):
    tower = load_model(name)[1].vision
    assert isinstance(tower, VisionTower)
    assert tower.parameters == PUBLISHED[name]
    assert weights_of(operators_of(tower, Plan())) == 2 * tower.parameters


def test_every_catalogued_model_with_an_encoder_has_it_or_says_why_not():
    told = {name: model.vision for name in list_models() if "image" in (model := load_model(name)[1]).left_out}
    assert len(told) > 20
    unread = {name: str(one) for name, one in told.items() if not isinstance(one, VisionTower)}
    assert set(unread) == {"moonshotai/Kimi-K3"}
    assert "kimi_k3" in str(told["moonshotai/Kimi-K3"])


def test_published_files_and_the_catalogue_have_one_encoder():
    compared = 0
    for path in sorted(shared_data("model_configs").glob("*.json")):
        config = json.loads(path.read_text())
        name = path.stem.replace("--", "/")
        if isinstance(config, dict) and "vision_config" in config and name in list_models():
            assert spec_from_config(config, name).vision == load_model(name)[1].vision, name
            compared += 1
    assert compared >= 20


@pytest.mark.parametrize(
    ("family", "change", "said"),
    [
        ("qwen3_vl", {"hidden_act": "relu6"}, "hidden_act 'relu6'"),
        ("qwen3_vl", {"window_size": 112}, "window_size"),
        ("qwen3_vl", {"hidden_size": 33}, "do not divide"),
        ("qwen3_vl", {"deepstack_visual_indexes": [3]}, "beyond the layers"),
        ("kimi_k25", {"merge_kernel_size": [2, 1]}, "no squares"),
        ("kimi_k25", {"mm_projector_type": "patchmergerv2"}, "patchmergerv2"),
        ("gemma3", {"vision_use_head": True}, "vision_use_head"),
        ("gemma4", {"use_clipped_linears": True}, "use_clipped_linears"),
        ("gemma4", {"num_key_value_heads": 2}, "num_key_value_heads"),
        ("llama4", {"projector_output_dim": 96}, "projector"),
        ("minimax_m3_vl", {"position_embedding_type": "absolute"}, "position_embedding_type"),
        ("kimi_k3", {}, "kimi_k3"),
    ],
)
def test_what_is_not_understood_is_named(family, change, said):
    config = {"model_type": family, "vision_config": {**SMALL.get(family, {}), **change}, **OUTER.get(family, {})}
    told = tower_of(config, "a file", TEXT)
    assert isinstance(told, str)
    assert said in told


@pytest.mark.parametrize("family", ["qwen3_vl", "llama4"])
def test_ranks_share_weights_and_work(family):
    tower = small(family)
    whole, shared = (operators_of(tower, Plan(tp=tp)) for tp in (1, 4))
    sums = one_image(tower)
    # What is not shared: patches and positions, norms, and projections of one linear.
    assert flops_of(whole, sums) / 4 < flops_of(shared, sums) < flops_of(whole, sums) / 2
    assert weights_of(shared) < weights_of(whole)
    reduced = {one.label for one in shared.operators if one.kind == "all_reduce"}
    assert {"encoder.layers.attention_all_reduce", "encoder.layers.mlp_all_reduce"} <= reduced
    assert not any(one.collective for one in whole.operators)


def test_ranks_with_images_of_their_own_have_all_weights_and_gather_tokens_once():
    tower = small("qwen3_vl")
    whole, own = operators_of(tower, Plan()), operators_of(tower, Plan(tp=4), tower_whole=True)
    sums = one_image(tower)
    assert weights_of(own) == weights_of(whole)
    assert flops_of(own, sums) == flops_of(whole, sums)
    (gathered,) = (one for one in own.operators if one.collective is not None)
    assert (gathered.kind, gathered.collective.group_size) == ("all_gather", 4)
    # 16 tokens of an image of 64 patches, each with 2 inner states beside it: 3 x 48 numbers of 2 bytes.
    assert float(gathered.collective.payload_bytes.at(sums)) == 16 * 3 * 48 * 2


def test_an_encoder_stands_on_the_first_stage_of_a_pipeline():
    tower = small("kimi_k25")
    operators = operators_of(tower, Plan(pp=2))
    assert operators.stages == 2
    assert all(one.counts[1] == 0 for one in operators.operators)
    assert flops_of(operators, one_image(tower)) == flops_of(operators_of(tower, Plan()), one_image(tower))


def test_captures_of_encoders_differ_by_encoder_and_split():
    tower = small("qwen3_vl")
    keys = {
        operators_of(one, Plan(tp=2), **more).key
        for one in (tower, replace(tower, layers=5))
        for more in ({}, {"tower_whole": True})
    }
    assert len(keys) == 4
