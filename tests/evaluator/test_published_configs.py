"""Every published configuration that is compared with: accepted with its parameters, or refused for a part that is
true."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from shared_data import ROOT

from evaluator.inputs.architectures import spec_from_config
from evaluator.inputs.models import load_model
from evaluator.inputs.parameters import parameter_count
from evaluator.pricing.kv_state import kv_states
from store.errors import InputError

# Parameters of the Hugging Face classes on the meta device, vision encoders taken off; of models that have no class, the
# publisher's count. The rest of what is accepted is in test_models.py or beside it in another format.
EXACT = {
    # The classes' 671,877,929,216, 743,911,199,232 and 743,377,000,704, and a router's correction of each expert, which
    # is a buffer there: 58 x 256 and 75 x 256.
    "deepseek-ai--DeepSeek-V3.2": 671_877_944_064,
    "zai-org--GLM-5": 743_911_218_432,
    "zai-org--GLM-5.2": 743_377_019_904,
    # 1,572,997,179,491 and 284,332,230,231 of the class, and corrections of 58 x 384 and 40 x 256.
    "deepseek-ai--DeepSeek-V4-Pro": 1_572_997_201_763,
    "deepseek-ai--DeepSeek-V4-Flash": 284_332_240_471,
    "Qwen--Qwen3.5-397B-A17B": 396_346_350_336,
    "Qwen--Qwen3.5-122B-A10B": 122_111_526_912,
    "Qwen--Qwen3.5-35B-A3B": 34_660_610_688,
    "Qwen--Qwen3.5-27B": 26_895_998_464,
    # 31,577,937,344, 120,668,687,360 and 549,308,968,960, and corrections of 23 x 128, 40 x 512 and 48 x 512.
    "XiaomiMiMo--MiMo-V2-Flash": 308_778_780_864,  # 308,778,768,832 and 47 x 256 corrections
    # Of 427,040,132,864 with an image encoder of 631,185,920 and its projector of 234,381,312; 57 x 128 corrections.
    "MiniMaxAI--MiniMax-M3": 426_174_572_928,
    # No class: as its released tensors are said to be, parts that only it has counted in test_kimi_k3.py; 2.78T, of which
    # 104B are multiplied with, is what others count.
    "moonshotai--Kimi-K3": 2_779_484_476_000,
    "google--gemma-4-26B-A4B": 25_233_141_760,  # 25,805,933,872 with its image encoder
    "nvidia--Gemma-4-31B-IT-NVFP4": 30_697_345_280,
    "meta-llama--Llama-4-Maverick-17B-128E-Instruct": 400_711_848_960,
    "meta-llama--Llama-4-Scout-17B-16E-Instruct": 107_769_861_120,
    "nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 31_577_940_288,
    "nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8": 120_668_707_840,
    "nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16": 549_308_993_536,
    "nvidia--Nemotron-H-56B-Base-8K": 56_324_350_464,
    "nvidia--Llama-3_3-Nemotron-Super-49B-v1": 49_867_145_216,
}
# Why the others are refused.
REFUSED = {
    r"Step-3.7": "heads of layers with a window that the file does not say",
}
FILES = sorted((ROOT / "model_configs").glob("*--*.json"))


def read(path):
    return spec_from_config(json.loads(path.read_text(encoding="utf-8")), path.name)


@pytest.mark.skipif(not FILES, reason="comparison data not found")
def test_every_configuration_is_accepted_or_refused_for_its_part():
    accepted = 0
    for path in FILES:
        part = next((part for name, part in REFUSED.items() if re.search(name, path.name)), None)
        if part is None:
            assert read(path).layers, path.name
            accepted += 1
            continue
        with pytest.raises(InputError, match=part):
            read(path)
    assert (len(FILES), accepted) == (96, 94)


@pytest.mark.skipif(not FILES, reason="comparison data not found")
@pytest.mark.parametrize("name", EXACT)
def test_parameters_are_those_of_the_class(name):
    assert parameter_count(read(ROOT / "model_configs" / f"{name}.json")).total == EXACT[name]


# Formats that files state for parts apart: linears, experts, what mixes tokens, the head, and layers that draft.
FORMATS = {
    "nvidia--Qwen3.5-397B-A17B-NVFP4": ("BF16", "NVFP4", None, None, "BF16"),
    "nvidia--Qwen3.6-35B-A3B-NVFP4": ("NVFP4_W4A16", "NVFP4_W4A16", "FP8", "NVFP4_W4A16", "BF16"),
    "nvidia--Qwen3.6-27B-NVFP4": ("NVFP4_W4A16", "NVFP4_W4A16", "FP8", "NVFP4_W4A16", "BF16"),
    "nvidia--GLM-5.2-NVFP4": ("BF16", "NVFP4", None, None, "BF16"),
    "deepseek-ai--DeepSeek-V4-Pro": ("FP8_BLOCK", "MXFP4", None, None, None),
    "nvidia--DeepSeek-V4-Pro-NVFP4": ("FP8_BLOCK", "NVFP4", None, None, None),
    "sgl-project--DeepSeek-V4-Pro-FP8": ("FP8_BLOCK", "FP8_BLOCK", None, None, None),
    "nvidia--MiniMax-M3-NVFP4": ("MXFP8", "NVFP4", None, None, None),
    "nvidia--MiniMax-M2.5-NVFP4": ("BF16", "NVFP4", None, None, None),
    "moonshotai--Kimi-K2.5": ("BF16", "W4A16_G32", None, None, None),
    "nvidia--Kimi-K2.5-NVFP4": ("NVFP4", "NVFP4", "BF16", None, None),
    "nvidia--Kimi-K2.6-NVFP4": ("BF16", "NVFP4", None, None, None),
    "moonshotai--Kimi-K3": ("BF16", "MXFP4_W4A16", None, None, None),
    "nvidia--Gemma-4-26B-A4B-NVFP4": ("BF16", "NVFP4", None, None, None),
    "nvidia--Gemma-4-31B-IT-NVFP4": ("NVFP4", "NVFP4", "BF16", None, None),
    "zai-org--GLM-5-FP8": ("FP8_BLOCK", "FP8_BLOCK", None, None, None),
}


@pytest.mark.skipif(not FILES, reason="comparison data not found")
@pytest.mark.parametrize("name", FORMATS)
def test_formats_are_those_of_the_parts(name):
    spec = read(ROOT / "model_configs" / f"{name}.json")
    found = (spec.native_linear, spec.native_experts, spec.native_mixers, spec.native_head, spec.native_drafts)
    assert found == FORMATS[name]


# Bytes of a token and of a request, whatever its length, as docs/reference/models.md states them.
STATES = {
    "deepseek-ai/DeepSeek-V3.2": (78_324, 0),
    "zai-org/GLM-5": (100_152, 0),
    "zai-org/GLM-5.2": (92_628, 0),
    "Qwen/Qwen3.5-397B-A17B": (30_720, 192_061_440),
    "Qwen/Qwen3.5-27B": (65_536, 153_944_064),
    "deepseek-ai/DeepSeek-V4-Pro": (8_408, 18_710_528),
    "MiniMaxAI/MiniMax-M3": (137_472, 0),
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8": (8_192, 170_229_760),
    "moonshotai/Kimi-K3": (27_648, 449_372_160),
}


@pytest.mark.parametrize("name", STATES)
def test_caches_are_what_the_page_of_models_says(name):
    states = [(group.count, state) for group in load_model(name)[1].layers for state in kv_states(group, 16, 1)]
    token = sum(count * state.entry_bytes / state.ratio for count, state in states if state.window is None)
    assert (token, sum(count * state.request_bytes for count, state in states)) == STATES[name]
    page = Path(__file__).parents[2] / "docs" / "reference" / "models.md"
    assert re.search(
        rf"\| {name.split('/')[1].split('-120B')[0].removeprefix('NVIDIA-')} \| {STATES[name][0]:,} ", page.read_text()
    )
