"""Number formats that published weights come in, from the quantization section of their config.json.

Not here: formats that are evaluated (evaluator.inputs.formats)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# ModelOpt's names of what it did. One that is not here is kept as it is: asking for NATIVE then names it in an error.
_MODELOPT = {
    "FP8": "FP8",
    "FP8_PER_CHANNEL_PER_TOKEN": "FP8",
    "FP8_PB_WO": "FP8_BLOCK",
    "FP8_PB_REAL": "FP8_BLOCK",
    "NVFP4": "NVFP4",
    "NVFP4_AWQ": "NVFP4",
    "W4A16": "W4A16",
    "W4A16_AWQ": "W4A16",
    "W4A16_GPTQ": "W4A16",
    "W8A16": "W8A16_STATIC",
}
_LONGEST_NAME = 64


def native_formats(quantisation: object) -> tuple[str, str]:
    """(linears, experts) of weights with this quantization_config; BF16 where there is none."""
    if not isinstance(quantisation, Mapping):
        return "BF16", "BF16"
    method = quantisation.get("quant_method")
    if method == "fp8":
        name = "FP8_BLOCK" if quantisation.get("weight_block_size") else "FP8"
        return name, name
    if method == "mxfp4":  # gpt-oss: experts only
        return "BF16", "MXFP4"
    if method in ("awq", "gptq") and quantisation.get("bits") == 4:
        return "W4A16", "W4A16"
    groups = quantisation.get("config_groups")
    if isinstance(groups, Mapping) and groups:
        group = next(iter(groups.values()))
        weights = group.get("weights") if isinstance(group, Mapping) else None
        weights = weights if isinstance(weights, Mapping) else {}
        by_bits = {"4": "NVFP4" if weights.get("type") == "float" else "W4A16", "8": "FP8"}
        name = by_bits.get(str(weights.get("num_bits")), "BF16")
        return ("BF16" if _spares_attention(quantisation.get("ignore")) else name), name
    return _modelopt(quantisation) if quantisation.get("quant_algo") else ("BF16", "BF16")


def native_kv_cache(quantisation: object) -> str:
    """Format of the KV cache that weights with this quantization_config ask for; DISABLED (16 bits) where none is."""
    if not isinstance(quantisation, Mapping):
        return "DISABLED"
    scheme = quantisation.get("kv_cache_scheme")  # compressed-tensors
    if isinstance(scheme, Mapping):
        return f"{'FP' if scheme.get('type') == 'float' else 'INT'}{scheme.get('num_bits')}"[:_LONGEST_NAME]
    return str(quantisation.get("kv_cache_quant_algo") or "DISABLED").upper()[:_LONGEST_NAME]  # ModelOpt


def _modelopt(quantisation: Mapping[str, Any]) -> tuple[str, str]:
    """(linears, experts) of a quantization section without groups: one algorithm, or one a layer."""
    layers = quantisation.get("quantized_layers")
    if quantisation["quant_algo"] != "MIXED_PRECISION" or not isinstance(layers, Mapping):
        name = _algorithm(quantisation)
        return ("BF16" if _spares_attention(quantisation.get("exclude_modules")) else name), name
    kinds: dict[bool, list[str]] = {False: [], True: []}
    for layer, how in layers.items():
        kinds[".experts" in str(layer)].append(_algorithm(how) if isinstance(how, Mapping) else "BF16")
    linear, experts = (max(sorted(set(names)), key=names.count, default="BF16") for names in kinds.values())
    return linear, experts if kinds[True] else linear


def _algorithm(quantisation: Mapping[str, Any]) -> str:
    algorithm = str(quantisation.get("quant_algo"))
    return _MODELOPT.get(algorithm.upper(), algorithm)[:_LONGEST_NAME]


def _spares_attention(ignored: object) -> bool:
    return isinstance(ignored, list) and any("self_attn" in str(item) for item in ignored)
