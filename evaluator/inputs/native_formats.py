"""Formats of published weights, from quantization_config.

Excluded modules are names, beginnings, stars or regular expressions; engines match each in its own way."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from evaluator.inputs.formats import BLOCK_COLUMNS
from evaluator.inputs.yaml_file import shortened
from store.light_dataclass import dataclass

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
_BLOCK = [BLOCK_COLUMNS["FP8_BLOCK"]] * 2
_FP4_GROUPS = (None, 16, 32)  # NVFP4 where nothing is said, NVFP4, MXFP4
_UNSAID = object()
_FEW = 0.1  # of layers: less decides no format of a part
# The part that a module of a list belongs to, the first that fits.
_PARTS = {
    "head": re.compile(r"(?:^|\.)(?:lm_)?head$"),
    "drafts": re.compile(r"(?:^|\.)mtp"),
    "shared": re.compile(r"shared_expert"),
    "experts": re.compile(r"(?:^|[.*])experts(?:[.\\*]|$)"),
    "mixers": re.compile(r"(?:^|[.*])(?:self_attn|linear_attn|attn|mixer)(?:[.\\*]|$)"),
    "mlp": re.compile(r"(?:^|[.*])(?:mlp|ffn)(?:[.\\*]|$)"),
}
_IN_NAMES = re.compile(r"(?i)(?<![a-z0-9])(nvfp4|mxfp4|mxfp8|fp4|fp8|int4|int8|w4a16|w4a8|w8a8|awq|gptq)(?![a-z0-9])")
_PART_OF_ATTENTION = re.compile(r"self_attn\.(qkv|q|k|v|o)(?:_[ab])?_proj")
BY_NAME = "by name only: "  # before a format that a name says, and no file


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightParts:
    """Dense layers by number, kinds of experts, and layers."""

    layers: int = 1
    dense: int = 0  # the first layers, without experts
    shared: bool = False
    routed: bool = True
    beside: bool = False  # what is shared is a dense MLP beside the experts (Gemma 4)


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeFormats:
    """None: mixers and drafts as linears, the head in 16 bits.

    Linears are dense MLPs and shared experts, and mixers without a format of their own."""

    linear: str = "BF16"
    experts: str = "BF16"
    mixers: str | None = None
    head: str | None = None
    drafts: str | None = None


def native_formats(quantisation: object, parts: WeightParts) -> NativeFormats:
    """BF16 where there is none; an unknown name is kept, so that asking for NATIVE names it."""
    if not isinstance(quantisation, Mapping):
        return NativeFormats()
    groups = quantisation.get("config_groups")
    if quantisation.get("quant_algo") == "MIXED_PRECISION" and quantisation.get("quantized_layers"):
        return _by_layers(quantisation, parts)  # which says more than groups beside it
    if isinstance(groups, Mapping) and groups:
        return _compressed(groups.values(), quantisation.get("ignore"), parts)
    if quantisation.get("quant_algo"):
        return _apart(_algorithm(quantisation), quantisation.get("exclude_modules"), parts)
    return _by_method(quantisation, parts)


def named_format(name: str) -> str | None:
    found = _IN_NAMES.search(name)
    return found[0].upper() if found else None


def _by_method(quantisation: Mapping[str, Any], parts: WeightParts) -> NativeFormats:
    method = str(quantisation.get("quant_method") or "").lower()
    if method == "mxfp4":  # gpt-oss: experts only
        return NativeFormats(experts="MXFP4")
    return _apart(_method(quantisation, method), quantisation.get("modules_to_not_convert"), parts)


def _method(quantisation: Mapping[str, Any], method: str) -> str:
    bits = quantisation.get("bits")
    if method == "mxfp8":
        return "MXFP8"
    if method in {"fp8", "fbgemm_fp8"}:
        return _fp8_weights(quantisation.get("weight_block_size"))
    if method in {"awq", "gptq"} and bits == 4:
        return _int4_weights(quantisation.get("group_size"))
    if method in {"", "modelopt"}:  # nothing was said to be quantised
        return "BF16"
    return (f"{method}, {shortened(bits)} bits" if bits is not None else method)[:_LONGEST_NAME]


def _fp8_weights(block: object) -> str:
    if not block:
        return "FP8"
    return "FP8_BLOCK" if block == _BLOCK else f"FP8 in blocks of {shortened(block)}"[:_LONGEST_NAME]


def _int4_weights(group: object) -> str:
    """128 weights share a scale where nothing is said."""
    if group is None or group == 128:
        return "W4A16"
    return "W4A16_G32" if group == 32 else f"W4A16 in groups of {shortened(group)}"[:_LONGEST_NAME]


def _compressed(groups: Iterable[object], ignored: object, parts: WeightParts) -> NativeFormats:
    schemes = [group for group in groups if isinstance(group, Mapping)]
    if len(schemes) <= 1:
        return _apart(_scheme(schemes[0]) if schemes else "BF16", ignored, parts)
    named = [
        (str(target), _scheme(scheme))
        for scheme in schemes
        for target in (scheme["targets"] if isinstance(scheme.get("targets"), list) else ())
    ]
    return _of_modules(named, "BF16", ignored, parts)


def _scheme(scheme: Mapping[str, Any]) -> str:
    """By type, width and group of weights, and width of activations."""
    weights, inputs = scheme.get("weights"), scheme.get("input_activations", _UNSAID)
    weights = weights if isinstance(weights, Mapping) else {}
    kind, bits, group = weights.get("type"), weights.get("num_bits"), weights.get("group_size")
    alone = inputs is None  # said to be none: only weights are narrow
    dynamic = isinstance(inputs, Mapping) and bool(inputs.get("dynamic"))
    inner = inputs.get("num_bits") if isinstance(inputs, Mapping) else None
    if kind == "float" and bits == 8 and not alone:
        return _fp8_weights(weights.get("block_structure") or (_BLOCK if weights.get("strategy") == "block" else None))
    if kind == "float" and bits == 4 and group in _FP4_GROUPS:
        narrow = "MXFP4" if group == 32 else "NVFP4"
        return f"{narrow}_W4A16" if alone else narrow
    if kind == "int" and bits == 4:
        return f"W4A8_{'DYNAMIC' if dynamic else 'STATIC'}" if inner == 8 else _int4_weights(group)
    if kind == "int" and bits == 8:
        return "W8A16_STATIC" if alone else f"W8A8_{'DYNAMIC' if dynamic else 'STATIC'}"
    said = f"{shortened(kind)} of {shortened(bits)} bits"
    if kind == "float" and bits == 4:
        said += f" in groups of {shortened(group)}"
    return said[:_LONGEST_NAME] if bits is not None else "BF16"


def native_kv_cache(quantisation: object) -> str:
    """DISABLED (16 bits) where nothing is asked for."""
    if not isinstance(quantisation, Mapping):
        return "DISABLED"
    scheme = quantisation.get("kv_cache_scheme")  # compressed-tensors
    if isinstance(scheme, str) and scheme:  # ModelOpt writes its own name there, too
        return scheme.upper()[:_LONGEST_NAME]
    if isinstance(scheme, Mapping):
        return f"{'FP' if scheme.get('type') == 'float' else 'INT'}{scheme.get('num_bits')}"[:_LONGEST_NAME]
    return str(quantisation.get("kv_cache_quant_algo") or "DISABLED").upper()[:_LONGEST_NAME]  # ModelOpt


def _by_layers(quantisation: Mapping[str, Any], parts: WeightParts) -> NativeFormats:
    layers = quantisation["quantized_layers"]
    rest = _method(quantisation, str(quantisation.get("quant_method") or "").lower())
    if not isinstance(layers, Mapping):
        return _apart(_algorithm(quantisation), quantisation.get("exclude_modules"), parts)
    named = [(str(name), _algorithm(how) if isinstance(how, Mapping) else "BF16") for name, how in layers.items()]
    # What is spared beside a method of the whole is spared of the algorithms here, and stays as that method made it.
    ignored = quantisation.get("ignore") if rest == "BF16" else None
    return _of_modules(named, rest, ignored, parts)


def _of_modules(named: Iterable[tuple[str, str]], rest: str, ignored: object, parts: WeightParts) -> NativeFormats:
    kinds: dict[str, list[str]] = {}
    for name, form in named:
        kinds.setdefault(_part_of(name), []).append(form)
    every = kinds.get("")  # schemes of all linears
    usual = _often(every) if every else rest
    mixers, linear = (_often(kinds[part]) if part in kinds else usual for part in ("mixers", "mlp"))
    experts = max(sorted(set(kinds["experts"])), key=kinds["experts"].count) if "experts" in kinds else usual
    drafts = "BF16" if spared_modules(ignored).drafts(parts.layers) else None
    head = _often(kinds["head"]) if "head" in kinds else None
    if "mlp" not in kinds and "mixers" in kinds and not every and rest == "BF16":
        linear = mixers  # a file that names what mixes tokens and experts alone has no MLP beside them
    return _as_parts(linear, experts, mixers, parts, head=head, drafts=drafts)


def _part_of(name: str) -> str:
    found = next((part for part, pattern in _PARTS.items() if pattern.search(name)), "")
    return "mlp" if found == "shared" else found


def _often(names: Sequence[str]) -> str:
    often = [name for name in sorted(set(names)) if 10 * names.count(name) > len(names)]
    return " and ".join(often)[:_LONGEST_NAME] or "BF16"


def _algorithm(quantisation: Mapping[str, Any]) -> str:
    algorithm = str(quantisation.get("quant_algo"))
    return _MODELOPT.get(algorithm.upper(), algorithm)[:_LONGEST_NAME]


def _apart(name: str, ignored: object, parts: WeightParts) -> NativeFormats:
    spared = spared_modules(ignored)
    every = range(parts.layers)
    mixers = _but(name, spared.share(MIXERS, every))
    if mixers == name and _parts_of_attention(ignored):
        mixers = f"{name} without parts of attention"[:_LONGEST_NAME]
    behind = range(parts.dense, parts.layers)
    routed, shared = (EXPERTS_BESIDE, DENSE) if parts.beside else (EXPERTS, SHARED)
    experts = _but(name, spared.share(routed, behind)) if parts.routed else None
    kinds = []
    if parts.dense:
        kinds.append(_but(name, spared.share(DENSE, range(parts.dense))))
    if parts.shared:
        kinds.append(_but(name, spared.share(shared, behind)))
    linear = " and ".join(sorted(set(kinds)))[:_LONGEST_NAME] or mixers
    drafts = "BF16" if name != "BF16" and spared.drafts(parts.layers) else None
    return _as_parts(linear, experts or linear, mixers, parts, drafts=drafts)


def _but(name: str, spared: float) -> str:
    """Neither format, where quantised and 16-bit shares both exceed a tenth."""
    if spared <= _FEW:
        return name
    return "BF16" if spared >= 1 - _FEW or name == "BF16" else f"BF16 and {name}"[:_LONGEST_NAME]


def _as_parts(
    linear: str, experts: str, mixers: str, parts: WeightParts, *, head: str | None = None, drafts: str | None = None
) -> NativeFormats:
    """A part is named only where it differs from linears."""
    if not parts.dense and not parts.shared:
        linear = mixers
    return NativeFormats(
        linear=linear,
        experts=experts if parts.routed else linear,
        mixers=None if mixers == linear else mixers,
        head=None if head == "BF16" else head,
        drafts=drafts if {linear, experts, mixers} != {"BF16"} else None,
    )


def _parts_of_attention(ignored: object) -> set[str]:
    """First letters of q, k, v and o; what MLA expands is in 16 bits everywhere."""
    items = ignored if isinstance(ignored, list) else []
    found = [match[1] for item in items if (match := _PART_OF_ATTENTION.search(str(item)))]
    return {"q" if part.startswith("q") else part for part in found}


_OF_LAYERS = re.compile(r"^(?!mtp).*?(?=(?<![a-z_])layers\.)")  # what programs write before it differs
_REGEX = "re:"
# Products that hold nearly all weights of a part; of one that mixes tokens, the first and the last. A file uses one of
# the ways to name them, so that a layer is spared where all of one way are.
MIXERS = (
    ("self_attn.q_proj", "self_attn.o_proj"),
    ("self_attn.q_a_proj", "self_attn.q_b_proj", "self_attn.o_proj"),
    ("self_attn.qkv_proj", "self_attn.o_proj"),
    ("linear_attn.in_proj_qkv", "linear_attn.out_proj"),
    ("attn.wq_a", "attn.wq_b", "attn.wo_b"),
    ("mixer.in_proj", "mixer.out_proj"),
)
DENSE = (("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"), ("ffn.w1", "ffn.w2", "ffn.w3"))
SHARED = tuple(
    tuple(f"{outer}.{inner}.{name}" for name in names)
    for outer in ("mlp", "block_sparse_moe", "ffn")
    for inner in ("shared_expert", "shared_experts")
    for names in (("gate_proj", "up_proj", "down_proj"), ("w1", "w2", "w3"))
)
EXPERTS = tuple(
    tuple(f"{outer}.experts{inner}" for inner in inners)
    for outer in ("mlp", "block_sparse_moe", "ffn")
    for inners in ((".0.gate_proj", ".0.down_proj"), (".0.w1", ".0.w2"))
)
# Where a dense MLP stands beside experts (Gemma 4), it is what files call the MLP.
EXPERTS_BESIDE = (("experts.0.gate_proj", "experts.0.down_proj"), ("experts.gate_up_proj", "experts.down_proj"))
Ways = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SparedModules:
    """`"layers.3.mlp.up_proj" in spared` asks for a module."""

    beginnings: tuple[str, ...]  # of modules in layers, each ends where a name may end, or at a star
    words: tuple[str, ...]  # of modules anywhere: whole names between dots
    patterns: tuple[Callable[[str], object], ...]

    def __contains__(self, name: str) -> bool:
        return (
            f"{name}.".startswith(self.beginnings)
            or any(word in f".{name}." for word in self.words)
            or any(pattern(f"model.{name}.weight") for pattern in self.patterns)
        )

    def share(self, ways: Ways, layers: Iterable[int]) -> float:
        found = [any(all(f"layers.{layer}.{name}" in self for name in way) for way in ways) for layer in layers]
        return sum(found) / len(found) if found else 0.0

    def drafts(self, layers: int) -> bool:
        behind = f"layers.{layers}"
        ways = (
            (f"{behind}.self_attn.q_a_proj", f"{behind}.mlp.experts.0.up_proj"),
            ("mtp.layers.0.self_attn.q_proj", "mtp.layers.0.mlp.experts.0.up_proj"),
            ("mtp.0.attn.wq_a", "mtp.0.ffn.experts.0.w1"),
        )
        return any(all(name in self for name in way) for way in ways)


def spared_modules(items: object) -> SparedModules:
    beginnings, words, patterns = [], [], []
    for item in items if isinstance(items, list) else ():
        said = str(item)
        if said.startswith(_REGEX):
            patterns.append(_matching(said.removeprefix(_REGEX)))
            continue
        short = _OF_LAYERS.sub("", said)
        bare = short.rstrip("*")
        if "*" in bare:  # each stands for some text; behind what is no star at the end a module may go on
            text = ".*".join(re.escape(part) for part in short.split("*"))
            patterns.append(_matching(rf"(?:.*\.)?{text}(?:\..*)?$"))
        elif bare.startswith("layers.") or bare != short:
            beginnings.append(bare if bare != short else f"{bare}.")
        elif bare:
            words.append(f".{bare}.")
    return SparedModules(tuple(beginnings), tuple(words), tuple(patterns))


def _matching(text: str) -> Callable[[str], object]:
    try:
        return re.compile(text).match
    except re.error:
        return lambda _: None
