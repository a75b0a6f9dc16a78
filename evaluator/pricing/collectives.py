"""Latency and bandwidth of ring, tree and direct algorithms over the interconnect grid.

Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005. Left out:
contention between groups, and the ramp of small messages (calibrated devices measure both)."""

from __future__ import annotations

from math import log2, prod

import numpy as np

from evaluator.arithmetic import FloatArray
from evaluator.graph.operators import CollectiveExtents, OperatorKind
from evaluator.inputs.devices.device import DeviceProfile, Link
from store.errors import InputError
from store.light_dataclass import dataclass


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
