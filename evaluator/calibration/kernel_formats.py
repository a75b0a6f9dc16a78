"""Number formats of measured kernels: bytes of a weight and an activation, the dtype computed in, whether activations
are quantised inside."""

from __future__ import annotations

from dataclasses import dataclass

from store.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelFormat:
    """One format by name. `quantises`: the measured kernel reads 16-bit activations and narrows them itself."""

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
    """Our name of a dtype as a table spells it."""
    name = SPELLINGS.get(spelling, spelling)
    if name not in FORMATS:
        known = ", ".join(sorted({*FORMATS, *SPELLINGS}))
        raise InputError(f"kernels of dtype {spelling[:40]!r} are not known", hint=f"known: {known}")
    return name
