"""End to end on this machine: time kernels with torch, fit a profile, predict a real transformer's steps, then run
them.

The transformer is made here with random weights; its steps are timed with the threads the kernels were timed with."""

import statistics
import time

import pytest

from evaluator.capture import CaptureRequest, capture
from evaluator.cost.calibrated import calibrated_cost
from evaluator.model import DenseMlp, GroupedQueryAttention, LayerGroup, ModelSpec
from evaluator.plan import Plan
from evaluator.precision import Format
from evaluator.step import step_seconds
from evaluator.sums import repeated, request_sums

torch = pytest.importorskip("torch")
functional = torch.nn.functional

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, INNER, LAYERS, VOCAB = 1024, 16, 4, 64, 2816, 6, 8192
HALF = Format(name="BF16", compute="bf16", weight_bits=16, activation_bits=16)
MODEL = ModelSpec(
    architecture="toy",
    hidden_size=HIDDEN,
    vocab_size=VOCAB,
    layers=(
        LayerGroup(
            count=LAYERS,
            attention=GroupedQueryAttention(query_heads=HEADS, kv_heads=KV_HEADS, head_dim=HEAD_DIM),
            mlp=DenseMlp(intermediate_size=INNER),
        ),
    ),
)
PREFILLS = [(1, 32), (1, 128), (1, 384), (2, 64), (2, 192), (4, 96)]
DECODES = [(1, 64), (1, 1024), (2, 256), (4, 512), (8, 128), (8, 768), (16, 256)]


class Layer:
    """Weights of one decoder layer, and its caches of keys and values."""

    def __init__(self, generator, batch, context):
        def weight(*shape):
            return (torch.randn(shape, generator=generator) / shape[-1] ** 0.5).to(torch.bfloat16)

        self.query, self.output = weight(HEADS * HEAD_DIM, HIDDEN), weight(HIDDEN, HEADS * HEAD_DIM)
        self.key, self.value = (weight(KV_HEADS * HEAD_DIM, HIDDEN) for _ in range(2))
        self.gate, self.up, self.down = weight(INNER, HIDDEN), weight(INNER, HIDDEN), weight(HIDDEN, INNER)
        self.norms = [torch.ones(HIDDEN, dtype=torch.bfloat16) for _ in range(2)]
        self.keys, self.values = (torch.randn(batch, KV_HEADS, context, HEAD_DIM).to(torch.bfloat16) for _ in range(2))


def norm(x, weight):
    wide = x.to(torch.float32)
    return weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


def rotated(x, cosine, sine):
    half = HEAD_DIM // 2
    return x * cosine + torch.cat((-x[..., half:], x[..., :half]), dim=-1) * sine


class Decoder:
    """A Llama-like decoder in eager torch: what a step of it costs is what is predicted."""

    def __init__(self, batch, new, context):
        generator = torch.Generator().manual_seed(0)
        self.batch, self.new, self.context = batch, new, context
        self.layers = [Layer(generator, batch, context + new) for _ in range(LAYERS)]
        self.embedding = torch.randn(VOCAB, HIDDEN, generator=generator).to(torch.bfloat16)
        self.head = (torch.randn(VOCAB, HIDDEN, generator=generator) / HIDDEN**0.5).to(torch.bfloat16)
        self.tables = [torch.randn(context + new, HEAD_DIM, generator=generator).to(torch.bfloat16) for _ in range(2)]
        self.ids = torch.randint(0, VOCAB, (batch, new), generator=generator)
        self.positions = torch.arange(context, context + new)

    def attention(self, layer, x, tables):
        shape = (self.batch, self.new, -1, HEAD_DIM)
        query = functional.linear(x, layer.query).view(shape).transpose(1, 2)
        key = functional.linear(x, layer.key).view(shape).transpose(1, 2)
        value = functional.linear(x, layer.value).view(shape).transpose(1, 2)
        query, key = rotated(query, *tables), rotated(key, *tables)
        layer.keys[:, :, self.context :] = key
        layer.values[:, :, self.context :] = value
        out = functional.scaled_dot_product_attention(
            query, layer.keys, layer.values, is_causal=self.new > 1, enable_gqa=True
        )
        return functional.linear(out.transpose(1, 2).reshape(self.batch, self.new, HEADS * HEAD_DIM), layer.output)

    def step(self):
        x = functional.embedding(self.ids, self.embedding)
        tables = [table[self.positions] for table in self.tables]
        for layer in self.layers:
            x = x + self.attention(layer, norm(x, layer.norms[0]), tables)
            h = norm(x, layer.norms[1])
            h = functional.silu(functional.linear(h, layer.gate)) * functional.linear(h, layer.up)
            x = x + functional.linear(h, layer.down)
        last = norm(x, self.embedding[0].abs())[:, -1]
        return functional.linear(last, self.head)


def measured_seconds(batch, new, context):
    """Median of at least five steps after a warm-up; about a second."""
    decoder = Decoder(batch, new, context)
    decoder.step()
    taken, end = [], time.perf_counter() + 1.0
    while len(taken) < 5 or (len(taken) < 40 and time.perf_counter() < end):
        start = time.perf_counter()
        decoder.step()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def operators(trace):
    return capture(
        CaptureRequest(model=MODEL, plan=Plan(), linear=HALF, experts=HALF, kv_bits=16, trace=trace, compile=False)
    )


@pytest.mark.survival
def test_predicted_steps_of_a_real_transformer_land_within_thirty_percent():
    from evaluator.calibration.bench import threads
    from evaluator.calibration.measure import measure, measured_profile

    told = []
    measured = measure("cpu", budget_s=45.0, progress=lambda share, kind: told.append((share, kind)), cpu_threads=1)
    assert told[-1][0] <= 1.0
    assert {kind for _, kind in told} == {"gemm", "attn_prefill", "attn_decode", "elementwise"}
    profile, calibration = measured_profile(measured, "this_machine")
    assert calibration.source.startswith("cpu kernels timed with torch")
    cost = calibrated_cost(profile)
    errors = []
    with threads(1), torch.inference_mode():
        for trace, grid in (("prefill", PREFILLS), ("decode", DECODES)):
            traced = operators(trace)
            for batch, length in grid:
                new, context = (length, 0) if trace == "prefill" else (1, length)
                sums = repeated(request_sums(new, context), batch)
                predicted = float(step_seconds(traced, cost, sums).total)
                seen = measured_seconds(batch, new, context)
                errors.append((trace, batch, length, predicted / seen - 1))
                print(
                    f"{trace} batch {batch} length {length}: predicted {predicted * 1e3:.2f} ms, measured {seen * 1e3:.2f} ms"
                )
    for trace in ("prefill", "decode"):
        assert statistics.median(abs(error) for name, *_, error in errors if name == trace) < 0.30, errors
