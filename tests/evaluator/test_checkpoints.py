"""Checkpoints of one model in several formats, and the bytes of their weights."""

from __future__ import annotations

import pytest

from evaluator.inputs import Precision, bytes_of_weights, checkpoints_of, load_model, published_as, published_bytes

LLAMA = "meta-llama/Llama-3.1-405B-Instruct"
# 126 layers: an MLP of three products 16384 x 53248; attention of q and o (16384 x 16384), k and v (16384 x 1024).
MLPS = 126 * 3 * 16384 * 53248
ATTENTION = 126 * 2 * 16384 * (16384 + 1024)
REST = 2 * 128256 * 16384 + (2 * 126 + 1) * 16384  # embedding and head, norms


@pytest.mark.parametrize(
    ("name", "size"),
    [
        (LLAMA, 2 * (MLPS + ATTENTION + REST)),  # 812 GB
        ("meta-llama/Llama-3.1-405B-Instruct-FP8", MLPS + 2 * (ATTENTION + REST)),  # attention stays in 16 bits
        ("nvidia/Llama-3.1-405B-Instruct-FP8", MLPS + ATTENTION + 2 * REST),
    ],
)
def test_weights_take_the_bytes_of_each_part(name, size):
    assert published_bytes(load_model(name)[1]) == size


def test_experts_and_their_scales_have_a_format_of_their_own():
    """gpt-oss-120b: 36 layers of 128 experts, each three products 2880 x 2880, in MXFP4: 4.25 bits a weight."""
    spec = load_model("openai/gpt-oss-120b")[1]
    experts = 36 * 128 * 3 * 2880 * 2880
    wide = bytes_of_weights(spec, Precision(linear="BF16", experts="BF16"))
    assert wide - published_bytes(spec) == pytest.approx(experts * (16 - 4.25) / 8, rel=1e-9)


def test_a_model_is_launched_by_the_checkpoint_in_its_formats():
    assert {name for name, _ in checkpoints_of(LLAMA)} == {
        LLAMA,
        "meta-llama/Llama-3.1-405B-Instruct-FP8",
        "nvidia/Llama-3.1-405B-Instruct-FP8",
    }
    assert published_as(LLAMA, Precision(linear="FP8", experts="FP8")) == "nvidia/Llama-3.1-405B-Instruct-FP8"
    own = Precision(linear="FP8", experts="FP8", mixers="BF16")
    assert published_as(LLAMA, own) == "meta-llama/Llama-3.1-405B-Instruct-FP8"
    assert published_as("nvidia/Llama-3.1-405B-Instruct-FP8", Precision()) == LLAMA
    assert published_as(LLAMA, Precision(linear="W4A16")) == LLAMA  # nobody published it so: the engine quantises
    assert published_as("/models/own", Precision(linear="FP8")) == "/models/own"
