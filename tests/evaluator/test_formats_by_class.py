"""Weights in each format are those of the modules that a published file says to be in it, counted one by one.

Names of modules and how a list matches them are written out here by themselves, more plainly than the reader's."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from evaluator.evaluate import capture_requests
from evaluator.graph import capture_operators
from evaluator.inputs.architectures import spec_from_config
from evaluator.inputs.devices.device_profiles import load_device
from evaluator.inputs.formats import check_precision, linear_format
from evaluator.inputs.launch import Plan
from evaluator.inputs.model import (
    CompressedAttention,
    DenseMlp,
    GatedDeltaNet,
    GroupedQueryAttention,
    LatentAttention,
    ModelSpec,
    MoeMlp,
)
from evaluator.inputs.workloads.workload import Workload
from evaluator.scenario import Scenario, usual_precision

ROOT = Path(os.environ.get("SWEEPDB_SHARED_DATA", Path(__file__).parents[3] / "shared" / "data")) / "model_configs"


def _quantisation(path: Path) -> dict:
    config = json.loads(path.read_text(encoding="utf-8"))
    return config.get("quantization_config") or config.get("text_config", {}).get("quantization_config") or {}


FILES = [path for path in sorted(ROOT.glob("*--*.json")) if _quantisation(path)]
REFUSED = {"stepfun-ai--Step-3.7-Flash-FP8"}  # whose layers with a window say no heads
# One file of each way to say it is read by default, the others with `pytest -m survival`.
QUICK = {
    "nvidia--Kimi-K2.5-NVFP4", "moonshotai--Kimi-K2.5", "nvidia--Gemma-4-31B-IT-NVFP4", "nvidia--Qwen3.6-27B-NVFP4",
    "openai--gpt-oss-20b", "Qwen--Qwen3-32B-FP8",
}  # fmt: skip
ALGORITHMS = {"NVFP4": "NVFP4", "FP8": "FP8", "MXFP8": "MXFP8", "W4A16_NVFP4": "NVFP4_W4A16"}


def layers_of(spec: ModelSpec, config: dict) -> list:
    """Layers one by one. Those without experts come first, which is how files with both number them; linear states
    stand where the file says."""
    groups = sorted(spec.layers, key=lambda group: isinstance(group.mlp, MoeMlp))
    layers = [group for group in groups for _ in range(group.count)]
    kinds = config.get("text_config", config).get("layer_types", ())
    if "linear_attention" not in kinds:
        return layers
    by_kind = {
        kind: iter([one for one in layers if isinstance(one.attention, GatedDeltaNet) == (kind == "linear_attention")])
        for kind in set(kinds)
    }
    return [next(by_kind[kind]) for kind in kinds]


def of_attention(hidden: int, part) -> dict[str, int]:
    """Weights of the products of one layer that some format may hold; what engines keep in 16 bits is left out."""
    if isinstance(part, LatentAttention):
        rank, head = part.query_lora_rank, part.nope_head_dim + part.rope_head_dim
        queries = {"q_proj": hidden * part.query_heads * head}
        if rank is not None:
            queries = {"q_a_proj": hidden * rank, "q_b_proj": rank * part.query_heads * head}
        indexer = {}
        if part.indexer is not None:
            wide = part.indexer.heads * part.indexer.head_dim
            indexer = {"indexer.wq_b": (rank or hidden) * wide, "indexer.wk": hidden * part.indexer.head_dim}
        compressed = hidden * (part.kv_lora_rank + part.rope_head_dim)
        out = part.query_heads * part.value_head_dim * hidden
        gate = {"g_proj": out} if part.output_gate else {}
        found = {**queries, "kv_a_proj_with_mqa": compressed, "o_proj": out, **gate, **indexer}
        return {f"self_attn.{name}": count for name, count in found.items()}
    if isinstance(part, GroupedQueryAttention):
        queries = part.query_heads * part.head_dim
        found = {
            "q_proj": hidden * queries * (2 if part.output_gate else 1),
            "k_proj": hidden * part.kv_heads * part.head_dim,
            "v_proj": 0 if part.values_are_keys else hidden * part.kv_heads * part.value_width,
            "o_proj": part.query_heads * part.value_width * hidden,
        }
        if part.indexer is not None:
            found["index_q_proj"] = hidden * part.indexer.heads * part.indexer.head_dim
            found["index_k_proj"] = hidden * part.indexer.head_dim
        return {f"self_attn.{name}": count for name, count in found.items()}
    if isinstance(part, GatedDeltaNet):
        values = part.value_heads * part.value_head_dim
        channels = 2 * part.key_heads * part.key_head_dim + values
        if part.decay_rank is not None:  # Kimi Delta Attention, with a gate of full or of low rank
            gate = hidden * values if part.gate_rank is None else part.gate_rank * (hidden + values)
            return {
                "self_attn.q_proj": hidden * channels,
                "self_attn.g_proj": gate,
                "self_attn.o_proj": values * hidden,
            }
        found = {"in_proj_qkv": hidden * channels, "in_proj_z": hidden * values, "out_proj": values * hidden}
        return {f"linear_attn.{name}": count for name, count in found.items()}
    assert isinstance(part, CompressedAttention)
    rank, width = part.query_lora_rank, part.query_heads * part.head_dim
    found = {
        "wq_a": hidden * rank,
        "wq_b": rank * width,
        "wkv": hidden * part.head_dim,
        "wo_a": width * part.output_rank,
        "wo_b": part.output_groups * part.output_rank * hidden,
    }
    if part.indexer is not None:
        found["indexer.wq_b"] = rank * part.indexer.heads * part.indexer.head_dim
    return {f"attn.{name}": count for name, count in found.items()}


def of_mlp(spec: ModelSpec, mlp, style: tuple[str, str, str]) -> dict[str, int]:
    """Weights of an MLP's products, by the names of a family: what holds an MLP, a mixture, and its shared part."""
    dense, mixture, shared = style
    if mlp is None:
        return {}
    if isinstance(mlp, DenseMlp):
        names = ("gate_proj", "up_proj", "down_proj") if mlp.gated else ("up_proj", "down_proj")
        return {f"{dense}.{name}": spec.hidden_size * mlp.intermediate_size for name in names}
    names = ("gate_proj", "up_proj", "down_proj") if mlp.gated else ("up_proj", "down_proj")
    outer = mlp.latent_size or spec.hidden_size
    found = {f"{mixture}.0.{name}": mlp.experts * outer * mlp.intermediate_size for name in names}
    if mlp.shared_intermediate_size:
        found |= {f"{shared}.{name}": spec.hidden_size * mlp.shared_intermediate_size for name in names}
    return found


