"""Models, devices and operators for tests of the evaluator, stated by hand: published hyper-parameters and
data-sheet figures."""

from __future__ import annotations

import functools

from restated import rows

from evaluator.graph.capture import CaptureRequest, capture_operators
from evaluator.inputs.devices.device import DeviceProfile, Link
from evaluator.inputs.formats import Format
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import DenseMlp, GroupedQueryAttention, LatentAttention, LayerGroup, ModelSpec, MoeMlp

BF16 = Format(name="BF16", compute="bf16", weight_bits=16, activation_bits=16)
W8A8 = Format(name="W8A8_DYNAMIC", compute="int8", weight_bits=8, activation_bits=8, dynamic=True)
W4A8 = Format(
    name="W4A8_DYNAMIC", compute="int8", weight_bits=4, activation_bits=8, dynamic=True, dequantise_weight=True
)
ATTENTION_KINDS = {"attention_prefill", "attention_decode", "mla_prefill", "mla_decode"}


def gqa(query_heads: int, kv_heads: int, head_dim: int, **options) -> GroupedQueryAttention:
    return GroupedQueryAttention(query_heads=query_heads, kv_heads=kv_heads, head_dim=head_dim, **options)


def one_group(architecture, hidden, vocab, count, attention, mlp, **options) -> ModelSpec:  # noqa: PLR0917
    group = LayerGroup(count=count, attention=attention, mlp=mlp)
    return ModelSpec(
        architecture=architecture,
        hidden_size=hidden,
        vocab_size=vocab,
        layers=(group,),
        **{"max_positions": 40960, **options},
    )


QWEN3_32B = one_group("qwen3", 5120, 151936, 64, gqa(64, 8, 128, qk_norm="per_head"), DenseMlp(intermediate_size=25600))
QWEN3_30B_A3B = one_group(
    "qwen3_moe",
    2048,
    151936,
    48,
    gqa(32, 4, 128, qk_norm="per_head"),
    MoeMlp(experts=128, experts_per_token=8, intermediate_size=768),
)
LLAMA_31_8B = one_group("llama", 4096, 128256, 32, gqa(32, 8, 128), DenseMlp(intermediate_size=14336))
MIXTRAL_8X7B = one_group(
    "mixtral", 4096, 32000, 32, gqa(32, 8, 128), MoeMlp(experts=8, experts_per_token=2, intermediate_size=14336)
)
_MLA = LatentAttention(
    query_heads=128, query_lora_rank=1536, kv_lora_rank=512, nope_head_dim=128, rope_head_dim=64, value_head_dim=128
)
_DEEPSEEK_MOE = MoeMlp(
    experts=256, experts_per_token=8, intermediate_size=2048, shared_intermediate_size=2048, router_bias=True
)
DEEPSEEK_V3 = ModelSpec(
    architecture="deepseek_v3",
    hidden_size=7168,
    vocab_size=129280,
    max_positions=163840,
    mtp_layers=1,
    layers=(
        LayerGroup(count=3, attention=_MLA, mlp=DenseMlp(intermediate_size=18432)),
        LayerGroup(count=58, attention=_MLA, mlp=_DEEPSEEK_MOE),
    ),
)
_OSS_ATTENTION = gqa(64, 8, 64, qkv_bias=True, output_bias=True, sinks=True)
_OSS_MOE = MoeMlp(experts=32, experts_per_token=4, intermediate_size=2880, expert_bias=True, router_bias=True)
GPT_OSS_20B = ModelSpec(
    architecture="gpt_oss",
    hidden_size=2880,
    vocab_size=201088,
    max_positions=131072,
    layers=(
        LayerGroup(count=12, attention=_OSS_ATTENTION, mlp=_OSS_MOE, window=128),
        LayerGroup(count=12, attention=_OSS_ATTENTION, mlp=_OSS_MOE),
    ),
)
OPT_125M = one_group(
    "opt",
    768,
    50272,
    12,
    gqa(12, 12, 64, qkv_bias=True, output_bias=True),
    DenseMlp(intermediate_size=3072, gated=False, bias=True),
    norm="layer",
    position="learned",
    learned_positions=2050,
    tie_word_embeddings=True,
)
MODELS = {
    "Qwen3-32B": QWEN3_32B,
    "Qwen3-30B-A3B": QWEN3_30B_A3B,
    "Llama-3.1-8B": LLAMA_31_8B,
    "Mixtral-8x7B": MIXTRAL_8X7B,
    "DeepSeek-V3": DEEPSEEK_V3,
    "gpt-oss-20b": GPT_OSS_20B,
    "opt-125m": OPT_125M,
}

