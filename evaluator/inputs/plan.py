"""The split of one instance over its devices."""

from __future__ import annotations

from store.light_dataclass import dataclass
from store.schema import PlanRecord


@dataclass(frozen=True, slots=True, order=True, kw_only=True)
class Plan(PlanRecord):
    """Dense models have ep, moe_tp and moe_dp at 1.

    `dcp` of a group's tp devices share its tokens. `redundant_experts` even out a layer's load. `pcp` groups of tp
    devices divide a prompt; all hold every key and decode the same tokens. With 2 `micro_batches` half of a batch
    exchanges expert rows while the other computes. `encoder_devices` hold the image encoder alone."""

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
