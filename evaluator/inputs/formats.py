"""Number formats by name: the seeds' actions, and what engines serve in."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from evaluator.canonical import IF_SET
from evaluator.inputs.devices.device import DeviceProfile
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import Convention


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """`compute` is a device dtype: bf16, fp16, int8, fp8, fp4. `weight_bits` excludes scales.

    `activation_bits` below 16: activations are quantised first; `dynamic`: with scales computed on the fly."""

    name: str
    compute: str
    weight_bits: float
    activation_bits: int
    scale_bits_per_weight: float = 0.0
    dynamic: bool = False
    dequantise_weight: bool = False  # weights are widened on the vector unit before the product


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """`linear` covers dense MLPs and shared experts, and `mixers` without their own; `attention` is the KV cache's."""

    linear: str = "BF16"
    experts: str | None = None  # None: as linear
    attention: str = "DISABLED"
    mxfp4_group_size: int = 32
    mixers: str | None = field(default=None, metadata={IF_SET: True})  # None: as linear
    head: str | None = field(default=None, metadata={IF_SET: True})  # of the vocabulary; None: 16 bits
    drafts: str | None = field(default=None, metadata={IF_SET: True})  # None: as the model's layers

    @property
    def cache(self) -> str:
        return self.attention.partition("+")[0]

    @property
    def weights(self) -> tuple[str, ...]:
        named = (self.linear, self.experts, self.mixers, self.head, self.drafts)
        return tuple(dict.fromkeys(name for name in named if name is not None))


def _format(line: Mapping[str, str]) -> Format:
    """`scaled` computes as it is, `widened` is converted on the vector unit first."""
    return Format(
        name=line["name"],
        compute=line["compute"],
        weight_bits=int(line["weight_bits"]),
        activation_bits=int(line["activation_bits"]),
        scale_bits_per_weight=int(line["scale_bits"]) / int(line["weights_a_scale"]),
        dynamic=bool(line["scaled"]),
        dequantise_weight=bool(line["widened"]),
    )


_LINES = csv.DictReader(Path(__file__).with_suffix(".csv").read_text(encoding="utf-8").splitlines())
_FORMATS = {line["name"]: _format(line) for line in _LINES}
BF16 = _FORMATS["BF16"]
BLOCK_COLUMNS = {"FP8_BLOCK": 128}  # of weights that share a scale
WIDE = Precision()
LINEAR_NAMES = ("DISABLED", *_FORMATS)
# What engines and checkpoints call them.
_CALLED = {
    "AWQ": "W4A16", "GPTQ": "W4A16", "INT4": "W4A16", "4BIT": "W4A16", "AWQ_MARLIN": "W4A16", "GPTQ_MARLIN": "W4A16",
    "INT8": "W8A8_DYNAMIC", "W8A8": "W8A8_DYNAMIC", "W8A16": "W8A16_DYNAMIC", "W4A8": "W4A8_DYNAMIC",
    "E4M3": "FP8", "FP8_E4M3": "FP8", "FLOAT8": "FP8", "FP8_DYNAMIC": "FP8", "FBGEMM_FP8": "FP8", "W8A8_FP8": "FP8",
    "FP4": "NVFP4", "NONE": "BF16", "FP16": "BF16", "HALF": "BF16", "FLOAT16": "BF16", "BFLOAT16": "BF16",
}  # fmt: skip
ATTENTION_NAMES = ("DISABLED", "INT8", "FP8")
GROUP_SIZES = (1, 8192)