# The seeds' TEST_DEVICE: 247.73 effective TFLOPS at 16 bits, 0.96 TiB/s, a full mesh of 8 below a grid of 256.
TEST_DEVICE = DeviceProfile(
    name="TEST_DEVICE",
    vendor="TEST_VENDOR",
    family="theoretical",
    matrix_flops_per_s=(
        ("fp32", 99.5e12), ("bf16", 353.9e12), ("fp16", 353.9e12), ("int8", 707.8e12), ("fp8", 707.8e12), ("fp4", 1415.6e12),
    ),
    vector_flops_per_s=(("fp32", 5.5e12), ("bf16", 11.0e12), ("fp16", 11.0e12)),
    memory_bytes=64 * 2**30,
    memory_bandwidth_bytes_per_s=1.6 * 2**40,
    grid=(256, 8),
    links=(
        Link(bandwidth_bytes_per_s=50e9, latency_s=10e-6, efficiency=0.7),
        Link(bandwidth_bytes_per_s=196e9, latency_s=1.3e-6, efficiency=0.7, topology="full_mesh"),
    ),
    compute_efficiency=0.7,
    memory_efficiency=0.6,
    matrix_static_s=5e-6,
    vector_static_s=2e-6,
    communication_static_s=0.0,
)  # fmt: skip


@functools.cache
def upstream_device(name: str) -> DeviceProfile:
    row = next(row for row in rows("upstream_devices") if row["device"] == name)
    return DeviceProfile(
        name=name,
        vendor=row["vendor"],
        family="theoretical",
        matrix_flops_per_s=_rates(row, "matrix"),
        vector_flops_per_s=_rates(row, "vector"),
        memory_bytes=int(row["memory_bytes"]),
        memory_bandwidth_bytes_per_s=float(row["memory_bytes_per_s"]),
        grid=tuple(map(int, row["grid"].split("x"))),
        links=tuple(map(_link, row["links"].split("; "))),
        compute_efficiency=float(row["compute_share"]),
        memory_efficiency=float(row["memory_share"]),
        matrix_static_s=float(row["matrix_static_s"]),
        vector_static_s=float(row["vector_static_s"]),
        communication_static_s=float(row["communication_static_s"]),
    )


def _rates(row: dict[str, str], unit: str) -> tuple[tuple[str, float], ...]:
    columns = {f"{unit}_{dtype}_tflops": dtype for dtype in ("fp32", "bf16", "fp16", "int8", "fp8", "fp4")}
    return tuple((dtype, float(row[column]) * 1e12) for column, dtype in columns.items() if row.get(column))


def _link(text: str) -> Link:
    bandwidth, latency, efficiency, topology = text.split()
    return Link(
        bandwidth_bytes_per_s=float(bandwidth),
        latency_s=float(latency),
        efficiency=float(efficiency),
        topology=topology,
    )


@functools.cache
def captured(model: ModelSpec, plan: Plan = Plan(), trace="prefill", linear=BF16, experts=None, **options):  # noqa: B008
    options = {"kv_bits": 16, "compile": True, "convention": "physical", **options}
    return capture_operators(
        CaptureRequest(model=model, plan=plan, linear=linear, experts=experts or linear, trace=trace, **options)
    )


def both_traces(model: ModelSpec, plan: Plan, **options):
    return {trace: captured(model, plan, trace, **options) for trace in ("prefill", "decode")}
