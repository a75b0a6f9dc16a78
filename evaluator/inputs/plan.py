"""How one instance is split over its devices, and which splits are legal."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Plan:
    """Parallel sizes of one instance; dense models have ep, moe_tp and moe_dp at 1."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    moe_tp: int = 1
    moe_dp: int = 1

    @property
    def num_devices(self) -> int:
        """Devices of one instance."""
        return self.tp * self.pp * self.dp
