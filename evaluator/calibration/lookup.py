"""The fitted kernel that prices an operator: its own, or the nearest."""

from __future__ import annotations

from collections.abc import Sequence

from evaluator.calibration.forms.base import DeviceFigures
from evaluator.inputs.devices.calibration_record import Calibration
from store.errors import InputError
from store.light_dataclass import dataclass

# Of a decode of latent attention whose blocks of 16 query heads each read a token's vector, as a key and as a value:
# `_decode_grouped_att_m_fwd` in SGLang's triton_ops/decode_attention.py.
IN_BLOCKS = ".in_blocks"
BLOCK_HEADS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFormat:
    """`quantises`: the measured kernel narrows its 16-bit activations itself."""

    name: str
    compute: str
    weight_bytes: float
    activation_bytes: float = 2.0
    quantises: bool = False


# Scales: one byte per 16 weights (nvfp4) or per 32 (mxfp4); those of fp8_block (one float per 128 x 128) are left out.
FORMATS = {
    form.name: form
    for form in (
        KernelFormat(name="fp32", compute="fp32", weight_bytes=4.0, activation_bytes=4.0),
        KernelFormat(name="bf16", compute="bf16", weight_bytes=2.0),
        KernelFormat(name="fp8", compute="fp8", weight_bytes=1.0, activation_bytes=1.0, quantises=True),
        KernelFormat(name="fp8_block", compute="fp8", weight_bytes=1.0, activation_bytes=1.0, quantises=True),
        KernelFormat(name="nvfp4", compute="fp4", weight_bytes=0.5625, activation_bytes=0.5625, quantises=True),
        KernelFormat(name="int8", compute="int8", weight_bytes=1.0, activation_bytes=1.0, quantises=True),
        KernelFormat(name="w4a8", compute="int8", weight_bytes=0.5, activation_bytes=1.0, quantises=True),
        KernelFormat(name="w8a16", compute="bf16", weight_bytes=1.0),
        KernelFormat(name="w4a16", compute="bf16", weight_bytes=0.5),
        KernelFormat(name="w4a16_mxfp4", compute="bf16", weight_bytes=0.53125),
        KernelFormat(name="w4a8_mxfp4", compute="fp8", weight_bytes=0.53125, activation_bytes=1.03125, quantises=True),
    )
}

# Spellings of dtype columns seen in kernel tables.
SPELLINGS = {
    "bfloat16": "bf16",
    "float16": "bf16",
    "half": "bf16",
    "fp16": "bf16",
    "float32": "fp32",
    "float8": "fp8",
    "sq": "int8",
    "int8_wo": "w8a16",
    "int4_wo": "w4a16",
    "w4a8_mxfp4_mxfp8": "w4a8_mxfp4",
    "fp4": "nvfp4",
}


def format_name(spelling: str) -> str:
    name = SPELLINGS.get(spelling, spelling)
    if name not in FORMATS:
        known = ", ".join(sorted({*FORMATS, *SPELLINGS}))
        raise InputError(f"kernels of dtype {spelling[:40]!r} are not known", hint=f"known: {known}")
    return name


# Our kernel format of a quantisation by name; its bytes and compute dtype decide, whatever coefficients are at hand.
QUANTISATIONS = {
    "": "bf16",
    "DISABLED": "bf16",
    "FP16": "bf16",
    "W8A8": "int8",
    "W4A8": "w4a8",
    "W4A16_G32": "w4a16",
    "MXFP8": "fp8_block",
    "MXFP4_W4A8": "w4a8_mxfp4",
    "MXFP4_W4A16": "w4a16_mxfp4",
    "NVFP4_W4A16": "w4a16_mxfp4",
}
# Whose coefficients stand in where a device has none for a format: the nearest format by what it computes in.
NEAREST = {
    "fp8_block": ("fp8", "int8", "nvfp4", "bf16"),
    "fp8": ("fp8_block", "int8", "nvfp4", "bf16"),
    "int8": ("fp8", "fp8_block", "nvfp4", "bf16"),
    "nvfp4": ("w4a8_mxfp4", "fp8_block", "fp8", "w4a16_mxfp4", "int8", "bf16"),
    "w4a8_mxfp4": ("nvfp4", "fp8_block", "fp8", "int8", "bf16"),
    "w4a8": ("int8", "fp8", "fp8_block", "nvfp4", "w4a16", "bf16"),
    "w4a16_mxfp4": ("w4a16", "w8a16", "bf16"),
    "w4a16": ("w4a16_mxfp4", "w8a16", "bf16"),
    "w8a16": ("w4a16", "w4a16_mxfp4", "bf16"),
    "bf16": ("fp32",),
    "fp32": ("bf16",),
}


