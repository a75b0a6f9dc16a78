"""Rows that no server can produce, by data sheets alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import Precision
from evaluator.inputs.launch import Client, Plan
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LayerGroup, ModelSpec
from evaluator.ledger.deployments import Deployment
from evaluator.ledger.limits import (
    TOO_FAST_PROMPTS,
    TOO_LARGE,
    TOO_MANY_BYTES,
    TOO_MANY_OPERATIONS,
    impossible,
    least_step_s,
    seats_in_memory,
)
from evaluator.ledger.matching import measured_model, measured_precision
from evaluator.ledger.scenarios import scenario_of

# One layer of 1024: attention 4 x 1024^2, feed-forward 3 x 1024 x 4096, a vocabulary of 1,000.
MODEL = ModelSpec(
    architecture="made up",
    hidden_size=1024,
    vocab_size=1000,
    layers=(
        LayerGroup(
            count=1,
            attention=GroupedQueryAttention(query_heads=8, kv_heads=8, head_dim=128),
            mlp=DenseMlp(intermediate_size=4096),
        ),
    ),
)
WEIGHTS = 4 * 1024**2 + 3 * 1024 * 4096  # 16,777,216
NORMS = 3 * 1024


def deployment(**changes: object) -> Deployment:
    point = Deployment(
        model_name="m", model=MODEL, device=load_device("h100_sxm", family="theoretical"), precision=Precision(),
        plan=Plan(), engine="vllm", mode="aggregated", input_length=1000, output_length=200, users=4,
    )  # fmt: skip
    return replace(point, **changes)


def test_a_step_reads_weights_and_keys_once():
    # 16,777,216 weights and 4 users x 1,100 tokens x 2 x 1,024 keys and values, 2 bytes each, at 3.35 TB/s
    least = (2 * WEIGHTS + 4 * 1100 * 2 * 1024 * 2) / 3.35e12
    assert least_step_s(deployment()) == pytest.approx(least)
    halved = deployment(plan=Plan(tp=2))
    assert least_step_s(halved) == pytest.approx(least / 2)
    assert least_step_s(deployment(client=Client(shortest=0.5))) < least
    assert impossible(deployment(), {"tpot_exclusive_ms": 0.999e3 * least}) == TOO_MANY_BYTES
    assert impossible(deployment(), {"tpot_exclusive_ms": 1.001e3 * least}) is None


def test_users_beyond_what_memory_holds_wait():
    # 80 GiB less some 40 MB of weights, nine tenths: 77.28e9 bytes. A request of 10,000 tokens and half of 2,000 keeps
    # 11,000 x 2 x 1,024 keys and values of 2 bytes, 45,056,000 bytes: 1,715 of them; with all of its answer 1,572.
    long = {"input_length": 10_000, "output_length": 2000}
    assert seats_in_memory(deployment(**long, users=1716)) == 1715
    assert seats_in_memory(deployment(**long, users=1715)) is None
    assert seats_in_memory(deployment(**long, users=1716), whole=True) == 1572
    assert seats_in_memory(deployment(**long, users=3431, plan=Plan(dp=2))) == 1715  # 1,716 on the fuller replica
    # TensorRT-LLM's checkpoints may bring keys of one byte, of which 77.27e9 bytes hold twice as many.
    assert seats_in_memory(deployment(**long, users=3430, engine="trtllm")) is None
    assert seats_in_memory(deployment(**long, users=3431, engine="trtllm")) == 3430
    assert scenario_of(deployment(**long, users=1716), "asked").launch.seats == 1715
    assert scenario_of(deployment(**long, users=1716, mode="decode"), "asked").launch.seats is None
    batch = deployment(**long, users=1716, batched=True)  # which no question says
    assert [scenario_of(batch, one).launch.seats for one in ("asked", "known")] == [1715, 1572]


def test_old_vllm_keeps_memory_for_a_prompt_as_long_as_the_context():
    # A token has 2 x 1,024 + 3 x 4,096 numbers of 2 bytes alive, 28,672 bytes, and keeps 4,096 of keys and values. Of
    # 77.28e9 bytes a context of 131,072 tokens takes 3.76e9; the rest holds 1,631 requests of 45,056,000. Without an
    # end contexts may be as long as what is left holds: 77.28e9 / 32,768 tokens, whose keys are an eighth: 214.
    old = {"input_length": 10_000, "output_length": 2000, "users": 1716, "engine": "vllm_v0"}
    assert seats_in_memory(deployment(**old, model=replace(MODEL, max_positions=131_072))) == 1631
    assert seats_in_memory(deployment(**old)) == 214


def test_llama_405b_in_eight_bits_fills_eight_h100():
    """What dstack measured: 61.0e9 bytes of weights a device (its log says 56.77 GiB), a context of 91,680 tokens started, and
    requests of 4,096 tokens were served no faster from between 16 and 32 on."""
    name, model = measured_model("meta-llama/Llama-3.1-405B-Instruct")
    plan, eight_bits = Plan(tp=8), measured_precision(model, "fp8", None, name=name)
    batch = deployment(model=model, precision=eight_bits, plan=plan, engine="vllm_v0", input_length=2048,
                       output_length=2048, users=256)  # fmt: skip
    seats = seats_in_memory(batch, whole=True)
    assert seats is not None
    assert 91_680 / 4096 < seats < 32


def deep(layers: int) -> ModelSpec:
    return replace(MODEL, layers=(replace(MODEL.layers[0], count=layers),))


def test_memory_is_shared_as_each_engine_shares_it():
    # 1,200 layers are 40.3e9 bytes of 85.9e9, and a request of 1,000 + 100 tokens keeps 1,200 x 4,096 bytes of each,
    # 5.41e9. vLLM leaves 0.9 x 85.9 - 40.3 = 37.0e9 to keys, 6 requests; others 0.9 x (85.9 - 40.3) = 41.1e9, 7.
    assert seats_in_memory(deployment(model=deep(1200), users=64)) == 6
    assert seats_in_memory(deployment(model=deep(1200), users=64, engine="sglang")) == 7


def test_weights_must_leave_a_twentieth_of_the_memory():
    # 33.6e6 bytes a layer: 2,400 are 80.5e9 of 85.9e9, 94 %; 2,450 are 82.2e9, 96 %, and half of that on each of two.
    assert impossible(deployment(model=deep(2400)), {}) is None
    assert impossible(deployment(model=deep(2450)), {}) == TOO_LARGE
    assert impossible(deployment(model=deep(2450), plan=Plan(tp=2)), {}) is None


def test_prompts_stay_below_the_peak():
    # 2 x 1,000 tokens x 16.78 M weights over 989 TFLOP/s are 34 us
    alone = 1e3 * 2 * 1000 * (WEIGHTS + NORMS) / 989e12
    assert impossible(deployment(), {"ttft_ms": 0.99 * alone}) == TOO_FAST_PROMPTS
    assert impossible(deployment(), {"ttft_ms": 1.01 * alone}) is None
    batch = deployment(mode="prefill")
    assert impossible(batch, {"prefill_latency_ms": 0.99 * 4 * alone}) == TOO_FAST_PROMPTS
    assert impossible(batch, {"prefill_latency_ms": 1.01 * 4 * alone}) is None


def test_rates_stay_below_the_peak():
    one = 2 * 1200 * (WEIGHTS + NORMS)
    assert impossible(deployment(), {"requests_per_s": 1.01 * 989e12 / one}) == TOO_MANY_OPERATIONS
    assert impossible(deployment(), {"output_tokens_per_s": 0.99 * 989e12 / one * 200}) is None