def linear_format(name: str, *, mxfp4_group_size: int = 32, convention: Convention = "physical") -> Format:
    """Upstream runs FP8 and W8A16 linears as W8A8 (docs/reference/seeds.md)."""
    key = name.upper()
    if key in {"DISABLED", "BF16"}:
        return BF16
    if key not in _FORMATS:
        raise _unknown("linear", name, LINEAR_NAMES)
    form = _FORMATS[key]
    if key == "MXFP4":
        low, high = GROUP_SIZES
        if not low <= mxfp4_group_size <= high:
            raise InputError(f"`mxfp4_group_size` must lie between {low} and {high}, not {mxfp4_group_size}")
        # OCP microscaling formats (2023): one 8-bit scale a group.
        form = replace(form, scale_bits_per_weight=8 / mxfp4_group_size)
    if convention == "upstream" and key in {"FP8", "W8A16_STATIC", "W8A16_DYNAMIC"}:
        form = replace(_FORMATS["W8A8_DYNAMIC"], name=form.name)
    return form


def slow_formats(device: DeviceProfile, precision: Precision, convention: Convention) -> tuple[str, ...]:
    """A sentence for each format that is slower here than 16 bits.

    gb300: int8 at 165 TFLOP/s, bf16 at 2,500, so W8A8 products take fifteen times those of BF16."""
    rates = dict(device.matrix_flops_per_s)
    wide = rates.get("fp16") or rates.get("bf16") or 0.0  # one rate for both: the cost models run them alike
    size = precision.mxfp4_group_size
    forms = [linear_format(name, mxfp4_group_size=size, convention=convention) for name in precision.weights]
    return tuple(
        f"{device.name} computes {form.compute} at {rates[form.compute] / 1e12:,.0f} TFLOP/s, below its"
        f" {wide / 1e12:,.0f} in 16 bits: {form.name} is slow there"
        for form in forms
        if form.activation_bits < 16 and rates.get(form.compute, wide) < wide
    )


def widened_formats(device: DeviceProfile, precision: Precision) -> tuple[str, ...]:
    """A sentence for each format of products that this device has no arithmetic for.

    MXFP4 names weights, which most devices multiply in other formats. Where Marlin runs:
    https://docs.vllm.ai/en/latest/features/quantization/#supported-hardware"""
    forms = map(linear_format, precision.weights)
    lacking = [one for one in forms if one.compute in {"fp8", "fp4"} - dict(device.matrix_flops_per_s).keys()]
    how = "vLLM and SGLang keep {} weights there and multiply in 16 bits (Marlin kernels)"
    how += ", which saves memory and no arithmetic"
    if not device.cuda:
        how = (
            "times are of {} weights that are multiplied in 16 bits, and kernels for that (Marlin) run on NVIDIA alone"
        )
    return tuple(
        f"{device.name} has no {form.compute.upper()} arithmetic: {how.format(form.name)}"
        for form in dict.fromkeys(lacking)
        if form.name != "MXFP4"
    )


def check_precision(precision: Precision) -> Precision:
    linear = _canonical(precision.linear)
    experts = _canonical(precision.experts) if precision.experts is not None else linear
    mixers, head, drafts = (
        None if name is None else _canonical(name) for name in (precision.mixers, precision.head, precision.drafts)
    )
    named = {name for name in (linear, experts, mixers, head, drafts) if name is not None}
    for name in sorted(named):
        linear_format(name, mxfp4_group_size=precision.mxfp4_group_size)
    cache, plus, parts = precision.attention.partition("+")
    if cache.upper() not in ATTENTION_NAMES:
        raise _unknown("attention", cache, ATTENTION_NAMES)
    attention = f"{cache.upper()}{plus}{parts}"
    return Precision(
        linear=linear,
        experts=experts,
        attention=attention,
        mxfp4_group_size=precision.mxfp4_group_size if "MXFP4" in named else 32,
        mixers=None if mixers == linear else mixers,
        head=None if head == "BF16" else head,
        drafts=drafts,
    )


def _canonical(name: str) -> str:
    named = name.upper().replace("-", "_")
    return "BF16" if named == "DISABLED" else _CALLED.get(named, named)


def _unknown(what: str, name: str, known: Sequence[str]) -> InputError:
    nearest = difflib.get_close_matches(name.upper(), known, n=3, cutoff=0.3)
    return InputError(f"unknown {what} quantization {name!r}", hint=f"nearest known: {', '.join(nearest or known)}")