def style_of(name: str) -> tuple[str, str, str]:
    if "MiniMax" in name:
        return "mlp", "block_sparse_moe.experts", "block_sparse_moe.shared_experts"
    if "DeepSeek-V4" in name:
        return "ffn", "ffn.experts", "ffn.shared_experts"
    if "Gemma-4-26B" in name:
        return "mlp", "experts", "mlp"
    return "mlp", "mlp.experts", "mlp.shared_expert" if "Qwen" in name else "mlp.shared_experts"


def spared(name: str, items: list[str]) -> bool:
    """Whether a list names the module, as a regular expression, with stars, or by its name or that of an outer one."""
    for item in items:
        if item.startswith("re:"):
            if re.match(item[3:], name):
                return True
        elif "*" in item:
            if fnmatch.fnmatch(name, item) or fnmatch.fnmatch(name, f"{item}.*"):
                return True
        elif name == item or name.startswith(f"{item}.") or (item.count(".") == 0 and item in name.split(".")):
            return True
    return False


def format_of(name: str, said: dict, experts_in: str | None) -> str:  # noqa: PLR0911  a way out for each program
    """The format of one module by the rules of the program that wrote the section."""
    method = said.get("quant_method", "")
    block = "FP8_BLOCK" if said.get("weight_block_size") else "FP8"
    if method == "mxfp4":
        return "MXFP4" if ".experts." in name else "BF16"
    if said.get("quant_algo") == "MIXED_PRECISION":
        named = said["quantized_layers"]
        outer = name
        while outer:
            short = re.sub(
                "(gate|up|down)_proj$", lambda match: {"gate": "w1", "up": "w3", "down": "w2"}[match[1]], outer
            )
            for way in (outer, short):
                if way in named:
                    return ALGORITHMS[named[way]["quant_algo"]]
            outer = outer.rpartition(".")[0]
        return block if method == "fp8" else "BF16"
    if groups := said.get("config_groups"):
        if spared(name, said.get("ignore", [])):
            return "BF16"
        weights, inputs = groups["group_0"]["weights"], groups["group_0"].get("input_activations", "said")
        if weights["type"] == "int":
            return f"W4A16_G{weights['group_size']}"
        if weights["num_bits"] == 8:
            return "FP8"
        return {16: "NVFP4", 32: "MXFP4"}[weights["group_size"]] + ("" if inputs is not None else "_W4A16")
    if ".experts." in name and experts_in == "fp4":
        return "MXFP4"
    return "BF16" if spared(name, said.get("modules_to_not_convert", [])) else block


