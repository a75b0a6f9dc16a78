"""Hugging Face's own classes on the meta device as the oracle: same FLOPs and bytes of linears, attention and experts."""

from __future__ import annotations

import collections
import functools
from dataclasses import replace

import pytest
import torch
from evaluator_cases import ATTENTION_KINDS, MODELS, captured
from restated import config_of
from torch.utils._python_dispatch import TorchDispatchMode

from evaluator.graph.sums import repeated, request_sums
from evaluator.inputs.launch import Plan

TOKENS = 64
CONFIGS = {
    "Qwen3-32B": "Qwen/Qwen3-32B",
    "Qwen3-30B-A3B": "Qwen/Qwen3-30B-A3B",
    "Llama-3.1-8B": "meta-llama/Meta-Llama-3.1-8B",
    "Mixtral-8x7B": "mistralai/Mixtral-8x7B-v0.1",
    "DeepSeek-V3": "deepseek-ai/DeepSeek-V3",
    "gpt-oss-20b": "openai/gpt-oss-20b",
}


class Products(TorchDispatchMode):
    """Shapes of matrix products, with how often each runs: linears (m, k, n, bias), batched (batch, m, k, n)."""

    def __init__(self):
        super().__init__()
        self.linears, self.batched = collections.Counter(), collections.Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func._schema.name
        if name == "aten::mm":
            self.linears[*args[0].shape, args[1].shape[1], False] += 1
        elif name == "aten::addmm":
            self.linears[*args[1].shape, args[2].shape[1], True] += 1
        elif name == "aten::bmm":
            self.batched[*args[0].shape, args[1].shape[2]] += 1
        return result


@functools.cache
def oracle(name):
    """(products of a two-layer model over one prompt of 64 tokens, its parameters by kind)."""
    transformers = pytest.importorskip("transformers", minversion="5.0")
    config = config_of(CONFIGS[name])
    config.pop("quantization_config", None)
    config["num_hidden_layers"] = 2
    if "first_k_dense_replace" in config:
        config["first_k_dense_replace"] = 1
    if config.get("layer_types"):
        config["layer_types"] = config["layer_types"][:2]
    parsed = transformers.AutoConfig.for_model(**config)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(
            parsed, attn_implementation="eager", dtype=torch.bfloat16, experts_implementation="batched_mm"
        )
        ids = torch.empty(1, TOKENS, dtype=torch.long)
        mask = torch.empty(1, 1, TOKENS, TOKENS, dtype=torch.bfloat16)  # given, so that nothing is read off its values
    with torch.no_grad(), Products() as products:
        model.eval()(input_ids=ids, attention_mask=mask, use_cache=False)
    experts = sum(p.numel() for key, p in model.named_parameters() if ".experts." in key)
    everything = sum(p.numel() for p in model.parameters())
    return products, experts, everything


@functools.cache
def ours(name, *, compiled=False):
    spec = MODELS[name]
    layers = tuple(replace(group, count=2 if len(spec.layers) == 1 else 1) for group in spec.layers)
    return captured(replace(spec, layers=layers, mtp_layers=0), Plan(), "prefill", compile=compiled)


def sums():
    # The classes compute the full square of scores and logits of every token.
    return repeated(request_sums(float(TOKENS), 0.0, square=True, logits=float(TOKENS)), 1.0)


def is_expert(operator):
    return operator.experts is not None


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_linears_are_the_same_products(name):
    products, _, _ = oracle(name)
    got = collections.Counter()
    for operator in ours(name).operators:
        if operator.kind == "gemm" and not is_expert(operator):
            rows = int(operator.gemm.m.at(sums()))
            bias = operator.weight_bytes > 2 * operator.gemm.n * operator.gemm.k
            got[rows, operator.gemm.k, operator.gemm.n, bias] += operator.count
    assert _without_router_bias(got) == _without_router_bias(products.linears)


def _without_router_bias(linears):
    # DeepSeek adds its router's correction after the product, which is a bias all the same.
    merged = collections.Counter()
    for (rows, depth, columns, bias), count in linears.items():
        merged[rows, depth, columns, bias and columns != 256] += count
    return merged


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_flops_and_bytes_of_linears(name, compiled):
    products, _, _ = oracle(name)
    linears = [(*shape, count) for shape, count in products.linears.items()]
    flops = sum(2 * m * k * n * count for m, k, n, _, count in linears)
    weights = sum((k * n + n * bias) * 2 * count for _, k, n, bias, count in linears)
    results = sum(2 * m * n * count for m, _, n, _, count in linears)
    chosen = [one for one in ours(name, compiled=compiled).operators if one.kind == "gemm" and not is_expert(one)]
    assert sum(float(one.matrix_flops.at(sums())) * one.count for one in chosen) == flops
    # One more bias row: DeepSeek's router correction
    assert sum(float(one.bytes_read.constant) * one.count for one in chosen) == pytest.approx(weights, abs=2 * 256)
    assert sum(float(one.bytes_written.at(sums())) * one.count for one in chosen) == results


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_attention_flops_and_bytes(name):
    products, _, _ = oracle(name)
    scores = {shape: count for shape, count in products.batched.items() if TOKENS in shape[1:3] and shape[0] <= 128}
    flops = sum(2 * b * m * k * n * count for (b, m, k, n), count in scores.items())
    chosen = [one for one in ours(name).operators if one.kind in ATTENTION_KINDS]
    # A sliding window of 128 covers 64 tokens whole; a sink adds one score a head, which is no product.
    assert sum(float(one.matrix_flops.at(sums())) * one.count for one in chosen) == flops
    for one in chosen:
        extents = one.attention
        heads, width = extents.query_heads, extents.head_dim
        stored = extents.kv_heads * (extents.head_dim + extents.value_head_dim) * TOKENS * 2
        assert float(one.bytes_read.at(sums())) == TOKENS * heads * width * 2 + stored
        assert float(one.bytes_written.at(sums())) == TOKENS * heads * extents.value_head_dim * 2


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", ["Qwen3-30B-A3B", "Mixtral-8x7B", "DeepSeek-V3", "gpt-oss-20b"])
def test_expert_flops_and_bytes(name, compiled):
    products, parameters, _ = oracle(name)
    assignments = {TOKENS * MODELS[name].layers[-1].mlp.experts_per_token}
    experts = [(shape, count) for shape, count in products.batched.items() if shape[0] in assignments]
    flops = sum(2 * b * m * k * n * count for (b, m, k, n), count in experts)
    assert experts
    chosen = [one for one in ours(name, compiled=compiled).operators if is_expert(one) and one.gemm is not None]
    mlp = MODELS[name].layers[-1].mlp
    # Eager operators are one expert's: a token of the batch is experts_per_token tokens of experts.
    share = mlp.experts_per_token if not compiled else 1
    got = sum(float(one.matrix_flops.at(sums())) * one.count * share for one in chosen)
    assert got == flops
    copies = 1 if compiled else mlp.experts
    assert sum(one.weight_bytes * one.count * copies for one in chosen) == 2 * parameters
    if compiled:
        assert sum(one.expert_bytes * one.count for one in chosen) * mlp.experts == 2 * parameters


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_weights_are_those_of_the_class(name):
    _, _, everything = oracle(name)
    resident = sum(one.count * one.weight_bytes for one in ours(name, compiled=True).operators)
    assert resident == pytest.approx(2 * everything, rel=1e-4)
