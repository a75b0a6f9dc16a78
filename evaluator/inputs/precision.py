"""Storage and compute formats of linears, experts, attention and the KV cache."""

from __future__ import annotations

from dataclasses import field

from evaluator.canonical import IF_SET
from store.light_dataclass import dataclass


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