def kernel_format(quantisation: str, figures: DeviceFigures | None = None) -> KernelFormat:
    """Static and dynamic scales share a kernel.

    MXFP4 names weights: without an FP4 unit they are widened to 16 bits, else multiplied with 8-bit activations."""
    name = quantisation.upper().removesuffix("_STATIC").removesuffix("_DYNAMIC")
    if name == "MXFP4":
        narrow = figures is not None and figures.native("fp4") == "fp4"
        return FORMATS["w4a8_mxfp4" if narrow else "w4a16_mxfp4"]
    found = FORMATS.get(QUANTISATIONS.get(name, name.lower()))
    if found is None:
        known = sorted({*FORMATS, *map(str.lower, filter(None, QUANTISATIONS)), "mxfp4"})
        raise InputError(
            f"no calibrated kernel format for quantization {quantisation}", hint=f"known: {', '.join(known)}"
        )
    return found


def product_kernel(calibration: Calibration, family: str, wanted: str, suffixes: tuple[str, ...] = ("",)) -> str:
    """With the first suffix there is, or the nearest format's."""
    for suffix in suffixes:
        for candidate in (wanted, *NEAREST[wanted]):
            if (name := f"{family}.{candidate}{suffix}") in calibration.kernels:
                return name
    raise InputError(
        f"the calibration of {calibration.device} has no {family} kernels",
        hint="calibrate with a table that holds them",
    )


def expert_kernels(calibration: Calibration, wanted: KernelFormat, routings: Sequence[str]) -> tuple[str, ...]:
    """Kernels to take the faster of: the format's, and a low-latency one.

    Engines have low-latency kernels for every narrow format (TensorRT-LLM: FP8 block, NVFP4, MXFP4), tables perhaps
    for one; its coefficients then price another's bytes and peak. Narrow weights widened for 16-bit products (vLLM's
    Marlin) use the 16-bit kernel. A kernel measured inside an engine stands alone."""
    own = tuple(f".gated.{routing}" for routing in routings)
    names = [product_kernel(calibration, "moe", wanted.name, own)]
    if f"{names[0]}.marlin" in calibration.kernels:
        names.append(f"{names[0]}.marlin")
    if wanted.weight_bytes < FORMATS["bf16"].weight_bytes and not wanted.quantises:
        names.append(product_kernel(calibration, "moe", "bf16", own))
    fast = tuple(f".gated.{routing}.low_latency" for routing in routings)
    if names[0] in calibration.own:  # measured inside the engine, which has chosen by itself
        return tuple(names)
    if wanted.quantises and any(name.endswith(fast) for name in calibration.kernels):
        names.append(product_kernel(calibration, "moe", wanted.name, fast))
    return tuple(names)


def attention_kernel(calibration: Calibration, family: str, stored: str, head_dim: int, window: int | None) -> str:
    candidates = [name for name in calibration.kernels if name.startswith(family.partition(".")[0] + ".")]
    if not candidates:
        raise InputError(
            f"the calibration of {calibration.device} has no kernel {family}",
            hint="calibrate with a table that holds it",
        )

    def distance(name: str) -> tuple[bool, int, bool, bool, str]:
        words = name.split(".")
        size = next((int(word[1:]) for word in words if word[0] == "d" and word[1:].isdigit()), head_dim)
        other_window = ("window" in words) != (window is not None)
        return (
            not name.startswith(family + "."),
            abs(size - head_dim),
            f"kv_{stored}" not in words,
            other_window,
            name,
        )

    return min(candidates, key=distance)


def elementwise_kernel(calibration: Calibration, kind: str) -> str:
    """Its own, or the common one."""
    own = f"elementwise.{kind}"
    return own if own in calibration.kernels else "elementwise"
