"""How one instance is split over its devices, and which splits are legal."""

from __future__ import annotations

from dataclasses import dataclass, field

from evaluator.canonical import IF_SET


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Plan:
    """Parallel sizes of one instance; dense models have ep, moe_tp and moe_dp at 1.

    Of the tp devices of a group, `dcp` that would hold the same keys hold a share of the tokens each. Experts have
    `redundant_experts` copies in a layer beside them, by which their load is evened out."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    moe_tp: int = 1
    moe_dp: int = 1
    dcp: int = field(default=1, metadata={IF_SET: True})
    redundant_experts: int = field(default=0, metadata={IF_SET: True})

    @property
    def num_devices(self) -> int:
        """Devices of one instance."""
        return self.tp * self.pp * self.dp
