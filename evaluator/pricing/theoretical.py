"""A roofline on data-sheet rates times efficiencies, plus a cost per launch.

t = max(matrix / peak + vector / peak, bytes / bandwidth) + static. Left out: tile quantisation, overlap of launches,
contention.

Latency and bandwidth of ring, tree and direct algorithms: Thakur, Rabenseifner and Gropp, "Optimization of Collective
Communication Operations in MPICH", 2005. Left out: contention between groups, and the ramp of small messages
(calibrated devices measure both)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from math import log2, prod

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import COLLECTIVE_KINDS, ZERO, Affine, CollectiveExtents, Operator, OperatorKind
from evaluator.graph.sums import BatchSums
from evaluator.inputs.devices.device import DeviceProfile, Link
from evaluator.pricing.cost_model import KINDS, KindSeconds
from evaluator.pricing.occurrence import exchanged_share, touched_experts
from evaluator.same_objects import SameObjects
from store.errors import InputError
from store.light_dataclass import dataclass
from store.schema import Convention


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLink:
    """Effective bytes/s of a device, and the latency of a hop."""

    bandwidth_bytes_per_s: float
    latency_s: float


def link_of_group(device: DeviceProfile, group_size: int, stride: int, *, whole: bool = False) -> GroupLink:
    """The innermost dimension whose sub-grid holds the group.

    A full mesh gives g of n members g - 1 of n - 1 links; `whole`: all."""
    span = (group_size - 1) * stride + 1
    for dimension in reversed(range(len(device.grid))):
        if span <= prod(device.grid[dimension:]) or dimension == 0:
            link = device.links[dimension]
            return GroupLink(
                bandwidth_bytes_per_s=link.bandwidth_bytes_per_s
                * link.efficiency
                * (1.0 if whole else _mesh_share(link, device.grid[dimension], group_size)),
                latency_s=link.latency_s,
            )
    raise ValueError(f"{device.name}: no interconnect level")


def _mesh_share(link: Link, members: int, group_size: int) -> float:
    if link.topology != "full_mesh" or members < 2 or group_size < 2:
        return 1.0
    return min(group_size - 1, members - 1) / (members - 1)


def transfer_seconds(
    kind: OperatorKind, extents: CollectiveExtents, link: GroupLink, payload: FloatArray
) -> FloatArray:
    """`payload` is the buffer reduced, the shard gathered, or the bytes of an all-to-all."""
    group, latency, bandwidth = extents.group_size, link.latency_s, link.bandwidth_bytes_per_s
    hops = min(group - 1, log2(group))
    match kind:
        case "all_reduce":
            ring = 2 * (group - 1) * latency + 2 * (group - 1) / group * payload / bandwidth
            tree = 2 * log2(group) * latency + 2 * payload / bandwidth
            return np.minimum(ring, tree)
        case "all_gather":
            return hops * latency + (group - 1) * payload / bandwidth
        case "reduce_scatter":
            return hops * latency + (group - 1) * (payload / group) / bandwidth
        case "all_to_all":
            return hops * latency + payload / bandwidth
        case "send_receive":
            return latency + payload / bandwidth
        case _:
            raise ValueError(f"{kind} is not a collective")


def reach(profile: DeviceProfile, group_size: int, stride: int) -> tuple[Link, int]:
    """The slowest link crossed, and grid levels spanned.

    The group stays inside the innermost dimensions that hold group_size x stride devices; beyond the grid it uses the
    outermost link."""
    if not profile.links:
        raise InputError(
            f"device {profile.name} has no links, so a group of {group_size} cannot communicate",
            hint="add grid and links to its profile",
        )
    span, held = group_size * stride, 1
    for level, extent in enumerate(reversed(profile.grid), start=1):
        held *= extent
        if held >= span:
            return profile.links[max(len(profile.links) - level, 0)], level
    return profile.links[0], len(profile.grid) + 1


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


def _line(form: Affine, other: Affine = ZERO) -> tuple[float, float]:
    return float(form.constant + other.constant), float(form.tokens + other.tokens + form.sequences + other.sequences)


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoreticalCost:
    """Sixteen-bit work runs at the fp16 figure, as the family's profiles say."""

    device: DeviceProfile
    convention: Convention = "physical"
    load: float = 1.0  # tokens of experts on the busiest device over the mean
    _matrix: dict[str, float] = field(init=False, repr=False, compare=False)
    _vector: dict[str, float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_matrix", dict(self.device.matrix_flops_per_s))
        object.__setattr__(self, "_vector", dict(self.device.vector_flops_per_s))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """Empty: `said` covers dtypes in use."""
        return ()

    def said(self, operators: Iterable[Operator]) -> Iterable[str]:
        return map(self._said_of, sorted({one.matrix_dtype for one in operators if not one.matrix_flops.is_zero}))

    def _said_of(self, dtype: str) -> str:
        used = self.widened(dtype)
        if used == dtype or {used, dtype} == {"bf16", "fp16"}:
            return ""
        if self.convention == "upstream":
            return f"{self.device.name} has no {dtype} unit: its compute time is dropped, as upstream does"
        return f"{self.device.name} has no {dtype} unit: products run in {used}"

    def widened(self, dtype: str) -> str:
        wanted = "fp16" if dtype == "bf16" else dtype
        for name in (wanted, *_WIDER.get(wanted, ())):
            if name in self._matrix:
                return name
        return dtype

    def operator_seconds(self, operator: Operator, sums: BatchSums) -> KindSeconds:
        if operator.kind in COLLECTIVE_KINDS and operator.collective is not None:
            return self._collective(operator, operator.collective, sums)
        matrix = operator.matrix_flops.at(sums) * self._seconds_per_flop(operator.matrix_dtype)
        vector_flops = operator.vector_flops.at(sums)
        moved = (operator.bytes_read + operator.bytes_written).at(sums)
        if operator.experts is not None and operator.expert_bytes:
            touched = touched_experts(operator.experts, operator.experts.tokens.at(sums), self.convention)
            moved = moved + float(operator.expert_bytes) * touched
            vector_flops = vector_flops + float(operator.expert_vector_flops) * touched
        vector = vector_flops * self._seconds_per_vector_flop(operator.vector_dtype)
        memory = moved * self._seconds_per_byte()
        bound = matrix + vector >= memory
        return KindSeconds(
            matrix=np.where(bound, matrix, 0.0),
            vector=np.where(bound, vector, 0.0),
            memory=np.where(bound, 0.0, memory),
            overhead=self._static(operator),
        )

    def plain_seconds(self, operators: Sequence[Operator], extent: FloatArray) -> FloatArray:
        """[kind, operator, batch] of operators without experts or collectives.

        Work must depend on that extent alone: tokens, or logits."""
        constant, slope, rates, static = (
            _lines(self, operators) if isinstance(operators, tuple) else self.lines_of(operators)
        )
        work = slope * extent
        work += constant
        work *= rates
        matrix, vector, memory = np.moveaxis(work, 1, 0)
        bound = matrix + vector >= memory
        seconds = np.zeros((len(KINDS), *bound.shape))
        seconds[0], seconds[1] = matrix * bound, vector * bound
        seconds[2] = memory * ~bound
        seconds[4] = static
        return seconds

    def lines_of(self, operators: Sequence[Operator]) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        forms = [
            (_line(one.matrix_flops), _line(one.vector_flops), _line(one.bytes_read, one.bytes_written))
            for one in operators
        ]
        rates = [
            (
                self._seconds_per_flop(one.matrix_dtype),
                self._seconds_per_vector_flop(one.vector_dtype),
                self._seconds_per_byte(),
            )
            for one in operators
        ]
        constant, slope = np.moveaxis(np.asarray(forms), -1, 0)[:, :, :, None]
        static = np.asarray([self._static(one) for one in operators])[:, None]
        return constant, slope, np.asarray(rates)[:, :, None], static

    def link_of(self, operator: Operator, extents: CollectiveExtents) -> GroupLink:
        """Upstream sends to the next stage over all links of a device."""
        whole = self.convention == "upstream" and operator.kind == "send_receive"
        return link_of_group(self.device, extents.group_size, extents.stride, whole=whole)

    def _static(self, operator: Operator) -> float:
        device = self.device
        one = device.vector_static_s if operator.matrix_flops.is_zero else device.matrix_static_s
        return one * operator.launches

    def _seconds_per_byte(self) -> float:
        return 1.0 / (self.device.memory_bandwidth_bytes_per_s * self.device.memory_efficiency)

    def _seconds_per_flop(self, dtype: str) -> float:
        if self.convention == "upstream":
            peak = self._matrix.get("fp16" if dtype == "bf16" else dtype)
            if peak is None:
                return 0.0  # its compute time is dropped there (design.md); only under this named convention
        else:
            peak = self._matrix[self.widened(dtype)]
        return 1.0 / (peak * self.device.compute_efficiency)

    def _seconds_per_vector_flop(self, dtype: str = "bf16") -> float:
        wide = self._vector.get("fp32") if dtype == "fp32" else None
        peak = wide or self._vector.get("fp16") or self._vector.get("bf16") or self._vector["fp32"]
        return 1.0 / (peak * self.device.compute_efficiency)

    def _collective(self, operator: Operator, extents: CollectiveExtents, sums: BatchSums) -> KindSeconds:
        payload = extents.payload_bytes.at(sums)
        link = _link(self, operator, extents)
        moved = payload
        if operator.kind == "all_to_all":
            moved = payload * self._exchanged(operator, extents, sums)
        wire = transfer_seconds(operator.kind, extents, link, moved)
        local = payload * self._seconds_per_byte()
        return KindSeconds(communication=np.maximum(wire, local), overhead=self.device.communication_static_s)

    def _exchanged(self, operator: Operator, extents: CollectiveExtents, sums: BatchSums) -> FloatArray | float:
        if operator.experts is None:
            return (extents.group_size - 1) / extents.group_size
        return exchanged_share(operator.experts, operator.experts.tokens.at(sums), self.convention)


@SameObjects
def _lines(
    cost: TheoreticalCost, operators: tuple[Operator, ...]
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    return cost.lines_of(operators)


@SameObjects
def _link(cost: TheoreticalCost, operator: Operator, extents: CollectiveExtents) -> GroupLink:
    return cost.link_of(operator, extents)
