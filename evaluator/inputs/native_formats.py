"""Number formats that published weights come in, from the quantization section of their config.json.

Not here: formats that are evaluated (evaluator.inputs.formats)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evaluator.inputs.yaml_file import shortened

# ModelOpt's names of what it did. One that is not here is kept as it is: asking for NATIVE then names it in an error.
_MODELOPT = {
    "FP8": "FP8",
    "FP8_PER_CHANNEL_PER_TOKEN": "FP8",
    "FP8_PB_WO": "FP8_BLOCK",
    "FP8_PB_REAL": "FP8_BLOCK",
    "NVFP4": "NVFP4",
    "NVFP4_AWQ": "NVFP4",
    "W4A16_NVFP4": "NVFP4_W4A16",
    "W4A16": "W4A16",
    "W4A16_AWQ": "W4A16",
    "W4A16_GPTQ": "W4A16",
    "W8A16": "W8A16_STATIC",
}
_LONGEST_NAME = 64
_UNSAID = object()
_OF_FEW_WEIGHTS = re.compile(r"lm_head|shared_expert")  # whose format hardly matters beside that of the rest
_IN_NAMES = re.compile(r"(?i)(?<![a-z0-9])(nvfp4|mxfp4|mxfp8|fp4|fp8|int4|int8|w4a16|w4a8|w8a8|awq|gptq)(?![a-z0-9])")
# Lists of what is not quantised: whole modules end in their name, or in a star or dots behind it.
_WHOLE_ATTENTION = re.compile(r"self_attn[\\.*]*$")
_PART_OF_ATTENTION = re.compile(r"self_attn\.(qkv|q|k|v|o)(?:_[ab])?_proj")
_WHOLE_EXPERTS = re.compile(r"(?<![a-z_])experts[\\.*]*$")
BY_NAME = "by name only: "  # before a format that a name says, and no file


def native_formats(quantisation: object) -> tuple[str, str]:
    """(linears, experts) of weights with this quantization_config; BF16 where there is none.

    What is not known is named as the file names it, so that asking for NATIVE is an error with that name."""
    if not isinstance(quantisation, Mapping):
        return "BF16", "BF16"
    groups = quantisation.get("config_groups")
    if quantisation.get("quant_algo") == "MIXED_PRECISION" and quantisation.get("quantized_layers"):
        return _modelopt(quantisation)  # which says more than groups beside it
    if isinstance(groups, Mapping) and groups:
        return _compressed(groups.values(), quantisation.get("ignore"))
    if quantisation.get("quant_algo"):
        return _modelopt(quantisation)
    return _by_method(quantisation, str(quantisation.get("quant_method") or "").lower())


def named_format(name: str) -> str | None:
    """The number format that the name of a model or its file says, such as NVFP4."""
    found = _IN_NAMES.search(name)
    return found[0].upper() if found else None


def _by_method(quantisation: Mapping[str, Any], method: str) -> tuple[str, str]:
    bits = quantisation.get("bits")
    if method == "mxfp4":  # gpt-oss: experts only
        return "BF16", "MXFP4"
    if method == "mxfp8":
        name = "MXFP8"
    elif method == "fp8":
        name = "FP8_BLOCK" if quantisation.get("weight_block_size") else "FP8"
    elif method in {"awq", "gptq"} and bits == 4:
        name = _int4_weights(quantisation.get("group_size"))
    elif method in {"", "modelopt"}:  # nothing was said to be quantised
        name = "BF16"
    else:
        name = (f"{method}, {shortened(bits)} bits" if bits is not None else method)[:_LONGEST_NAME]
    return _apart(name, quantisation)


def _int4_weights(group: object) -> str:
    """Weights of four bits beside 16-bit activations, by how many share a scale; 128 where nothing is said."""
    if group is None or group == 128:
        return "W4A16"
    return "W4A16_G32" if group == 32 else f"W4A16 in groups of {shortened(group)}"[:_LONGEST_NAME]


def _compressed(groups: Iterable[object], ignored: object) -> tuple[str, str]:
    """(linears, experts) of compressed-tensors: schemes, each with the layers that it holds for."""
    schemes = [group for group in groups if isinstance(group, Mapping)]
    if len(schemes) <= 1:
        name = _scheme(schemes[0]) if schemes else "BF16"
        return ("BF16" if _spares_attention(ignored) else name), name
    kinds: dict[bool, list[str]] = {False: [], True: []}
    for scheme in schemes:
        targets = scheme.get("targets")
        for target in targets if isinstance(targets, list) else ():
            kinds[".experts" in str(target)].append(_scheme(scheme))
    return _usual(kinds)


def _scheme(scheme: Mapping[str, Any]) -> str:
    """The format of one scheme: weights by type, width and group, beside activations of 16 bits or narrower."""
    weights, inputs = scheme.get("weights"), scheme.get("input_activations", _UNSAID)
    weights = weights if isinstance(weights, Mapping) else {}
    kind, bits, group = weights.get("type"), weights.get("num_bits"), weights.get("group_size")
    alone = inputs is None  # said to be none: only weights are narrow
    dynamic = isinstance(inputs, Mapping) and bool(inputs.get("dynamic"))
    inner = inputs.get("num_bits") if isinstance(inputs, Mapping) else None
    if kind == "float" and bits == 8 and not alone:
        return "FP8_BLOCK" if weights.get("strategy") == "block" or weights.get("block_structure") else "FP8"
    if kind == "float" and bits == 4:
        narrow = "MXFP4" if group == 32 else "NVFP4"
        return f"{narrow}_W4A16" if alone else narrow
    if kind == "int" and bits == 4:
        return f"W4A8_{'DYNAMIC' if dynamic else 'STATIC'}" if inner == 8 else _int4_weights(group)
    if kind == "int" and bits == 8:
        return "W8A16_STATIC" if alone else f"W8A8_{'DYNAMIC' if dynamic else 'STATIC'}"
    return f"{shortened(kind)} of {shortened(bits)} bits"[:_LONGEST_NAME] if bits is not None else "BF16"


def native_kv_cache(quantisation: object) -> str:
    """Format of the KV cache that weights with this quantization_config ask for; DISABLED (16 bits) where none is."""
    if not isinstance(quantisation, Mapping):
        return "DISABLED"
    scheme = quantisation.get("kv_cache_scheme")  # compressed-tensors
    if isinstance(scheme, str) and scheme:  # ModelOpt writes its own name there, too
        return scheme.upper()[:_LONGEST_NAME]
    if isinstance(scheme, Mapping):
        return f"{'FP' if scheme.get('type') == 'float' else 'INT'}{scheme.get('num_bits')}"[:_LONGEST_NAME]
    return str(quantisation.get("kv_cache_quant_algo") or "DISABLED").upper()[:_LONGEST_NAME]  # ModelOpt


def _modelopt(quantisation: Mapping[str, Any]) -> tuple[str, str]:
    """(linears, experts) of a quantization section without groups: one algorithm, or one a layer."""
    layers = quantisation.get("quantized_layers")
    if quantisation["quant_algo"] != "MIXED_PRECISION" or not isinstance(layers, Mapping):
        name = _algorithm(quantisation)
        return ("BF16" if _spares_attention(quantisation.get("exclude_modules")) else name), name
    # Linears that no layer names are as the method beside says.
    rest = _by_method(quantisation, str(quantisation.get("quant_method") or "").lower())[0]
    kinds: dict[bool, list[str]] = {False: [], True: []}
    for layer, how in layers.items():
        if not _OF_FEW_WEIGHTS.search(str(layer)):
            kinds[".experts" in str(layer)].append(_algorithm(how) if isinstance(how, Mapping) else "BF16")
    return _usual({**kinds, False: kinds[False] or [rest]})


def _usual(kinds: Mapping[bool, Sequence[str]]) -> tuple[str, str]:
    """The format of linears, all of them where they differ, and of most experts (True) where any are named."""
    often = [name for name in sorted(set(kinds[False])) if 10 * kinds[False].count(name) > len(kinds[False])]
    linear = " and ".join(often)[:_LONGEST_NAME] or "BF16"
    experts = max(sorted(set(kinds[True])), key=kinds[True].count, default="BF16")
    return linear, experts if kinds[True] else linear


def _algorithm(quantisation: Mapping[str, Any]) -> str:
    algorithm = str(quantisation.get("quant_algo"))
    return _MODELOPT.get(algorithm.upper(), algorithm)[:_LONGEST_NAME]


def _apart(name: str, quantisation: Mapping[str, Any]) -> tuple[str, str]:
    """(linears, experts) of weights in one format, but for modules that are said to be left as they are."""
    spared = quantisation.get("modules_to_not_convert")
    linear = "BF16" if _spares_attention(spared) else name
    if linear == name and _parts_of_attention(spared):
        linear = f"{name} without parts of attention"[:_LONGEST_NAME]
    return linear, "BF16" if _any_of(_WHOLE_EXPERTS, spared) else name


def _spares_attention(ignored: object) -> bool:
    """Whether all of attention is left out: by its name, or by queries and outputs."""
    return _any_of(_WHOLE_ATTENTION, ignored) or {"q", "o"} <= _parts_of_attention(ignored)


def _parts_of_attention(ignored: object) -> set[str]:
    """Projections of attention by their first letters, q, k, v and o; what MLA expands is in 16 bits everywhere."""
    items = ignored if isinstance(ignored, list) else []
    found = [match[1] for item in items if (match := _PART_OF_ATTENTION.search(str(item)))]
    return {"q" if part.startswith("q") else part for part in found}


def _any_of(pattern: re.Pattern[str], items: object) -> bool:
    return isinstance(items, list) and any(pattern.search(str(item)) for item in items)
