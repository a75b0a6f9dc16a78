"""What is exact, fitted, carried over or refused, for a model, a device and an engine."""

from __future__ import annotations

import json

import pytest

from evaluator.support import support_table, supported, supported_words
from store.errors import InputError


def states(*named):
    return {one.part: (one.state, one.how) for one in supported(*named)}


def test_kernels_of_a_measured_device_have_errors():
    found = states("moonshotai/Kimi-K3", "b200_sxm", "vllm")
    assert found["model"][0] == "by hand"
    assert found["image encoder"][0] == "left out"
    assert found["format of experts"] == ("exact", "MXFP4_W4A16, as published")
    assert found["channel_scan"] == ("fitted", "measured kernels, median error 5.5 %")
    assert found["gemm"][0] == "fitted"
    assert "median error" in found["all_reduce"][1]
    assert found["engine"][0] == "fitted"


def test_another_device_carries_kernels_and_a_third_has_a_data_sheet():
    carried = states("Qwen/Qwen3.5-27B", "gb300")
    assert carried["device"] == ("carried", "kernels of b200_sxm, by its rates")
    assert carried["image encoder"][0] == "exact"
    assert "461 M weights" in carried["image encoder"][1]
    assert carried["state_scan"][0] == carried["gemm"][0] == "carried"
    sheet = states("Qwen/Qwen3.5-27B", "mi355x")
    assert {state for state, _ in sheet.values()} == {"exact", "by hand", "data sheet", "carried", "refused"}
    assert sheet["device"][1].startswith("carried from mi300x; AMD Instinct MI355X data sheet")
    assert states("Qwen/Qwen3.5-27B", "mi300x")["device"][0] == "fitted"
    assert sheet["prefill context parallelism"][0] == "refused"


def test_kernels_that_nobody_measured_say_whose_they_are():
    found = states("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-FP8", "h200_sxm")
    assert found["space_scan"][0] == "carried"
    assert "as state_scan of h200_sxm" in found["space_scan"][1]


def test_what_cannot_be_read_is_refused_with_its_part(tmp_path):
    file = tmp_path / "config.json"
    file.write_text('{"model_type": "bailing_hybrid", "hidden_size": 64}')
    (refused,) = supported(str(file))
    assert refused.state == "refused"
    assert "linear attention of Lightning layers" in refused.how
    with pytest.raises(InputError, match="nearest"):
        supported("Qwen/Qwen3-8B", "h20O_sxm")


def test_a_format_that_only_a_name_says_is_refused(tmp_path):
    file = tmp_path / "my-model-NVFP4" / "config.json"
    file.parent.mkdir()
    small = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    file.write_text(json.dumps({"model_type": "llama", "vocab_size": 100, **small}))
    assert states(str(file))["format of linears"][0] == "refused"


def test_the_table_is_about_every_kind_of_part():
    assert {what for what, _, _ in support_table()} == {"model", "device", "engine", "drafts", "serving"}


@pytest.mark.parametrize(
    ("model", "state", "how"),
    [
        ("deepseek-ai/DeepSeek-V3", "by hand", "dcp divides all of tp"),
        ("Qwen/Qwen3-30B-A3B", "by hand", "dcp divides tp / 4"),
        ("moonshotai/Kimi-K3", "by hand", "dcp divides all of tp"),
        ("deepseek-ai/DeepSeek-V3.2", "refused", "chosen keys"),
        ("openai/gpt-oss-120b", "refused", "windows"),
    ],
)
def test_whether_a_model_shares_contexts(model, state, how):
    part = next(one for one in supported(model) if one.part == "decode context parallelism")
    assert part.state == state
    assert how in part.how


def test_ways_of_serving_are_listed_with_who_launches_them():
    ways = {name: part for what, name, part in support_table() if what == "serving"}
    assert ways["decode context parallelism (dcp_sizes)"].how.endswith("launched on vllm, sglang")
    assert ways["encoders on devices of their own (encoder_devices)"].how.endswith("launched on sglang")
    assert {part.state for part in ways.values()} == {"by hand", "stated", "fitted", "exact", "measured"}
    assert all("(" in name for name in ways)  # each names its option


def test_options_are_said_of_a_model_a_device_and_an_engine():
    found = {one.part: one for one in supported("zai-org/GLM-5.2", "h200_sxm", "sglang")}
    assert found["two micro-batches"].state == found["copies of experts"].state == "by hand"
    assert found["drafts by glm5.2-mtp"].state == "measured"
    assert "51.2 GB/s" in found["keys in the hosts' memory"].how
    assert "`ssd_gb_per_s`" in found["keys on SSDs"].how
    assert found["encoders on devices of their own, launched"].state == "exact"
    assert "encoders on devices of their own" not in found
    other = {one.part: one for one in supported("Qwen/Qwen3-VL-8B-Instruct", None, "vllm")}
    assert other["two micro-batches"].state == "refused"
    assert other["encoders on devices of their own"].state == "by hand"
    assert other["encoders on devices of their own, launched"].state == "refused"
    assert other["two micro-batches, launched"].state == "exact"
    trtllm = {one.part: one.state for one in supported(None, None, "trtllm")}
    launched = {part for part, state in trtllm.items() if "launched" in part and state != "refused"}
    assert launched == {"pipeline stages, launched"}


@pytest.mark.parametrize(
    ("model", "state"),
    [("deepseek-ai/DeepSeek-V3", "by hand"), ("zai-org/GLM-5.2", "by hand"), ("Qwen/Qwen3.5-397B-A17B", "refused")],
)
def test_whether_prompts_can_be_divided_is_said(model, state):
    (found,) = [part for part in supported(model) if part.part == "prefill context parallelism"]
    assert found.state == state


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["h200_sxm"], (None, "h200_sxm", None)),
        (["H200"], (None, "h200_sxm", None)),
        (["vllm"], (None, None, "vllm")),
        (["sglang", "h100_sxm"], (None, "h100_sxm", "sglang")),
        (["Qwen/Qwen3-8B", "vllm"], ("Qwen/Qwen3-8B", None, "vllm")),
        (["910C"], (None, "ascend_910c", None)),
        (["qwen3-8b", "h100_sxm", "trtllm"], ("Qwen/Qwen3-8B", "h100_sxm", "trtllm")),
    ],
)
def test_any_of_a_model_a_device_and_an_engine_is_named(words, same):
    assert supported_words(words) == supported(*same)


def test_names_that_are_none_are_refused_by_what_they_would_be():
    (refused,) = supported_words(["no-such-thing"])
    assert "unknown model" in refused.how
    with pytest.raises(InputError, match="unknown device 'no-such-thing'"):
        supported_words(["Qwen/Qwen3-8B", "no-such-thing"])
    with pytest.raises(InputError, match="two names of a device: 'h200_sxm' and 'h100_sxm'"):
        supported_words(["h200_sxm", "h100_sxm"])


def test_drafts_are_known_for_other_formats_of_their_model():
    parts = {one.part for one in supported("nvidia/DeepSeek-V4-Pro-NVFP4")}
    assert {"drafts by dsv4-pro-mtp", "drafts by dsv4-pro-0813-dspark"} <= parts
