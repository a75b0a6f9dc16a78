"""The theoretical family: a roofline on data-sheet rates times efficiencies, plus a static cost a launch.

t = max(matrix / peak + vector / peak, bytes / bandwidth) + static. Left out: tile quantisation, overlap of launches,
contention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from evaluator.cost import KindSeconds
from evaluator.cost.collectives import GroupLink, link_of_group, transfer_seconds
from evaluator.device import DeviceProfile
from evaluator.operators import COLLECTIVE_KINDS, CollectiveExtents, Operator
from evaluator.routing import exchanged_share, touched_experts
from evaluator.sums import BatchSums, FloatArray

# What a product in a missing dtype is widened to, narrowest first. Integers and floats of one width are not
# interchangeable.
_WIDER = {
    "fp4": ("fp8", "fp16", "bf16", "fp32"),
    "fp8": ("fp16", "bf16", "fp32"),
    "int4": ("int8", "fp16", "bf16", "fp32"),
    "int8": ("fp16", "bf16", "fp32"),
    "fp16": ("bf16", "fp32"),
    "bf16": ("fp16", "fp32"),
    "fp32": (),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoreticalCost:
    """Prices operators on a device by its effective peak rates. Sixteen-bit work runs at the fp16 figure, as the
    family's profiles say."""

    device: DeviceProfile
    convention: Literal["physical", "upstream"] = "physical"
    _matrix: dict[str, float] = field(init=False, repr=False, compare=False)
    _vector: dict[str, float] = field(init=False, repr=False, compare=False)
    _links: dict[tuple[int, int], GroupLink] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matrix", dict(self.device.matrix_flops_per_s))
        object.__setattr__(self, "_vector", dict(self.device.vector_flops_per_s))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Nothing beyond what `widened` says of the dtypes in use."""
        return ()

    def widened(self, dtype: str) -> str:
        """The dtype a product asked for in `dtype` runs in on this device."""
        wanted = "fp16" if dtype == "bf16" else dtype
        for name in (wanted, *_WIDER.get(wanted, ())):
            if name in self._matrix:
                return name
        return dtype

    def operator_seconds(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        """Seconds of one occurrence, split by what bounds it."""
        if operator.kind in COLLECTIVE_KINDS and operator.collective is not None:
            return self._collective(operator, operator.collective, sums)
        matrix = operator.matrix_flops.at(sums) * self._seconds_per_flop(operator.matrix_dtype)
        vector_flops = operator.vector_flops.at(sums)
        moved = (operator.bytes_read + operator.bytes_written).at(sums)
        if operator.experts is not None and operator.expert_bytes:
            touched = touched_experts(operator.experts, operator.experts.tokens.at(sums), self.convention)
            moved = moved + float(operator.expert_bytes) * touched
            vector_flops = vector_flops + float(operator.expert_vector_flops) * touched
        vector = vector_flops * self._seconds_per_vector_flop()
        memory = moved / (self.device.memory_bandwidth_bytes_per_s * self.device.memory_efficiency)
        static = (
            self.device.matrix_static_s if not operator.matrix_flops.is_zero else self.device.vector_static_s
        ) * operator.launches
        bound = matrix + vector >= memory
        return KindSeconds(
            matrix=np.where(bound, matrix, 0.0),
            vector=np.where(bound, vector, 0.0),
            memory=np.where(bound, 0.0, memory),
            overhead=static,
        )

    def _seconds_per_flop(self, dtype: str) -> float:
        if self.convention == "upstream":
            peak = self._matrix.get("fp16" if dtype == "bf16" else dtype)
            if peak is None:
                return 0.0  # its compute time is dropped there (design.md); only under this named convention
        else:
            peak = self._matrix[self.widened(dtype)]
        return 1.0 / (peak * self.device.compute_efficiency)

    def _seconds_per_vector_flop(self) -> float:
        peak = self._vector.get("fp16") or self._vector.get("bf16") or self._vector["fp32"]
        return 1.0 / (peak * self.device.compute_efficiency)

    def _collective(self, operator: Operator, extents: CollectiveExtents, sums: BatchSums) -> KindSeconds:
        payload = extents.payload_bytes.at(sums)
        link = link_of_group(self.device, extents.group_size, extents.stride)
        moved = payload
        if operator.kind == "all_to_all":
            moved = payload * self._exchanged(operator, extents, sums)
        wire = transfer_seconds(operator.kind, extents, link, moved)
        local = payload / (self.device.memory_bandwidth_bytes_per_s * self.device.memory_efficiency)
        return KindSeconds(communication=np.maximum(wire, local), overhead=self.device.communication_static_s)

    def _exchanged(self, operator: Operator, extents: CollectiveExtents, sums: BatchSums) -> FloatArray | float:
        if operator.experts is None:
            return (extents.group_size - 1) / extents.group_size
        return exchanged_share(operator.experts, operator.experts.tokens.at(sums), self.convention)