def prefix_of(said: dict) -> str:
    """What stands before `layers` in the names of this file."""
    listed = [*said.get("ignore", []), *said.get("modules_to_not_convert", []), *said.get("quantized_layers", {})]
    found = [match[1] for item in listed if (match := re.match(r"((?!mtp)[a-z_.]*)layers\.\d", item))]
    return found[0] if found else "model."


def modules(name: str, spec: ModelSpec, config: dict, said: dict) -> Iterator[tuple[str, int]]:
    """Every module of the layers and the head, with its weights."""
    for number, layer in enumerate(layers_of(spec, config)):
        found = of_attention(spec.hidden_size, layer.attention) if layer.attention is not None else {}
        found |= of_mlp(spec, layer.mlp, style_of(name))
        yield from ((f"{prefix_of(said)}layers.{number}.{module}", count) for module, count in found.items())
    yield "lm_head", spec.vocab_size * spec.hidden_size


def counted(name: str, spec: ModelSpec, config: dict, said: dict) -> Counter:
    """Weights in each format but 16 bits, module by module."""
    experts_in = {**config, **config.get("text_config", {})}.get("expert_dtype")
    found: Counter = Counter()
    for module, count in modules(name, spec, config, said):
        kept = "lm_head" in module and "lm_head" not in said.get("quantized_layers", {})
        form = "BF16" if kept else format_of(module, said, experts_in)
        found[form] += count
    del found["BF16"]
    return +found


def captured(spec: ModelSpec) -> Counter:
    """Weights in each format but 16 bits, of the operators of a decode on one device."""
    scenario = Scenario(
        model=spec,
        device=load_device("TEST_DEVICE"),
        precision=check_precision(usual_precision(spec, "physical")),
        plan=Plan(),
        workload=Workload(input_length=64, output_length=2.0),
        phase="decode",
    )
    found: Counter = Counter()
    for operator in capture_operators(capture_requests(scenario)["decode"]).operators:
        form = operator.weight_format
        if form in {"", "BF16"} or not operator.weight_bytes:
            continue
        known = linear_format(form)
        bits = Fraction(known.weight_bits) + Fraction(known.scale_bits_per_weight)
        copies = operator.experts.local_experts if operator.per_expert else 1
        found[form] += operator.count * copies * Fraction(operator.weight_bytes) * 8 / bits
        if operator.experts is not None and any(getattr(group.mlp, "expert_bias", False) for group in spec.layers):
            wide = 2 * operator.experts.intermediate_size if operator.experts.role == "gate_up" else spec.hidden_size
            found[form] -= operator.count * operator.experts.local_experts * wide * 16 / bits  # biases are in 16 bits
    return +found


def _cases():
    for path in FILES:
        if path.stem not in REFUSED:
            yield pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.survival)


@pytest.mark.skipif(not FILES, reason="comparison data not found")
@pytest.mark.parametrize("path", list(_cases()))
def test_weights_in_each_format_are_those_of_the_modules(path):
    config = json.loads(path.read_text(encoding="utf-8"))
    spec = spec_from_config(config, path.name)
    assert captured(spec) == counted(path.stem, spec, config, _quantisation(path))
