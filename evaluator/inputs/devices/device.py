"""A device profile: peak rates, memory and interconnect, and how much of each is reached."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from evaluator.canonical import IF_SET
from store.light_dataclass import dataclass
from store.schema import Family


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    bandwidth_bytes_per_s: float
    latency_s: float
    efficiency: float
    topology: Literal["clos", "full_mesh"] = "clos"


_OTHERS = frozenset({"amd", "aws", "google", "huawei", "intel"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceProfile:
    """`grid` lists extents outermost first; `links[i]` joins a group that starts at dimension i. Peak rates are FLOP/s
    (or integer op/s) by dtype: fp32, bf16, fp16, int8, fp8, fp4."""

    name: str
    vendor: str
    family: Family
    matrix_flops_per_s: tuple[tuple[str, float], ...]
    vector_flops_per_s: tuple[tuple[str, float], ...]
    memory_bytes: int
    memory_bandwidth_bytes_per_s: float
    grid: tuple[int, ...]
    links: tuple[Link, ...]
    compute_efficiency: float
    memory_efficiency: float
    matrix_static_s: float
    vector_static_s: float
    communication_static_s: float
    compute_units: int | None = None
    watts: float | None = None
    source: str = ""
    calibration: str | None = None  # canonical JSON of the fitted coefficients; None when theoretical
    host_link_bytes_per_s: float = field(default=0.0, metadata={IF_SET: True})  # data sheet, one way; 0: not stated
    host_link_source: str = field(default="", metadata={IF_SET: True})
    cache_bytes: int = field(default=0, metadata={IF_SET: True})  # data sheet, of the last level on chip; 0: not stated
    cache_source: str = field(default="", metadata={IF_SET: True})
    # The device whose serving points its efficiencies and fixed times are fitted to; empty: stated figures.
    fitted_from: str = field(default="", metadata={IF_SET: True})

    @property
    def cuda(self) -> bool:
        """Whether kernels for NVIDIA run; of an own device of no known maker, too."""
        return self.vendor.lower() not in _OTHERS
