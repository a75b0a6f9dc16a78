"""Weights, KV cache and activations by hand, and the batch sizes worth storing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from evaluator_cases import (
    DEEPSEEK_V3,
    GPT_OSS_20B,
    LLAMA_31_8B,
    OPT_125M,
    QWEN3_30B_A3B,
    QWEN3_32B,
    TEST_DEVICE,
    W8A8,
    both_traces,
    captured,
    gqa,
    one_group,
)

from evaluator.evaluate import evaluate_scenario
from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.formats import BF16, Precision
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import DenseMlp
from evaluator.inputs.workloads.workload import Workload
from evaluator.pricing.memory import activation_bytes, kv_bytes, transfer_bytes, weight_bytes
from evaluator.scenario import Scenario
from evaluator.serving.occupancy import memory_bytes
from evaluator.together.ranges import batch_range


def scenario(model=QWEN3_32B, plan=Plan(tp=8), phase="decode", **changes):  # noqa: B008  frozen
    workload = Workload(
        **{"input_length": 3500, "output_length": 1500.0, **{k: v for k, v in changes.items() if k in WORKLOAD}}
    )
    rest = {k: v for k, v in changes.items() if k not in WORKLOAD}
    return Scenario(
        model=model,
        plan=plan,
        phase=phase,
        workload=workload,
        **{"device": TEST_DEVICE, "precision": Precision(linear="W8A8_DYNAMIC"), **rest},
    )


WORKLOAD = {
    "input_length",
    "output_length",
    "max_batched_tokens",
    "mtp_tokens",
    "mtp_acceptance",
    "prefix_cache_hit_rate",
}


def test_weights_of_a_dense_model():
    # 16 bits: 64 (5120 x 10240 + 8192 x 5120 + 3 x 5120 x 25600 + 2 x 5120 + 2 x 128) + 2 x 151936 x 5120 + 5120
    parameters = 64 * (5120 * 10240 + 8192 * 5120 + 3 * 5120 * 25600 + 2 * 5120 + 256) + 2 * 151936 * 5120 + 5120
    assert parameters == 32_762_123_264  # the published 32.8B
    assert weight_bytes(captured(QWEN3_32B), drafting=False) == 2 * parameters
    # tp 8: everything but the embedding, the norms of width 5120 and those of a head is an eighth
    shared = 151936 * 5120 + 5120 + 64 * (2 * 5120 + 256)
    assert weight_bytes(captured(QWEN3_32B, Plan(tp=8)), drafting=False) == 2 * (shared + (parameters - shared) // 8)


@pytest.mark.parametrize(("engine", "tables"), [("vllm", 8), ("sglang", 8), ("trtllm", 1), ("waves", 1)])
def test_ranks_of_vllm_and_sglang_share_the_table_of_the_vocabulary(engine, tables):
    # VocabParallelEmbedding: of 151,936 rows of 5,120 in 16 bits, 1,555,824,640 B, a rank of eight holds an eighth.
    table, norms = 2 * 151936 * 5120, 2 * (5120 + 64 * (2 * 5120 + 256))
    rest = 2 * 32_762_123_264 - table - norms
    operators = both_traces(QWEN3_32B, Plan(tp=8), linear=BF16)
    run = scenario(serving_model=engine, precision=Precision())
    (held,) = evaluate_scenario(run, np.asarray([1]), operators).weight_bytes
    assert held == rest // 8 + norms + table // tables


@pytest.mark.parametrize(
    ("model", "published"),
    [(LLAMA_31_8B, 8_030_261_248), (QWEN3_30B_A3B, 30_532_122_624), (OPT_125M, 125_239_296)],
)
def test_sixteen_bit_weights_are_the_published_parameters(model, published):
    assert weight_bytes(captured(model), drafting=False) == pytest.approx(2 * published, rel=1e-5)


def test_draft_modules_are_loaded_only_where_they_run():
    operators = captured(DEEPSEEK_V3, Plan(tp=8, ep=8), "decode", linear=W8A8)
    extra = weight_bytes(operators, drafting=True) - weight_bytes(operators, drafting=False)
    # One expert layer: 32 of 256 experts of 3 x 7168 x 2048 bytes are 1.41 GB; the rest is below 0.5 GB
    assert 32 * 3 * 7168 * 2048 < extra < 32 * 3 * 7168 * 2048 + 500_000_000


def test_the_fullest_stage_counts():
    operators = captured(QWEN3_32B, Plan(pp=4))
    layer = 5120 * 10240 + 8192 * 5120 + 3 * 5120 * 25600 + 2 * 5120 + 256
    # 16 layers each; the last stage adds the final norm to the head of 151936 x 5120
    assert weight_bytes(operators, drafting=False) == 2 * (16 * layer + 151936 * 5120 + 5120)


def cache(model, plan, tokens, requests, **options):
    options = {"kv_bits": 16, "paging": "per_request", "drafting": False, **options}
    kv_bits = options.pop("kv_bits")
    return float(kv_bytes(model, plan, kv_bits, np.asarray(float(tokens)), np.asarray(float(requests)), **options))


def test_kv_cache_in_blocks_of_128():
    token = 64 * 2 * 128 * 2  # tp 8: one KV head
    # 4251 tokens are 34 blocks each; pooled, 16 requests are 68016 tokens, 532 blocks
    assert cache(QWEN3_32B, Plan(tp=8), 4251, 16) == 16 * 34 * 128 * token
    assert cache(QWEN3_32B, Plan(tp=8), 4251, 16, paging="pooled") == 532 * 128 * token
    assert cache(QWEN3_32B, Plan(tp=8), 4251, 16, kv_bits=8) == 16 * 34 * 128 * token // 2
    assert cache(QWEN3_32B, Plan(tp=16), 4251, 16) == 16 * 34 * 128 * token  # KV heads replicate
    assert cache(QWEN3_32B, Plan(tp=2, pp=4), 4251, 16) == 16 * 34 * 128 * token  # a quarter of the layers, 4 heads


def test_latent_caches_hold_one_vector_a_token():
    # 61 layers x (512 + 64) x 2 bytes = 70,272 a token, on every tensor-parallel rank; 62 layers with the draft module
    assert cache(DEEPSEEK_V3, Plan(tp=8, ep=8), 128, 1) == 128 * 70_272
    assert cache(DEEPSEEK_V3, Plan(tp=8, ep=8), 128, 1, drafting=True) == 128 * 70_272 * 62 // 61


def test_sliding_windows_keep_their_window():
    # 12 layers keep 128 tokens, 12 keep all 1280: 8 KV heads x 64 x 2 x 2 bytes = 2048 a token and layer
    assert cache(GPT_OSS_20B, Plan(), 1280, 1) == 12 * 2048 * (128 + 1280)
    assert transfer_bytes(GPT_OSS_20B, 16, 1280.0) == 12 * 2048 * (128 + 1280)


def test_a_transfer_moves_each_head_once():
    # OPT-175B: 96 layers x 2 x 12288 x 2 bytes = 4,718,592 bytes a token (seed 003)
    opt_175b = one_group("opt", 12288, 50272, 96, gqa(96, 96, 128), DenseMlp(intermediate_size=49152, gated=False))
    assert transfer_bytes(opt_175b, 16, 2048.0) == 2048 * 4_718_592
    block = evaluate_scenario(scenario(), np.asarray([1]), both_traces(QWEN3_32B, Plan(tp=8), linear=W8A8))
    assert block.kv_bytes_per_request[0] == 3500 * 64 * 2 * 8 * 128 * 2


def test_activations_are_a_few_times_the_widest_tensor():
    operators = captured(QWEN3_32B, Plan(tp=8), linear=W8A8)
    sums = repeated(request_sums(3500.0, 0.0), 4.0)
    # gate and up of 2 x 3200 and their product of 3200, 16 bits: 19,200 bytes a token, beside the residual of 10,240
    # and what is quantised of it
    per_token = float(activation_bytes(operators, sums)) / 14000
    assert 19_200 + 10_240 <= per_token <= 60_000


def test_one_batch_holds_prompts_in_flight():
    operators = both_traces(QWEN3_32B, Plan(tp=8), linear=W8A8)
    block = evaluate_scenario(scenario(phase="prefill", max_batched_tokens=14000), np.asarray([1, 4, 9, 64]), operators)
    token, blocks = 64 * 2 * 128 * 2, 28 * 128
    assert list(block.kv_cache_bytes) == [blocks * token * n for n in (1, 4, 4, 4)]  # 14000 // 3500 prompts a wave
    assert (block.kv_cache_bytes == block.kv_cache_mean_bytes).all()


def test_full_and_mean_charges():
    operators = both_traces(QWEN3_32B, Plan(tp=8), linear=W8A8)
    block = evaluate_scenario(scenario(), np.asarray([10]), operators)
    token = 64 * 2 * 128 * 2
    assert block.kv_cache_bytes[0] == 10 * 40 * 128 * token  # 5000 tokens: 40 blocks
    assert block.kv_cache_mean_bytes[0] == 10 * 34 * 128 * token  # 4250 tokens: 34 blocks


def test_batches_end_an_eighth_beyond_what_fits():
    operators = both_traces(QWEN3_32B, Plan(tp=8), linear=W8A8)
    chosen = scenario()
    found = batch_range(chosen, operators)
    block = evaluate_scenario(chosen, np.arange(1, found.last + 1), operators)
    used = block.weight_bytes + block.kv_cache_mean_bytes + block.activation_bytes
    assert used[found.largest_fitting - 1] <= TEST_DEVICE.memory_bytes < used[found.largest_fitting]
    assert found.last == found.largest_fitting + -(-found.largest_fitting // 8)
    # 64 GiB less 5.3 GiB of weights, 34 blocks of 4 MiB a request: 445 and a little activation
    assert 430 <= found.largest_fitting <= 445


def test_prefill_batches_end_at_64_waves():
    operators = both_traces(QWEN3_32B, Plan(tp=8), linear=W8A8)
    assert batch_range(scenario(phase="prefill", max_batched_tokens=14000), operators).last == 64 * 4
    assert batch_range(scenario(phase="prefill", input_length=20, max_batched_tokens=8192), operators).last == 8192


def test_a_model_that_does_not_fit_keeps_one_batch_size():
    operators = both_traces(QWEN3_32B, Plan())
    small = replace(TEST_DEVICE, memory_bytes=8 * 2**30)
    chosen = scenario(plan=Plan(), device=small, precision=Precision())
    found = batch_range(chosen, operators)
    assert (found.largest_fitting, found.last) == (0, 1)


def test_memory_is_what_the_block_says():
    from evaluator.evaluate import batch_source, cost_model
    from evaluator.serving.interface import Run

    chosen = scenario(phase="aggregated")
    operators = both_traces(QWEN3_32B, Plan(tp=8), linear=W8A8)
    run = Run(
        scenario=chosen,
        operators=operators,
        source=batch_source(chosen),
        cost=cost_model(TEST_DEVICE, "physical"),
        batch_sizes=np.asarray([3, 30]),
    )
    memory, block = memory_bytes(run), evaluate_scenario(chosen, np.asarray([3, 30]), operators)
    assert memory.used("full") == pytest.approx(block.weight_bytes + block.kv_cache_bytes + block.activation_bytes)
    assert (memory.used("mean") <= memory.used("full")).all()
