"""A Llama-like decoder in eager torch with random weights, and the operators our capture says it has. Not a test."""

import time
from dataclasses import dataclass

import torch
from torch.nn import functional

from evaluator.graph.capture import CaptureRequest, capture_operators
from evaluator.inputs.formats import Format
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LayerGroup, ModelSpec

HALF = Format(name="BF16", compute="bf16", weight_bits=16, activation_bits=16)


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Extents of the decoder."""

    hidden: int = 1024
    heads: int = 16
    kv_heads: int = 4
    head_dim: int = 64
    inner: int = 2816
    layers: int = 6
    vocabulary: int = 8192


SIZES = {
    "cpu": (
        Shape(),
        {
            "prefill": [(1, 32), (1, 128), (1, 384), (2, 64), (2, 192), (4, 96)],
            "decode": [(1, 64), (1, 1024), (2, 256), (4, 512), (8, 128), (8, 768), (16, 256)],
        },
    ),
    "cuda": (
        Shape(hidden=4096, heads=32, kv_heads=8, head_dim=128, inner=14336, layers=8, vocabulary=32768),
        {
            "prefill": [(1, 128), (1, 512), (1, 2048), (1, 8192), (4, 512), (4, 2048), (16, 256)],
            "decode": [(1, 512), (1, 8192), (4, 2048), (16, 1024), (16, 8192), (64, 512), (64, 4096), (256, 1024)],
        },
    ),
}


class Layer:
    """Weights of one decoder layer, and its caches of keys and values."""

    def __init__(self, shape, batch, context, device):
        def weight(*extents):
            return (torch.randn(extents, device=device) / extents[-1] ** 0.5).to(torch.bfloat16)

        width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.query, self.output = weight(width, shape.hidden), weight(shape.hidden, width)
        self.key, self.value = weight(kv_width, shape.hidden), weight(kv_width, shape.hidden)
        self.gate, self.up = weight(shape.inner, shape.hidden), weight(shape.inner, shape.hidden)
        self.down = weight(shape.hidden, shape.inner)
        self.norms = [torch.ones(shape.hidden, dtype=torch.bfloat16, device=device) for _ in range(2)]
        cache = (batch, shape.kv_heads, context, shape.head_dim)
        self.keys, self.values = (torch.randn(cache, device=device, dtype=torch.bfloat16) for _ in range(2))


def norm(x, weight):
    """RMS norm as eager Hugging Face code has it: eight launches."""
    wide = x.to(torch.float32)
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotated(x, cosine, sine):
    """Rotary embedding: five launches."""
    half = x.shape[-1] // 2
    return x * cosine + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sine


class Decoder:
    """`new` tokens of each of `batch` sequences after `context` cached ones."""

    def __init__(self, shape, batch, new, context, device):
        torch.manual_seed(0)
        self.shape, self.batch, self.new, self.context = shape, batch, new, context
        self.layers = [Layer(shape, batch, context + new, device) for _ in range(shape.layers)]
        vocabulary = (shape.vocabulary, shape.hidden)
        self.embedding = torch.randn(vocabulary, device=device).to(torch.bfloat16)
        self.head = (torch.randn(vocabulary, device=device) / shape.hidden**0.5).to(torch.bfloat16)
        table = (context + new, shape.head_dim)
        self.tables = [torch.randn(table, device=device).to(torch.bfloat16) for _ in range(2)]
        self.ids = torch.randint(0, shape.vocabulary, (batch, new), device=device)
        self.positions = torch.arange(context, context + new, device=device)
        self.last = torch.ones(shape.hidden, dtype=torch.bfloat16, device=device)

    def attention(self, layer, x, tables):
        heads = (self.batch, self.new, -1, self.shape.head_dim)
        query = functional.linear(x, layer.query).view(heads).transpose(1, 2)
        key = functional.linear(x, layer.key).view(heads).transpose(1, 2)
        value = functional.linear(x, layer.value).view(heads).transpose(1, 2)
        query, key = rotated(query, *tables), rotated(key, *tables)
        layer.keys[:, :, self.context :] = key
        layer.values[:, :, self.context :] = value
        out = functional.scaled_dot_product_attention(
            query, layer.keys, layer.values, is_causal=self.new > 1, enable_gqa=True
        )
        return functional.linear(out.transpose(1, 2).reshape(self.batch, self.new, -1), layer.output)

    def step(self):
        x = functional.embedding(self.ids, self.embedding)
        tables = [table[self.positions] for table in self.tables]
        for layer in self.layers:
            x = x + self.attention(layer, norm(x, layer.norms[0]), tables)
            h = norm(x, layer.norms[1])
            h = functional.silu(functional.linear(h, layer.gate)) * functional.linear(h, layer.up)
            x = x + functional.linear(h, layer.down)
        return functional.linear(norm(x, self.last)[:, -1], self.head)


def measured_seconds(shape, batch, new, context, kind):
    """Shortest of at least five steps after a warm-up, about half a second; on CUDA as a graph, as serving engines run it."""
    decoder = Decoder(shape, batch, new, context, kind)
    run = decoder.step
    run()
    if kind == "cuda":
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            decoder.step()

        def run():
            graph.replay()
            torch.cuda.synchronize()

        run()
    # One CPU thread: its own time is the wall time less what other programs took from it.
    clock = time.thread_time if kind == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    taken, end = [], time.perf_counter() + 0.5
    while len(taken) < 5 or (len(taken) < 40 and time.perf_counter() < end):
        start = clock()
        run()
        taken.append(clock() - start)
    return min(taken)


def operators(shape, trace):
    """The operators of the same decoder, as captured."""
    attention = GroupedQueryAttention(query_heads=shape.heads, kv_heads=shape.kv_heads, head_dim=shape.head_dim)
    layers = LayerGroup(count=shape.layers, attention=attention, mlp=DenseMlp(intermediate_size=shape.inner))
    model = ModelSpec(architecture="toy", hidden_size=shape.hidden, vocab_size=shape.vocabulary, layers=(layers,))
    request = CaptureRequest(
        model=model, plan=Plan(), linear=HALF, experts=HALF, kv_bits=16, trace=trace, compile=False
    )
    return capture_operators(request)
