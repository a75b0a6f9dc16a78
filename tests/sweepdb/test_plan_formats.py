"""Formats that `plan` looks at by itself, by device and model."""

from __future__ import annotations

import pytest

from sweepdb.evaluating.sweep_options import SweepOptions
from sweepdb.planning.formats import request_in_formats


def origins(model, device, **options):
    asked = SweepOptions(
        models=(model,), devices=tuple(device.split(",")), num_devices=(1,), input_length="100", output_length=10.0,
        **options,
    )  # fmt: skip
    return request_in_formats(asked, None).origins


@pytest.mark.parametrize(
    ("model", "device", "found"),
    [
        ("meta-llama/Llama-3.1-405B-Instruct", "h100_sxm", {"FP8": "nvidia/Llama-3.1-405B-Instruct-FP8"}),
        ("meta-llama/Llama-3.1-405B-Instruct", "a100_sxm", {}),  # Ampere has no FP8 arithmetic
        ("Qwen/Qwen3-32B", "h100_sxm", {"FP8_BLOCK": "Qwen/Qwen3-32B-FP8"}),
        ("Qwen/Qwen3-0.6B", "h100_sxm", {"FP8": "quantised as it loads"}),
        ("Qwen/Qwen3-0.6B", "a100_sxm,h100_sxm", {"FP8": "quantised as it loads"}),
        ("openai/gpt-oss-120b", "h100_sxm", {}),  # experts come in four bits: FP8 would be wider
        ("deepseek-ai/DeepSeek-V3", "h200_sxm", {}),  # published in FP8
        ("deepseek-ai/DeepSeek-V3.1", "h200_sxm", {}),  # Hopper has no FP4 arithmetic
    ],
)
def test_narrower_formats_are_those_that_a_device_computes_in(model, device, found):
    assert origins(model, device) == found


def test_fp4_is_looked_at_on_blackwell_where_somebody_published_it():
    assert "nvidia/DeepSeek-V3.1-NVFP4" in origins("deepseek-ai/DeepSeek-V3.1", "b200_sxm").values()


@pytest.mark.parametrize("named", [{"linear": ("NATIVE",)}, {"experts": "FP8"}, {"mixers": "FP8"}, {"head": "FP8"}])
def test_a_format_that_is_named_is_looked_at_alone(named):
    assert origins("Qwen/Qwen3-0.6B", "h100_sxm", **named) == {}


def test_formulas_quantise_nothing_at_load():
    assert origins("Qwen/Qwen3-0.6B", "h100_sxm", serving_models=("waves",)) == {}
