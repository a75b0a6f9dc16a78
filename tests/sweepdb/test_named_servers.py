"""Servers of measured settings as stored rows name them."""

import pytest

from queries.measured_rows import StatedServer, as_stated
from sweepdb.own_runs import server_of

STATED = StatedServer(
    model="Qwen3-8B-FP8", device="h100_sxm", serving_model="vLLM", engine_version="0.21", phase="aggregated",
    linear_quantization="fp8", attention_quantization="fp8", num_devices=2, tp=2, pp=1, dp=1, ep=1, decode_instances=1,
    prefill_instances=None, prefill_tp=None,
)  # fmt: skip


def test_names_and_formats_are_those_of_the_catalogue():
    found = server_of(STATED)
    assert (found.model, found.device, found.serving_model) == ("Qwen/Qwen3-8B", "h100_sxm", "vllm")
    assert (found.linear_quantization, found.attention_quantization) == ("FP8", "FP8")
    assert found.model_key is not None


def test_replicas_of_attention_follow_from_the_split_of_experts():
    found = server_of(STATED._replace(model="deepseek-ai/DeepSeek-R1", num_devices=8, tp=1, ep=8))
    assert (found.tp, found.dp, found.ep, found.moe_tp) == (1, 8, 8, 1)


@pytest.mark.parametrize("change", [{"model": "mine"}, {"linear_quantization": "int3"}, {"device": "toaster"}])
def test_what_nobody_knows_keeps_the_words_of_its_source(change):
    one = STATED._replace(**change)
    for name in change:
        assert getattr(server_of(one), name) == getattr(as_stated(one), name)
