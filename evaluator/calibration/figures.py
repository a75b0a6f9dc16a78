"""The data-sheet figures a kernel form needs, taken from a device profile. Not the profile itself: no names, no
memory sizes."""

from __future__ import annotations

from dataclasses import dataclass

from evaluator.inputs.devices.device import DeviceProfile

# What a device computes in when it lacks a dtype: the next wider one it has.
WIDER = {"fp4": "fp8", "fp8": "bf16", "int8": "bf16", "fp16": "bf16", "bf16": "fp16"}
DEFAULT_COMPUTE_UNITS = 128
PCIE_BYTES_PER_S = 6.4e10  # sixteen lanes of PCIe 5, one direction: a link no faster goes through the host


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceFigures:
    """Peak rates of one device: FLOP/s by dtype, bytes/s of its memory and of its innermost link, number of compute
    units."""

    matrix_flops_per_s: tuple[tuple[str, float], ...]
    memory_bytes_per_s: float
    link_bytes_per_s: float
    compute_units: int
    cache_bytes: float = 0.0  # of the last level on the chip; 0 where nobody stated it

    @property
    def through_host(self) -> bool:
        """Whether devices of a server are joined by PCIe, not by a fabric of their own."""
        return self.link_bytes_per_s <= PCIE_BYTES_PER_S

    def peak(self, dtype: str) -> float:
        """FLOP/s of a dtype, or of the next wider one the device has."""
        return dict(self.matrix_flops_per_s)[self.native(dtype)]

    def native(self, dtype: str) -> str:
        """The dtype the device really computes in."""
        have = {name for name, _ in self.matrix_flops_per_s}
        seen = dtype
        for _ in WIDER:
            if seen in have:
                return seen
            seen = WIDER.get(seen, "bf16")
        return next(iter(sorted(have)))


def figures_of(profile: DeviceProfile) -> DeviceFigures:
    """The figures of a profile; an unknown number of compute units becomes 128, which only moves wave boundaries."""
    links = profile.links
    return DeviceFigures(
        matrix_flops_per_s=profile.matrix_flops_per_s,
        memory_bytes_per_s=profile.memory_bandwidth_bytes_per_s,
        link_bytes_per_s=links[-1].bandwidth_bytes_per_s if links else profile.memory_bandwidth_bytes_per_s / 10,
        compute_units=profile.compute_units or DEFAULT_COMPUTE_UNITS,
        cache_bytes=float(profile.cache_bytes),
    )
