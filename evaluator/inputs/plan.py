"""How one instance is split over its devices, and which splits are legal."""

from __future__ import annotations

from store.light_dataclass import dataclass
from store.schema import PlanRecord


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Plan(PlanRecord):
    """Parallel sizes of one instance as steps read them; dense models have ep, moe_tp and moe_dp at 1.

    Of the tp devices of a group, `dcp` that would hold the same keys hold a share of the tokens each. Experts have
    `redundant_experts` copies in a layer beside them, by which their load is evened out. The new tokens of prompts are
    divided among `pcp` groups of tp devices, which all hold every key; they decode the same tokens. With 2
    `micro_batches` one half of a step's batch exchanges rows of experts while the other computes. `encoder_devices`
    hold the image encoder alone, and encode for the instance beside them, which has none then."""

    tp: int = 1
    pp: int = 1
    dp: int = 1
    ep: int = 1
    moe_tp: int = 1
    moe_dp: int = 1

    @property
    def language_devices(self) -> int:
        return self.stage_devices * self.pp

    @property
    def stage_devices(self) -> int:
        return self.tp * self.dp * self.pcp

    @property
    def replica_devices(self) -> int:
        return self.tp * self.pp * self.pcp

    @property
    def groups(self) -> int:
        return self.dp * self.pcp
